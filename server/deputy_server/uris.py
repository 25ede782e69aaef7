"""Addresses of local files, whatever a client sends."""

from pathlib import Path

from pygls.uris import to_fs_path


def local_path(uri: str) -> Path | None:
    """The absolute path that a ``file:`` URI names, symlinks resolved; ``None`` where it names none. Asks the disk."""
    try:
        path = Path(to_fs_path(uri) or "")
        return path.resolve() if path.is_absolute() else None
    except (OSError, RuntimeError, ValueError):  # no name of a file, or links that form a loop
        return None
