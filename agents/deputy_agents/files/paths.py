"""Paths as users name them."""

from pathlib import Path


def home_folder() -> Path | None:
    """The user's home; ``None`` for an account without one."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def short_path(place: str, folder: Path) -> str:
    """A path as people name it: from ``folder``, which they work in, or from their home. What is none stays."""
    for base, name in ((folder, ""), (home_folder(), "~/")):
        if base is not None and Path(place).is_relative_to(base):
            return f"{name}{Path(place).relative_to(base).as_posix()}"
    return place
