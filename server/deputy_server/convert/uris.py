"""Local paths and ``file:`` URIs."""

from pathlib import Path

from pygls.uris import to_fs_path

from deputy_agents.domain.errors import InvalidRequest


def local_path(uri: str) -> Path | None:
    """The absolute path that a ``file:`` URI names, symlinks resolved; ``None`` for any other text. Reads the disk."""
    try:
        path = Path(to_fs_path(uri) or "")
        return path.resolve() if path.is_absolute() else None
    except (OSError, RuntimeError, ValueError):  # not a file name, or a symlink loop
        return None


def uri_of(path: str) -> str:
    """The URI of an absolute path. A path that was stored redacted yields a URI of a file that does not exist."""
    return Path("/", path).as_uri()


def path_of(uri: str, field: str) -> Path:
    """The local path of a ``file:`` URI, symlinks resolved.

    Raises:
        InvalidRequest: ``uri`` is not a ``file:`` URI; the error names ``field``.
    """
    if (path := local_path(uri)) is None:
        raise InvalidRequest(f"{field}: must be a file: URI.", field)
    return path
