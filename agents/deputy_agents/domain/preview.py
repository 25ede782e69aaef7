"""What users see of a call: what it would do, and what it has changed."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

NO_FINAL_LINE_END = "\\ No newline at end of file"
"""The note after a last line without an end."""


@dataclass(frozen=True, slots=True)
class DiffHunk:
    """Changed lines with some around them. Starts count from 1; a start is 0 if there are no lines before or after the
    change. Each of ``lines`` begins with a space, ``-``, ``+``, or a backslash before a note such as ``No newline at
    end of file``, and has no line end."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EditDiff:
    """What an edit has changed in a file. If ``hunks`` do not contain all of it, ``truncated`` is true."""

    hunks: tuple[DiffHunk, ...]
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class DiffPreview:
    """A change of a file: its complete texts before and after, where ``old_text`` is ``None`` for a new file. For large
    texts, both are ``None`` and there are ``hunks`` instead; if they do not contain all of the change, ``truncated`` is
    true."""

    path: str
    old_text: str | None
    new_text: str | None
    hunks: tuple[DiffHunk, ...] = ()
    truncated: bool = False
    type: Literal["diff"] = "diff"


@dataclass(frozen=True, slots=True)
class CommandPreview:
    command: str
    cwd: str
    type: Literal["command"] = "command"


@dataclass(frozen=True, slots=True)
class TextPreview:
    text: str
    type: Literal["text"] = "text"


Preview: TypeAlias = DiffPreview | CommandPreview | TextPreview
