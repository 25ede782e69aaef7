"""File references in answers: found, checked against the real text, and turned into locations.

A reference is ``path:line``, ``path:start-end`` or ``path#Lstart-Lend``, with a path inside the workspace.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import Location
from deputy_agents.files.workspace import Workspace
from deputy_agents.tool.read import lines_of

MAX_REFERENCES = 100
"""References of one answer that are looked at; the rest is left alone."""

_PATH, _LINE = r"[^\s`'\"()\[\]{}<>|,;:*]", r"\d{1,9}"
_REFERENCE = re.compile(
    rf"(?<!{_PATH})(?P<path>{_PATH}+)"  # whole words alone: looking again at each letter of a long one takes for ever
    rf"(?::(?P<start>{_LINE})(?:-(?P<end>{_LINE}))?|#L(?P<hash>{_LINE})(?:-L?(?P<hash_end>{_LINE}))?)(?!\d)"
)


@dataclass(frozen=True, slots=True)
class Reference:
    """As it stands in the text; ``end`` is ``None`` for a single line."""

    path: str
    start: int
    end: int | None

    def __str__(self) -> str:
        return f"{self.path}:{self.start}" + (f"-{self.end}" if self.end is not None else "")


@dataclass(frozen=True, slots=True)
class Checked:
    """What the references of a text came to: real ``locations``, and a sentence for each one that is not."""

    locations: tuple[Location, ...]
    problems: tuple[str, ...]


def references_at(text: str) -> Iterator[tuple[Reference, int, int]]:
    """The references in ``text``, in order, each with where it begins and ends."""
    for found in _REFERENCE.finditer(text):
        start, end = found["start"] or found["hash"], found["end"] or found["hash_end"]
        if "//" not in found["path"]:
            yield Reference(found["path"], int(start), int(end) if end else None), *found.span()


def references(text: str) -> Iterator[Reference]:
    """The references in ``text``, in order, each once."""
    yield from dict.fromkeys(reference for reference, _, _ in references_at(text))


async def check(text: str, workspace: Workspace, cwd: Path) -> Checked:
    """Looks every reference of ``text`` up in the workspace, unsaved buffers first."""
    locations: list[Location] = []
    problems: list[str] = []
    files: dict[str, tuple[str, int] | str] = {}
    for reference in islice(references(text), MAX_REFERENCES):
        if reference.path not in files:
            files[reference.path] = await _look(reference.path, workspace, cwd)
        match files[reference.path]:
            case str(problem):
                problems.append(f"{reference}: {problem}")
            case path, length if 1 <= reference.start <= (reference.end or reference.start) <= length:
                locations.append(Location(path, reference.start, reference.end or reference.start))
            case _, length:
                problems.append(f"{reference}: the file has {length} lines")
    return Checked(tuple(locations), tuple(problems))


async def _look(path: str, workspace: Workspace, cwd: Path) -> tuple[str, int] | str:
    """The absolute path and the number of lines of a file, or why there is none."""
    try:
        place = await workspace.locate(path, cwd)
        if place.secret:
            return "it is not looked at, as it may hold secrets"
        text = await workspace.read(place)
    except ToolError as error:
        return str(error)
    return "there is no such file" if text is None else (str(place.path), len(lines_of(text.text)))


def correction(checked: Checked) -> str:
    """What a child is told whose answer names no real place."""
    return f"Your answer has no valid file reference. {_wanted(checked)} Give the whole answer again."


def warning(checked: Checked) -> str:
    """What goes with an answer that never named one."""
    return f"[warning: the answer has no valid file reference{_found(checked)}]"


def _wanted(checked: Checked) -> str:
    return f"Name places as `path:start-end` with lines that exist{_found(checked)}."


def _found(checked: Checked) -> str:
    return f" ({'; '.join(checked.problems[:10])})" if checked.problems else ""
