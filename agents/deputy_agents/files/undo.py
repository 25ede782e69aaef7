"""Taking edits back: what a file would be without them, as pure functions.

A change is taken back by merging three texts line by line: what the change made of the file, what the file is now, and
what it was before. Where somebody has changed the same lines since, nothing is guessed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import takewhile

from deputy_agents.domain.file_change import FileChange


class Conflict(Exception):
    """The file cannot be taken back; the text says why."""


@dataclass(frozen=True, slots=True)
class _Hunk:
    """``lines`` take the place of those from ``start`` to ``end`` (not included) of the text that both sides share."""

    start: int
    end: int
    lines: tuple[str, ...]

    def meets(self, other: "_Hunk") -> bool:
        """Whether both are about the same lines, or the same gap between two lines."""
        if self.start == self.end == other.start == other.end:
            return True
        return self.start < other.end and other.start < self.end


def without(changes: Sequence[FileChange], text: str | None) -> str | None:
    """What a file with ``text`` would be without ``changes`` of it, given in the order in which they were made;
    ``None`` stands for no file.

    Raises:
        Conflict: the same lines have been changed since, or the file has been deleted.
    """
    for change in reversed(_joined(changes)):
        text = _taken_back(change, text)
    return text


def merged(base: str, one: str, other: str) -> str:
    """``base`` with the changes of both ``one`` and ``other``.

    Raises:
        Conflict: they have changed the same lines in different ways.
    """
    lines = _lines(base)
    ours, theirs = list(_hunks(lines, _lines(one))), list(_hunks(lines, _lines(other)))
    theirs = [hunk for hunk in theirs if hunk not in ours]
    if any(hunk.meets(own) for hunk in theirs for own in ours):
        raise Conflict("The same lines have been changed since.")
    result = list(lines)
    for hunk in sorted((*ours, *theirs), key=lambda hunk: (hunk.start, hunk.end), reverse=True):
        result[hunk.start : hunk.end] = hunk.lines
    return "".join(result)


def _taken_back(change: FileChange, text: str | None) -> str | None:
    if change.withheld:
        raise Conflict("It held a secret, so what it was before was not stored.")
    if text == change.before:
        return text
    if text == change.after:
        return change.before
    if text is None:
        raise Conflict("It has been deleted since.")
    if change.before is None:
        raise Conflict("It has been changed since it was made.")
    return merged(change.after, text, change.before)


def _joined(changes: Sequence[FileChange]) -> list[FileChange]:
    """``changes``, with those that follow each other directly as one."""
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
    # Comparing takes time that grows with the product of both lengths: what both share at either end is left out.
    head = _shared(old, new)
    tail = _shared(old[head:][::-1], new[head:][::-1])
    matcher = SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag != "equal":
            yield _Hunk(head + start, head + end, tuple(new[head + new_start : head + new_end]))


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
