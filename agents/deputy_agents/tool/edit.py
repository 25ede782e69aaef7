"""Changing files: ``edit_file`` and ``write_file``.

An existing file is changed only by an agent that has read it, and only while it still is as it was read. The preview is
what would happen now, earlier proposals of the same response assumed; ``run`` computes again from the text of then.
"""

import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, TypeVar

from anyio import to_thread
from pydantic import Field

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import DiffPreview, Location, ToolKind
from deputy_agents.domain.rule import AccessRequest, Action
from deputy_agents.files.encoding import check_new
from deputy_agents.files.workspace import Place, digest
from deputy_agents.text import cut, readable, visible
from deputy_agents.tool.args import ArgsTool, PathArgs
from deputy_agents.tool.base import Prepared, ToolContext, ToolOutput
from deputy_agents.tool.feedback import after_edit, before_edit
from deputy_agents.tool.read import lines_of

_MAX_SPANS = 20
_MAX_HINT_LINES = 3000


class EditFileArgs(PathArgs):
    path: Annotated[str, Field(description="File to change, relative to the root or absolute. Read it first.")]
    old_string: Annotated[
        str,
        Field(
            min_length=1,
            description="Text to replace, exactly as in the file, without line numbers; it must be unique.",
        ),
    ]
    new_string: Annotated[str, Field(description="Text to put in its place.")]
    replace_all: Annotated[bool, Field(description="Replace every occurrence.")] = False


class WriteFileArgs(PathArgs):
    path: Annotated[
        str, Field(description="File to write, relative to the root or absolute. Read it first if it exists.")
    ]
    content: Annotated[str, Field(description="The whole new text.")]


E = TypeVar("E", bound=PathArgs)
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Change:
    """A new text, and the lines (from 1, both ends included) that change: in the old text, and in the new one."""

    text: str
    old: tuple[Span, ...]
    new: tuple[Span, ...]


class _Editing(ArgsTool[E]):
    """What both tools share; ``change`` says what they do to a text (``None``: no file yet), and is pure."""

    @staticmethod
    @abstractmethod
    def change(args: E, text: str | None) -> Change:
        """Raises ToolError when the change does not fit the text."""

    async def prepare(self, args: E, context: ToolContext) -> Prepared:
        place = await args.look(context)
        context.workspace.check_writable(place)
        shown = context.workspace.shown(place, context.cwd)
        if context.marks.is_gone(place) and not await context.workspace.is_open(place):
            context.marks.on_disk.discard(place.path)  # a file that is made anew is shown as one
        present = await _present(place, context, shown)
        before = context.proposed.get(place.path, present)
        change = await to_thread.run_sync(self._change, args, before, shown)
        await context.workspace.check_write(place, change.text)
        action = Action.EDIT_PROTECTED if place.protected else Action.EDIT
        return Prepared(
            shown,
            [AccessRequest(self.name, action, place.subject, place.whole)],
            _locations(place, change.old),
            DiffPreview(str(place.path), before if before is None else readable(before), readable(change.text)),
        )

    async def run(self, args: E, context: ToolContext) -> ToolOutput:
        place = await args.use(context)
        shown = context.workspace.shown(place, context.cwd)
        present = await _present(place, context, shown)
        change = await to_thread.run_sync(self._change, args, present, shown)
        label = f"{context.label}: {self.name}({shown})"
        problems = await before_edit(place, context)
        async with context.changing(place.path, present, change.text):
            await context.workspace.write(place, change.text, expected=present, label=label)
        context.marks.see(place, change.text)
        verb = "Changed" if present is not None else "Created"
        news = await after_edit(place, context, problems)
        return ToolOutput(f"{verb} {shown}: {_spans(change.new)}.{news}", locations=_locations(place, change.new))

    def _change(self, args: E, text: str | None, shown: str) -> Change:
        try:
            change = self.change(args, text)
        except ToolError as error:
            raise ToolError(f"{shown}: {error}") from None
        check_new(change.text, text or "")
        if change.text == text:
            raise ToolError(f"{shown}: the new text is the same as the old one.")
        return change


