"""What users have written down for agents: instructions, skills, and prompts to be called by name.

``instructions`` finds the files that hold for a folder, ``skills`` and ``commands`` read the others, ``mention``
attaches what a prompt names, and ``library`` keeps all of it for one workspace.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Instruction:
    """A file that is part of every system prompt below its folder. ``why`` says where it stands, in words."""

    path: str
    text: str
    why: str
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Skill:
    """How to do something: offered by ``name`` and ``description``, read when it is needed. ``folder`` is absolute and
    holds ``SKILL.md`` with whatever it names; ``source`` is the path of that file."""

    name: str
    description: str
    body: str
    folder: str
    source: str


@dataclass(frozen=True, slots=True)
class Command:
    """A prompt that the user calls as ``/name arguments``. ``body`` may hold ``$ARGUMENTS`` and ``$1`` to ``$9``."""

    name: str
    description: str
    body: str
    source: str
    argument_hint: str | None = None


class SlashCommand(Protocol):
    """What can be called as ``/name arguments``, as lists show it."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def argument_hint(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Place:
    """A folder to look into; ``within`` is the workspace root that it must not leave, ``None`` at home."""

    path: Path
    within: Path | None = None


def places(roots: Sequence[Path], home: Path | None, trusted: bool, folders: Sequence[str]) -> tuple[Place, ...]:
    """Where ``folders`` may be, the nearest first: in the workspace if it is trusted, then at home."""
    at_home = [] if home is None else [home / folder for folder in folders]
    below = [Place(root / folder, root) for folder in folders for root in roots if root / folder not in at_home]
    return (*(below if trusted else ()), *map(Place, at_home))
