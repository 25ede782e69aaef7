"""File references in answers: finds them, checks them against the files, and converts them to locations.

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
from deputy_agents.text import lines_without_ends

MAX_REFERENCES = 100
"""References of one answer that are checked; the rest is ignored."""

_PATH, _LINE = r"[^\s`'\"()\[\]{}<>|,;:*]", r"\d{1,9}"
_REFERENCE = re.compile(
    rf"(?<!{_PATH})(?P<path>{_PATH}+)"  # whole words only: a retry at each character of a long word would take too long
    rf"(?::(?P<start>{_LINE})(?:-(?P<end>{_LINE}))?|#L(?P<hash>{_LINE})(?:-L?(?P<hash_end>{_LINE}))?)(?!\d)"
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference as written; ``end`` is ``None`` for a single line."""

    path: str
    start: int
    end: int | None

    def __str__(self) -> str:
        return f"{self.path}:{self.start}" + (f"-{self.end}" if self.end is not None else "")


@dataclass(frozen=True, slots=True)
class CheckedReferences:
    """The references of a text after the check: ``locations`` that exist, and one text in ``problems`` for each
    reference that does not."""

    locations: tuple[Location, ...]
    problems: tuple[str, ...]


def references_at(text: str) -> Iterator[tuple[Reference, int, int]]:
    """The references in ``text``, in order, each with its start and end offset."""
    for found in _REFERENCE.finditer(text):
        start, end = found["start"] or found["hash"], found["end"] or found["hash_end"]
        if "//" not in found["path"]:
            yield Reference(found["path"], int(start), int(end) if end else None), *found.span()


def references(text: str) -> Iterator[Reference]:
    """The references in ``text``, in order, without duplicates."""
    yield from dict.fromkeys(reference for reference, _, _ in references_at(text))


async def check(text: str, workspace: Workspace, cwd: Path) -> CheckedReferences:
    """Check every reference of ``text`` against the workspace; unsaved text takes precedence over the file on disk."""
    locations: list[Location] = []
    problems: list[str] = []
    files: dict[str, tuple[str, int] | str] = {}
    for reference in islice(references(text), MAX_REFERENCES):
        if reference.path not in files:
            files[reference.path] = await _file_length(reference.path, workspace, cwd)
        match files[reference.path]:
            case str(problem):
                problems.append(f"{reference}: {problem}")
            case path, length if 1 <= reference.start <= (reference.end or reference.start) <= length:
                locations.append(Location(path, reference.start, reference.end or reference.start))
            case _, length:
                problems.append(f"{reference}: the file has {length} lines")
    return CheckedReferences(tuple(locations), tuple(problems))


async def _file_length(path: str, workspace: Workspace, cwd: Path) -> tuple[str, int] | str:
    """The absolute path and the number of lines of a file, or the reason why it cannot be read."""
    try:
        place = await workspace.locate(path, cwd)
        if place.secret:
            return "the file may hold secrets and is not read"
        text = await workspace.read(place)
    except ToolError as error:
        return str(error)
    return "the file does not exist" if text is None else (str(place.path), len(lines_without_ends(text.text)))


def correction(checked: CheckedReferences) -> str:
    """The message to a child whose answer has no valid reference."""
    return f"Your answer has no valid file reference. {_instruction(checked)} Send the complete answer again."


def warning(checked: CheckedReferences) -> str:
    """The text appended to an answer that has no valid reference after all corrections."""
    return f"[warning: the answer has no valid file reference{_problems_text(checked)}]"


def _instruction(checked: CheckedReferences) -> str:
    return f"Cite code as `path:start-end` with lines that exist{_problems_text(checked)}."


def _problems_text(checked: CheckedReferences) -> str:
    return f" ({'; '.join(checked.problems[:10])})" if checked.problems else ""