class EditFile(_Editing[EditFileArgs]):
    """Replaces one text, or every occurrence of it."""

    def __init__(self) -> None:
        super().__init__(
            "edit_file",
            ToolKind.EDIT,
            EditFileArgs,
            "Replaces old_string by new_string in a file that you have read. old_string must occur exactly once, "
            "unless replace_all is set: give enough lines around it.",
        )

    @staticmethod
    def change(args: EditFileArgs, text: str | None) -> Change:
        if text is None:
            raise ToolError("there is no such file; write_file makes one.")
        # The model does not see how lines end, so either ending matches, and the new text gets the file's own.
        old = re.compile(r"\r?\n".join(map(re.escape, _plain(args.old_string).split("\n"))))
        found = list(old.finditer(text))
        if not found:
            raise ToolError(f"old_string was not found.{_hint(args.old_string, text)}")
        if len(found) > 1 and not args.replace_all:
            places = _spans(_lines(text, [match.span() for match in found]))
            raise ToolError(f"old_string occurs {len(found)} times ({places}); make it unique, or set replace_all.")
        return _replaced(text, [match.span() for match in found], _ended(args.new_string, text))


class WriteFile(_Editing[WriteFileArgs]):
    """Makes a file, or replaces its whole text."""

    def __init__(self) -> None:
        super().__init__(
            "write_file",
            ToolKind.EDIT,
            WriteFileArgs,
            "Makes a new file, with the folders above it, or replaces the whole text of one that you have read.",
        )

    @staticmethod
    def change(args: WriteFileArgs, text: str | None) -> Change:
        if text is None:
            return Change(args.content, (), _all_lines(args.content))
        content = _ended(args.content, text)
        return Change(content, _all_lines(text), _all_lines(content))


async def _present(place: Place, context: ToolContext, shown: str) -> str | None:
    """The text at ``place``, which the agent must have read and nobody changed since; ``None`` when there is no file.

    Only the digest is compared, and before anything is said about the content: an error tells nothing of a file that
    the agent was not allowed to read. What is empty, as an editor shows a file that is not there yet, need not be read.
    """
    if context.marks.is_gone(place):
        # An open document would be saved, and make the file anew beside the one that has been moved.
        raise ToolError(f"{shown} is gone from disk since you read it.")
    file = await context.workspace.read(place)
    if file is None:
        return None
    if not file.text and place.path not in context.marks.seen:
        return ""
    mark = context.marks.seen.get(place.path)
    if mark is None:
        raise ToolError(f"{shown} has not been read yet; use read_file first.")
    if mark != digest(file.text):
        raise ToolError(f"{shown} has changed since you read it; read it again.")
    return file.text


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n")


def _ended(new: str, text: str) -> str:
    """``new`` with the line ends that most lines of ``text`` have."""
    crlf = text.count("\r\n")
    return _plain(new).replace("\n", "\r\n") if crlf * 2 > text.count("\n") else new


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
    return Change(after, _lines(text, spans), _lines(after, ends))


def _lines(text: str, spans: Sequence[Span]) -> tuple[Span, ...]:
    """The lines of character ranges, which are in order."""
    lines: list[Span] = []
    number, at = 1, 0
    for start, end in spans:
        number += text.count("\n", at, start)
        inner = text.count("\n", start, max(start, end - 1))
        lines.append((number, number + inner))
        at = start
    return tuple(lines)


def _all_lines(text: str) -> tuple[Span, ...]:
    count = len(lines_of(text))
    return ((1, count),) if count else ()


def _locations(place: Place, spans: Sequence[Span]) -> tuple[Location, ...]:
    path = str(place.path)
    return tuple(Location(path, *span) for span in spans[:_MAX_SPANS]) or (Location(path),)


def _spans(spans: Sequence[Span]) -> str:
    """``line 3``, ``lines 3-5, 9``."""
    if not spans:
        return "no lines"
    texts = [str(start) if start == end else f"{start}-{end}" for start, end in spans[:_MAX_SPANS]]
    rest = f" and {len(spans) - _MAX_SPANS} more" if len(spans) > _MAX_SPANS else ""
    word = "line" if texts == [str(spans[0][0])] and not rest else "lines"
    return f"{word} {', '.join(texts)}{rest}"


def _hint(old: str, text: str) -> str:
    """Where the nearest line is: a wrong indentation or a misremembered word is the usual fault."""
    first = next((line.strip() for line in old.splitlines() if line.strip()), "")
    lines = [line.strip() for line in lines_of(text)]
    if not first or len(first) > 500:
        return ""
    near = [first] if first in lines else get_close_matches(first, lines[:_MAX_HINT_LINES], n=1)
    if not near:
        return ""
    number = lines.index(near[0]) + 1
    how = "differs from it in white space or in the lines after it" if near[0] == first else "is the nearest"
    return f" Line {number} {how}: {cut(visible(near[0]), 200)}"
