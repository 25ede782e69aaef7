"""Resolved paths: which file a path leads to, and through which names."""

import os
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from deputy_agents.domain.errors import OutsideRoots
from deputy_agents.domain.settings import Root
from deputy_agents.files import disk
from deputy_agents.files.sensitive import is_own_configuration, is_secret, protected_part
from deputy_agents.text import visible


class PathKind(Enum):
    """What a path was when it was resolved. Use it for messages and previews, not for safety checks."""

    FILE = "file"
    FOLDER = "folder"
    MISSING = "missing"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Place:
    """A resolved path: ``path`` is absolute, without links, and beneath ``root``."""

    path: Path
    root: Path
    kind: PathKind
    writable: bool = True
    main: bool = True
    """Whether ``root`` is the main root."""
    aliases: tuple[str, ...] = ()
    """The other names that lead to the file: the requested one, and those of links between. Each is relative to the
    root if it is below, else absolute."""
    own_configuration: bool = False
    """Whether Deputy itself obeys the file."""
    outside: bool = False
    """Whether ``root`` is a folder of the user outside the workspace, such as one with skills."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the path below the root."""
        return self.path.relative_to(self.root).parts

    @property
    def subject(self) -> str:
        """What permission rules match: the path below its root with forward slashes, or ``.`` for the root itself.
        Outside the workspace, the absolute path."""
        return self.path.as_posix() if self.outside else "/".join(self.parts) or "."

    @property
    def whole(self) -> str:
        """What permission rules match besides the subject: the absolute path, or empty beneath the main root."""
        return "" if self.main else self.path.as_posix()

    @property
    def secret(self) -> bool:
        """Whether the file has a name of files that may hold secrets, or a link to it has."""
        return any(map(is_secret, (self.subject, *self.aliases)))

    @property
    def protected(self) -> bool:
        """Whether other programs run or obey the file, such as a Git hook, judged by its name or that of a link."""
        return any(protected_part(name) is not None for name in (self.subject, *self.aliases))

    def below(self, path: str) -> "Place":
        """The file at ``path`` below this folder. It is not looked up: no part of ``path`` may be a link."""
        aliases = tuple(f"{name}/{path}" for name in self.aliases)
        return Place(self.path / path, self.root, PathKind.FILE, self.writable, self.main, aliases)

    def leads_elsewhere_than(self, other: "Place") -> bool:
        """Whether the permission decision about ``other`` does not apply to this place."""
        return (self.path, self.aliases, self.own_configuration) != (other.path, other.aliases, other.own_configuration)


def resolve(path: Path, root: Path | None = None, *, main: bool = False) -> Place:
    """The place of a file that ``path``, an absolute path, leads to. Without a ``root``, it may be anywhere and its own
    folder is the root. The place cannot be written. Blocks.

    Raises:
        OutsideRoots: it leads out of ``root``, through links or otherwise.
    """
    requested = Path(os.path.normpath(path))
    with disk.explain_os_errors(requested):
        real = Path(os.path.realpath(path))
        top = real.parent if root is None else Path(os.path.realpath(root))
        if not real.is_relative_to(top):
            raise OutsideRoots(f"{visible(str(path))} leads out of {visible(str(root))}.")
        place = place_of(requested, real, Root(top), main=main)
        return replace(place, outside=root is None)


def leads_to_own_configuration(path: Path) -> bool:
    """Whether ``path``, which may be outside every root, leads to a file that Deputy itself obeys. Blocks."""
    return any(map(is_own_configuration, (*disk.names_of(path), Path(os.path.realpath(path)))))


def place_of(requested: Path, real: Path, root: Root, *, main: bool) -> Place:
    names = [name for name in disk.names_of(requested) if name != real]
    aliases = (name.relative_to(root.path) if name.is_relative_to(root.path) else name for name in names)
    own = leads_to_own_configuration(requested)
    return Place(real, root.path, _kind(real), root.writable, main, tuple(name.as_posix() for name in aliases), own)


def _kind(path: Path) -> PathKind:
    if not os.path.lexists(path):
        return PathKind.MISSING
    if path.is_dir():
        return PathKind.FOLDER
    return PathKind.FILE if path.is_file() else PathKind.OTHER
