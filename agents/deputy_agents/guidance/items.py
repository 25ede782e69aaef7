"""What the library holds: instructions, skills and slash commands."""

from dataclasses import dataclass
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
