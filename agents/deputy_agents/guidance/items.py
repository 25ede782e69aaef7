"""Values of the library: instructions, skills and slash commands. ``access`` is what reading the file requires."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from deputy_agents.domain.rule import AccessRequest


@dataclass(frozen=True, slots=True)
class Instruction:
    """A file that is part of every system prompt below its folder. ``reason`` describes why it applies."""

    path: str
    text: str
    reason: str
    truncated: bool = False
    access: tuple[AccessRequest, ...] = ()

    @property
    def source(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class Skill:
    """Guidance for one kind of task. Agents see ``name`` and ``description``, and read the rest when they need it.
    ``folder`` is the absolute path of the folder with ``SKILL.md`` and related files; ``source`` is the path of
    ``SKILL.md``. ``within`` is the workspace root that no file of the skill may lead out of; ``None`` at home."""

    name: str
    description: str
    body: str
    folder: str
    source: str
    within: Path | None = None
    access: tuple[AccessRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """A prompt that the user calls as ``/name arguments``. Placeholders in ``body``: ``$ARGUMENTS``, ``$1`` to
    ``$9``."""

    name: str
    description: str
    body: str
    source: str
    argument_hint: str | None = None
    access: tuple[AccessRequest, ...] = ()


class SlashCommand(Protocol):
    """The listing of something that the user can call as ``/name arguments``."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def argument_hint(self) -> str | None: ...
