"""Home folder, state folder and short paths."""

from collections.abc import Mapping
from pathlib import Path


def home_folder() -> Path | None:
    """The user's home folder; ``None`` for an account without one."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def config_folder(environ: Mapping[str, str]) -> Path | None:
    """The folder of the user's own settings, which may not exist: ``DEPUTY_CONFIG``, or ``.deputy`` in the home folder;
    ``None`` for an account without one."""
    if named := environ.get("DEPUTY_CONFIG", "").strip():
        return Path(named).absolute()
    home = home_folder()
    return None if home is None else home / ".deputy"


def state_folder(environ: Mapping[str, str]) -> Path:
    """The folder of Deputy's state, such as stored sessions, which may not exist."""
    named = environ.get("DEPUTY_STATE", "").strip()
    if named:
        return Path(named).absolute()
    from platformdirs import user_state_path  # late: not every start needs it

    return user_state_path("deputy", appauthor=False)


def short_path(place: str, folder: Path) -> str:
    """``place`` relative to ``folder``, or to the home folder with ``~/``. Other paths, and text that is not a path,
    are returned unchanged."""
    for base, name in ((folder, ""), (home_folder(), "~/")):
        if base is not None and Path(place).is_relative_to(base):
            return f"{name}{Path(place).relative_to(base).as_posix()}"
    return place
