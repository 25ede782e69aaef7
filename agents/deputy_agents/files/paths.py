"""Home folder and short paths."""

from pathlib import Path


def home_folder() -> Path | None:
    """The user's home folder; ``None`` for an account without one."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def short_path(place: str, folder: Path) -> str:
    """``place`` relative to ``folder``, or to the home folder with ``~/``. Other paths, and text that is not a path,
    are returned unchanged."""
    for base, name in ((folder, ""), (home_folder(), "~/")):
        if base is not None and Path(place).is_relative_to(base):
            return f"{name}{Path(place).relative_to(base).as_posix()}"
    return place
