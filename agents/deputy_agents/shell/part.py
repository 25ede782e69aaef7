"""The parts of a line of bash that the gate decides about."""

from dataclasses import dataclass
from typing import TypeAlias

from deputy_agents.shell.surroundings import HERE, Surroundings
from deputy_agents.shell.word import Word


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command with the ``assignments`` before it, as written. ``appended``: further words are added when it
    runs. ``at``: where it runs, and where its input comes from."""

    words: tuple[Word, ...]
    assignments: tuple[str, ...] = ()
    appended: bool = False
    at: Surroundings = HERE


@dataclass(frozen=True, slots=True)
class Statement:
    """Something that bash executes itself: a test, a declaration, an assignment. ``fixed`` is the beginning of ``text``
    before the first part that is only known when it runs. ``words`` are its words as written, those of a test as one
    text in which ``$x`` is in the place of command substitutions."""

    text: str
    fixed: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Redirect:
    """A file that is opened for a command; ``target`` is ``None`` if the word is not understood."""

    target: Word | None
    writes: bool


@dataclass(frozen=True, slots=True)
class Computed:
    """A value that is only known when the line runs. ``names``: variables that bash calculates with. It evaluates their
    values, which may run commands."""

    text: str
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Opaque:
    """Syntax that is not understood, or that runs what no word of the line names."""

    text: str


Part: TypeAlias = Command | Statement | Redirect | Computed | Opaque
