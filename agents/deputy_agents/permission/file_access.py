"""The access requests for files. Every tool that reads or changes a file uses them, so that a rule about a path applies
to all tools."""

from pathlib import Path

from deputy_agents.domain.rule import AccessRequest, Action
from deputy_agents.files.place import Place, resolve

READ_FILE = "read_file"


def read_access(tool: str, place: Place) -> tuple[AccessRequest, ...]:
    """For reading the file at ``place``: what ``tool`` itself needs, and what ``read_file`` needs for the same file."""
    reading = _request(READ_FILE, Action.READ_SECRET if place.secret else Action.READ, place)
    return (reading,) if tool == READ_FILE else (_request(tool, Action.READ, place), reading)


def folder_access(tool: str, place: Place) -> tuple[AccessRequest, ...]:
    """For reading names below the folder at ``place``. What it reads of files is decided by file."""
    return (_request(tool, Action.READ, place),)


def write_access(tool: str, place: Place) -> tuple[AccessRequest, ...]:
    """For changing or creating the file at ``place``."""
    if place.own_configuration:
        return (_request(tool, Action.CONFIGURE, place),)
    return (_request(tool, Action.EDIT_PROTECTED if place.protected else Action.EDIT, place),)


def guidance_access(path: Path, within: Path | None, *, main: bool) -> tuple[AccessRequest, ...]:
    """For reading a file that users write for agents, below the root ``within`` or, if that is ``None``, at home.
    Blocks.

    Raises:
        OutsideRoots: it leads out of ``within``.
    """
    return read_access(READ_FILE, resolve(path, within, main=main))


def _request(tool: str, action: Action, place: Place) -> AccessRequest:
    aliases = place.aliases if place.main else (*place.aliases, *(str(place.root / name) for name in place.aliases))
    return AccessRequest(
        tool, action, place.subject, place.whole, also=tuple((name, None) for name in dict.fromkeys(aliases))
    )
