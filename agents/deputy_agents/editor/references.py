"""File references in answers: finds them, checks them against the files, and converts them to locations.

A reference is ``path:line``, ``path:start-end`` or ``path#Lstart-Lend``, with a path inside the workspace.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from deputy_agents.concurrency.off_loop import off_loop
from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import Location
from deputy_agents.domain.rule import AccessRequest
from deputy_agents.files.workspace import Workspace
from deputy_agents.permission.file_access import READ_FILE, read_access

MAX_REFERENCES = 100
"""References of one answer that are checked; the rest is ignored."""

_PATH, _LINE = r"[^\s`'\"()\[\]{}<>|,;:*]", r"\d{1,9}"
_REFERENCE = re.compile(
    rf"(?<!{_PATH})(?P<path>{_PATH}+)"  # whole words only: a retry at each character of a long word would take too long
    rf"(?::(?P<start>{_LINE})(?:-(?P<end>{_LINE}))?|#L(?P<hash>{_LINE})(?:-L?(?P<hash_end>{_LINE}))?)(?!\d)"
)
_SPACE = re.compile(r"\s")
_PART = 2**16
"""Characters that are searched at once, and the length from which a word is no reference."""


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
    for found in _found(text):
        start, end = found["start"] or found["hash"], found["end"] or found["hash_end"]
        if "//" not in found["path"]:
            yield Reference(found["path"], int(start), int(end) if end else None), *found.span()


def _found(text: str) -> Iterator[re.Match[str]]:
    """The references in parts of ``text`` that end between two words: no other thread can run during a search."""
    at = 0
    while at < len(text):
        end = _SPACE.search(text, at + _PART, at + 2 * _PART)
        limit = end.start() if end is not None else at + 2 * _PART
        yield from _REFERENCE.finditer(text, at, limit)
        at = limit


def references(text: str) -> Iterator[Reference]:
    """The references in ``text``, in order, without duplicates."""
    yield from dict.fromkeys(reference for reference, _, _ in references_at(text))


async def check(
    text: str, workspace: Workspace, cwd: Path, may_read: Callable[[AccessRequest], bool]
) -> CheckedReferences:
    """Check every reference of ``text`` against the workspace; unsaved text takes precedence over the file on disk.
    ``may_read`` is the decision of the gate about reading a file without asking."""
    locations: list[Location] = []
    problems: list[str] = []
    files: dict[str, tuple[str, int] | str] = {}
    for reference in await off_loop(len(text), lambda: list(islice(references(text), MAX_REFERENCES))):
        if reference.path not in files:
            files[reference.path] = await _file_length(reference.path, workspace, cwd, may_read)
        match files[reference.path]:
            case str(problem):
                problems.append(f"{reference}: {problem}")
            case path, length if 1 <= reference.start <= (reference.end or reference.start) <= length:
                locations.append(Location(path, reference.start, reference.end or reference.start))
            case _, length:
                problems.append(f"{reference}: the file has {length} lines")
    return CheckedReferences(tuple(locations), tuple(problems))


async def _file_length(
    path: str, workspace: Workspace, cwd: Path, may_read: Callable[[AccessRequest], bool]
) -> tuple[str, int] | str:
    """The absolute path and the number of lines of a file, or the reason why it cannot be read."""
    try:
        place = await workspace.locate(path, cwd)
        if not all(map(may_read, read_access(READ_FILE, place))):
            return "reading the file needs approval"
        text = await workspace.read(place)
    except ToolError as error:
        return str(error)
    return "the file does not exist" if text is None else (str(place.path), _count_lines(text.text))


def _count_lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") and bool(text))


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
