"""Reverts an agent's changes of a file, as pure functions.

A change is reverted by a three-way merge of lines: the text after the change is the base, and the current text and the
text before the change are the two sides. If the same lines have been changed since, the merge is a conflict.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import takewhile

from deputy_agents.domain.file_change import FileChange


class Conflict(Exception):
    """The changes of a file cannot be reverted; the message is the reason."""


@dataclass(frozen=True, slots=True)
class _Hunk:
    """``lines`` replace the lines from ``start`` to ``end`` (exclusive) of the base."""

    start: int
    end: int
    lines: tuple[str, ...]

    def overlaps(self, other: "_Hunk") -> bool:
        """Whether both replace some of the same lines, or insert in the same gap between two lines."""
        if self.start == self.end == other.start == other.end:
            return True
        return self.start < other.end and other.start < self.end


def revert(changes: Sequence[FileChange], text: str | None) -> str | None:
    """Revert ``changes`` of a file, given oldest first, whose text is now ``text``. ``None`` means that there is no
    file.

    Raises:
        Conflict: the same lines have been changed since, or the file has been deleted.
    """
    for change in reversed(_join_consecutive(changes)):
        text = _revert_change(change, text)
    return text


def merge(base: str, one: str, other: str) -> str:
    """Merge the changes from ``base`` to ``one`` and from ``base`` to ``other``. Changes of adjacent lines are merged.

    Raises:
        Conflict: both change the same lines in different ways.
    """
    lines = _lines(base)
    ours, theirs = list(_hunks(lines, _lines(one))), list(_hunks(lines, _lines(other)))
    theirs = [hunk for hunk in theirs if hunk not in ours]
    if any(hunk.overlaps(our) for hunk in theirs for our in ours):
        raise Conflict("The same lines have been changed since.")
    result = list(lines)
    for hunk in sorted((*ours, *theirs), key=lambda hunk: (hunk.start, hunk.end), reverse=True):
        result[hunk.start : hunk.end] = hunk.lines
    return "".join(result)


def _revert_change(change: FileChange, text: str | None) -> str | None:
    if change.withheld:
        raise Conflict("It contained a secret, so its earlier text was not stored.")
    if text == change.before:
        return text
    if text == change.after:
        return change.before
    if text is None:
        raise Conflict("It has been deleted since.")
    if change.before is None:
        raise Conflict("It has been changed since it was created.")
    return merge(change.after, text, change.before)


def _join_consecutive(changes: Sequence[FileChange]) -> list[FileChange]:
    """``changes``, with each series that nothing else interrupted as one change."""
    joined: list[FileChange] = []
    for change in changes:
        if joined and joined[-1].after == change.before and not change.withheld:
            joined[-1] = replace(joined[-1], after=change.after)
        else:
            joined.append(change)
    return joined


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[_Hunk]:
    # The time of the comparison grows with the product of both lengths: skip the lines that both share at either end.
    head = _common_prefix(old, new)
    tail = _common_prefix(old[head:][::-1], new[head:][::-1])
    matcher = SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag != "equal":
            yield _Hunk(head + start, head + end, tuple(new[head + new_start : head + new_end]))


def _common_prefix(one: Sequence[str], other: Sequence[str]) -> int:
    """The number of equal lines at the start."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
