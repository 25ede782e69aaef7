"""Changing files: ``edit_file`` and ``write_file``.

An agent can change an existing file only if it has read the file and the file has not changed since. The preview shows
the change against the current text with earlier proposals of the same response applied; ``run`` computes the change
again from the text at that time.
"""

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import Annotated, TypeVar

from anyio import to_thread
from pydantic import Field

from deputy_agents.concurrency.off_loop import off_loop
from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import Location, ToolKind
from deputy_agents.domain.preview import DiffPreview, EditDiff
from deputy_agents.files.encoding import check_new
from deputy_agents.files.line_diff import Replaced, diff_hunks
from deputy_agents.files.place import Place
from deputy_agents.files.workspace import digest
from deputy_agents.permission.file_access import write_access
from deputy_agents.text import cut, lines_without_ends, visible, well_formed
from deputy_agents.tool.args import ArgsTool, PathArgs
from deputy_agents.tool.base import Prepared, ToolContext, ToolOutput, Written
from deputy_agents.tool.feedback import after_edit, before_edit

MAX_PREVIEW = 2**18
"""Characters of both texts of a change that a permission request contains completely. Of larger ones it contains the
hunks: the request is sent to each client and stored."""
_MAX_SPANS = 20
_MAX_HINT_LINES = 3000


class EditFileArgs(PathArgs):
    path: Annotated[str, Field(description="File to change, relative to the root or absolute. Read it first.")]
    old_string: Annotated[
        str,
        Field(
            min_length=1,
            description="Text to replace, exactly as in the file, without line numbers. It must be unique.",
        ),
    ]
    new_string: Annotated[str, Field(description="The replacement text.")]
    replace_all: Annotated[bool, Field(description="Replace every occurrence.")] = False


class WriteFileArgs(PathArgs):
    path: Annotated[
        str, Field(description="File to write, relative to the root or absolute. Read it first if it exists.")
    ]
    content: Annotated[str, Field(description="The complete new text.")]


E = TypeVar("E", bound=PathArgs)
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Change:
    """A new text, and the changed lines (from 1, both ends included) in the old and in the new text."""

    text: str
    old: tuple[Span, ...]
    new: tuple[Span, ...]
    regions: tuple[Replaced, ...] | None = None
    """Lines that contain all changes, where that is known to be less than the whole text."""


class _EditTool(ArgsTool[E]):
    """Base of both tools."""

    @staticmethod
    @abstractmethod
    def change(args: E, text: str | None) -> Change:
        """Apply the call to ``text`` (``None``: no file yet). Pure. Raises ToolError if it cannot be applied."""

    async def prepare(self, args: E, context: ToolContext) -> Prepared:
        place = await args.locate(context)
        context.workspace.check_writable(place)
        shown = context.workspace.shown(place, context.cwd)
        if context.marks.is_deleted(place) and not await context.workspace.is_open(place):
            context.marks.on_disk.discard(place.path)  # the preview shows a new file
        current = await _current_text(place, context, shown)
        before = context.proposed.get(place.path, current)
        change = await to_thread.run_sync(self._change, args, before, shown)
        await context.workspace.check_write(place, change.text)
        preview, complete = await to_thread.run_sync(_previews, place, before, change)
        access = write_access(self.name, place)
        return Prepared(shown, access, _locations(place, change.old), preview, complete)

    async def run(self, args: E, context: ToolContext) -> ToolOutput:
        place = await args.relocate(context)
        shown = context.workspace.shown(place, context.cwd)
        current = await _current_text(place, context, shown)
        change = await to_thread.run_sync(self._change, args, current, shown)
        label = f"{context.label}: {self.name}({shown})"
        problems = await before_edit(place, context)
        async with context.record_change(place.path, current, change.text):
            writes = await context.workspace.write(place, change.text, expected=current, label=label)
        await context.marks.record(place, change.text)
        written = Written(place, change.text, writes)
        diff = await off_loop(len(current or "") + len(change.text), partial(_diff, current, change))
        verb = "Changed" if current is not None else "Created"
        new_problems = await after_edit(place, context, problems)
        text = f"{verb} {shown}: {_spans_text(change.new)}.{new_problems}"
        return ToolOutput(text, locations=_locations(place, change.new), written=written, diff=diff)

    def _change(self, args: E, text: str | None, shown: str) -> Change:
        try:
            change = self.change(args, text)
        except ToolError as error:
            raise ToolError(f"{shown}: {error}") from None
        check_new(change.text, text or "")
        if change.text == text:
            raise ToolError(f"{shown}: the new text is the same as the old one.")
        return change


class EditFile(_EditTool[EditFileArgs]):
    """Replaces one occurrence of a text, or every occurrence."""

    def __init__(self) -> None:
        super().__init__(
            "edit_file",
            ToolKind.EDIT,
            EditFileArgs,
            "Replaces old_string with new_string in a file that you have read. old_string must occur exactly once "
            "unless replace_all is set: include enough surrounding lines.",
        )

    @staticmethod
    def change(args: EditFileArgs, text: str | None) -> Change:
        if text is None:
            raise ToolError("the file does not exist; use write_file to create it.")
        # The model does not see line endings, so either ending matches and the new text gets the ending of the file.
        old = re.compile(r"\r?\n".join(map(re.escape, _with_lf(args.old_string).split("\n"))))
        found = list(old.finditer(text))
        if not found:
            raise ToolError(f"old_string was not found.{_hint(args.old_string, text)}")
        if len(found) > 1 and not args.replace_all:
            lines = _spans_text(_lines(text, [match.span() for match in found]))
            raise ToolError(f"old_string occurs {len(found)} times ({lines}). Make it unique or set replace_all.")
        return _replaced(text, [match.span() for match in found], _with_line_ends_of(text, args.new_string))


