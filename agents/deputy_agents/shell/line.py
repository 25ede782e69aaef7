"""A line of bash as the gate decides about it: its parts at every depth. Where they do not decide alone what runs, the
complete line is a part too, because a permission for a part could otherwise be used in another line."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from deputy_agents.shell.builtin import (
    BUILTINS,
    SPECIAL,
    Effect,
    assignment_effect,
    command_effect,
    test_effect,
)
from deputy_agents.shell.evaluation import calculated_names
from deputy_agents.shell.inner import inner
from deputy_agents.shell.parse import check_count, parse
from deputy_agents.shell.part import Command, Computed, Opaque, Part, Redirect, Statement
from deputy_agents.shell.word import read_word


@dataclass(frozen=True, slots=True)
class Line:
    """The complete line. Only a permission for exactly this text covers it."""

    text: str


LinePart: TypeAlias = Part | Line

_ASSIGNMENT: Final = re.compile(r"(?P<name>[a-z][a-z0-9_]*)\+?=(?P<value>.*)", re.DOTALL)


def parts_of(text: str) -> tuple[LinePart, ...]:
    """Everything that the line ``text`` runs, at every depth. Takes milliseconds.

    Raises:
        ToolError: that is too much.
    """
    found: list[Part] = []
    for outer in parse(text):
        found += (outer, *_inner_of(outer))
        check_count(found)
    known = [part for part in found if not isinstance(part, Opaque | Computed)]
    line = text.strip()
    effect = max(map(_effect, found), default=Effect.NONE)
    if effect is Effect.UNKNOWN or _is_tainted(found):
        return (*known, Opaque(line))
    if effect is Effect.NONE or _is_whole(known, line):
        return tuple(known)
    return (*known, Line(line))


def _inner_of(part: Part) -> Sequence[Part]:
    return inner(part) if isinstance(part, Command) else ()


def _is_whole(parts: Sequence[Part], line: str) -> bool:
    """Whether the line is only one command, so that its words are the complete line."""
    first = parts[0] if len(parts) == 1 else None
    return isinstance(first, Command) and " ".join(word.shown for word in first.words) == line


def _effect(part: Part) -> Effect:
    match part:
        case Command(words, assignments):
            lasting = not words or words[0].text in SPECIAL
            before = [assignment_effect(text, lasting) for text in assignments]
            return max(command_effect(words), *before) if before else command_effect(words)
        case Statement():
            return _statement_effect(part)
        case Redirect(target):
            return Effect.NONE if target is not None and target.plain else Effect.LINE
        case Computed():
            return Effect.LINE
        case Opaque():
            return Effect.UNKNOWN


def _statement_effect(statement: Statement) -> Effect:
    words = statement.words
    if words[0].startswith("["):
        return test_effect(words[0])
    if words[0] not in BUILTINS:
        return max(map(assignment_effect, words))
    read = [read_word(word) for word in words]
    known = [word for word in read if word is not None]
    return command_effect(known) if len(known) == len(read) else Effect.UNKNOWN


def _is_tainted(parts: Iterable[Part]) -> bool:
    """Whether a calculation could use a value that runs commands: it is safe only with variables to which the line
    assigns nothing but numbers."""
    names: set[str] = set()
    numeric: set[str] = set()
    others = False
    for part in parts:
        match part:
            case Computed():
                names |= part.names
                others = others or not part.names
            case Statement(words=words) if words[0].startswith("["):
                pass
            case Statement(words=words):
                assigned = list(map(_number_assigned, words))
                others = others or not all(assigned)
                numeric.update(filter(None, assigned))
            case Command(words, assignments):
                others = others or bool(assignments) or command_effect(words) > _computed_effect(part)
            case _:
                pass
    return bool(names) and (others or not names <= numeric)


def _number_assigned(assignment: str) -> str | None:
    """The variable to which ``assignment`` assigns a number."""
    found = _ASSIGNMENT.fullmatch(assignment)
    if found is None:
        return None
    value = found["value"]
    return found["name"] if re.fullmatch(r"-?\d*", value) or calculated_names(value) is not None else None


def _computed_effect(command: Command) -> Effect:
    """The effect that it has only because its words are computed."""
    return Effect.LINE if any(word.computed for word in command.words) else Effect.NONE
