"""Addresses of local files, whatever a client sends."""

from pathlib import Path

from pygls.uris import to_fs_path

from deputy_agents.domain.errors import InvalidRequest


def local_path(uri: str) -> Path | None:
    """The absolute path that a ``file:`` URI names, symlinks resolved; ``None`` where it names none. Asks the disk."""
    try:
        path = Path(to_fs_path(uri) or "")
        return path.resolve() if path.is_absolute() else None
    except (OSError, RuntimeError, ValueError):  # no name of a file, or links that form a loop
        return None


def uri_of(path: str) -> str:
    """The URI of an absolute path. One that was stored with a part taken out is no path any more, and leads nowhere."""
    return Path("/", path).as_uri()


def path_of(uri: str, field: str) -> Path:
    """The local path of a ``file:`` URI, symlinks resolved.

    Raises:
        InvalidRequest: it is no such URI; the error names ``field``.
    """
    if (path := local_path(uri)) is None:
        raise InvalidRequest(f"{field}: a file: URI is needed.", field)
    return path