class WriteFile(_EditTool[WriteFileArgs]):
    """Creates a file or replaces its complete text."""

    def __init__(self) -> None:
        super().__init__(
            "write_file",
            ToolKind.EDIT,
            WriteFileArgs,
            "Creates a file and its parent folders, or replaces the complete text of a file that you have read.",
        )

    @staticmethod
    def change(args: WriteFileArgs, text: str | None) -> Change:
        if text is None:
            return Change(args.content, (), _all_lines(args.content))
        content = _with_line_ends_of(text, args.content)
        return Change(content, _all_lines(text), _all_lines(content))


async def _current_text(place: Place, context: ToolContext, shown: str) -> str | None:
    """The text at ``place``; ``None`` if there is no file.

    Only digests are compared, before any other check of the content, so that errors reveal nothing about a file that
    the agent was not allowed to read. An empty text, as an editor shows for a new file, need not have been read.

    Raises:
        ToolError: the agent has not read the file, or it has changed since.
    """
    if context.marks.is_deleted(place):
        # Saving the open document would create the file again next to the one that was moved.
        raise ToolError(f"{shown} was deleted or moved since you read it.")
    file = await context.workspace.read(place)
    if file is None:
        return None
    if not file.text and place.path not in context.marks.seen:
        return ""
    mark = context.marks.seen.get(place.path)
    if mark is None:
        raise ToolError(f"{shown} has not been read yet. Use read_file first.")
    text = file.text
    if mark != await off_loop(len(text), lambda: digest(text)):
        raise ToolError(f"{shown} has changed since you read it. Read it again.")
    return file.text


def _with_lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def _with_line_ends_of(text: str, new: str) -> str:
    """``new`` with CRLF if most lines of ``text`` end with it."""
    crlf = text.count("\r\n")
    return _with_lf(new).replace("\n", "\r\n") if crlf * 2 > text.count("\n") else new


def _replaced(text: str, spans: Sequence[Span], new: str) -> Change:
    pieces: list[str] = []
    ends: list[Span] = []
    done = length = 0
    for start, end in spans:
        pieces += (text[done:start], new)
        length += start - done
        ends.append((length, length + len(new)))
        length += len(new)
        done = end
    after = "".join([*pieces, text[done:]])
    return Change(after, _lines(text, spans), _lines(after, ends), _regions(text, spans, after, ends))


def _regions(old: str, old_spans: Sequence[Span], new: str, new_spans: Sequence[Span]) -> tuple[Replaced, ...]:
    """The lines that contain the character ranges, which are in order."""
    regions: list[Replaced] = []
    for before, after in zip(_line_ranges(old, old_spans), _line_ranges(new, new_spans), strict=True):
        region = Replaced(*before, *after)
        if regions and before[0] < regions[-1].old_end:
            region = replace(regions.pop(), old_end=before[1], new_end=after[1])
        regions.append(region)
    return tuple(regions)


def _line_ranges(text: str, spans: Sequence[Span]) -> Iterator[Span]:
    """The lines that contain character ranges, counted from 0, ends excluded."""
    number = at = 0
    for start, end in spans:
        number += text.count("\n", at, start)
        yield number, number + text.count("\n", start, end) + 1
        at = start


def _previews(place: Place, before: str | None, change: Change) -> tuple[DiffPreview, DiffPreview]:
    """What permission requests show of a change, and all of it."""
    old, new = None if before is None else well_formed(before), well_formed(change.text)
    complete = DiffPreview(str(place.path), old, new)
    if len(old or "") + len(new) <= MAX_PREVIEW:
        return complete, complete
    diff = _diff(old, change)
    return DiffPreview(complete.path, None, None, diff.hunks, diff.truncated), complete


def _diff(before: str | None, change: Change) -> EditDiff:
    return EditDiff(*diff_hunks(well_formed(before or ""), well_formed(change.text), change.regions))


def _lines(text: str, spans: Sequence[Span]) -> tuple[Span, ...]:
    """The line ranges of character ranges, which must be in order."""
    lines: list[Span] = []
    number, at = 1, 0
    for start, end in spans:
        number += text.count("\n", at, start)
        inner = text.count("\n", start, max(start, end - 1))
        lines.append((number, number + inner))
        at = start
    return tuple(lines)


def _all_lines(text: str) -> tuple[Span, ...]:
    count = len(lines_without_ends(text))
    return ((1, count),) if count else ()


def _locations(place: Place, spans: Sequence[Span]) -> tuple[Location, ...]:
    path = str(place.path)
    return tuple(Location(path, *span) for span in spans[:_MAX_SPANS]) or (Location(path),)


def _spans_text(spans: Sequence[Span]) -> str:
    """``line 3``, ``lines 3-5, 9``."""
    if not spans:
        return "no lines"
    texts = [str(start) if start == end else f"{start}-{end}" for start, end in spans[:_MAX_SPANS]]
    rest = f" and {len(spans) - _MAX_SPANS} more" if len(spans) > _MAX_SPANS else ""
    word = "line" if texts == [str(spans[0][0])] and not rest else "lines"
    return f"{word} {', '.join(texts)}{rest}"


def _hint(old: str, text: str) -> str:
    """The line nearest to ``old``, which usually has a wrong indentation or a misremembered word."""
    first = next((line.strip() for line in old.splitlines() if line.strip()), "")
    lines = [line.strip() for line in lines_without_ends(text)]
    if not first or len(first) > 500:
        return ""
    near = [first] if first in lines else get_close_matches(first, lines[:_MAX_HINT_LINES], n=1)
    if not near:
        return ""
    number = lines.index(near[0]) + 1
    how = "differs in white space or in the lines after it" if near[0] == first else "is the nearest match"
    return f" Line {number} {how}: {cut(visible(near[0]), 200)}"
