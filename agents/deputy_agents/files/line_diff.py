"""The difference between two texts as a bounded number of hunks, in a time that grows little faster than the texts."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from deputy_agents.domain.preview import NO_FINAL_LINE_END, DiffHunk
from deputy_agents.text import cut

CONTEXT = 3
"""Unchanged lines around a change."""
MAX_HUNKS = 50
MAX_LINES = 200
"""Removed lines of one change, and added lines."""
MAX_LINE = 500
"""Characters of a line."""
MAX_CHARS = 64 * 1024
"""Characters of all lines."""

_EXACT = 300
"""Lines that are compared by an algorithm whose time grows with the square of their number."""
_MAX_DEPTH = 4
_NO_END = f"\n{NO_FINAL_LINE_END}"


@dataclass(frozen=True, slots=True)
class Replaced:
    """The lines from ``old_start`` to ``old_end`` of the old text are replaced by those from ``new_start`` to
    ``new_end`` of the new one. Counted from 0, ends excluded."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def diff_hunks(old: str, new: str, regions: Iterable[Replaced] | None = None) -> tuple[tuple[DiffHunk, ...], bool]:
    """The difference, and whether a part of it was left out. ``regions``, in order, contain all changes."""
    end = "\r\n" if all(text.count("\r\n") == text.count("\n") for text in (old, new)) else "\n"
    before, after = _split(old, end), _split(new, end)
    whole = Replaced(0, len(before), 0, len(after))
    regions = [whole] if regions is None else [_within(whole, region) for region in regions]
    changes = [change for region in regions for change in _changes(before, after, region)]
    groups = _grouped(changes)
    hunks: list[DiffHunk] = []
    room = MAX_CHARS
    truncated = False
    for group in groups:
        lines, complete = _lines(before, after, group)
        room -= sum(map(len, lines))
        if hunks and (room < 0 or len(hunks) >= MAX_HUNKS):
            return tuple(hunks), True
        hunks.append(_hunk(before, group, lines))
        truncated |= not complete
    return tuple(hunks), truncated


def changed_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[Replaced]:
    """The replacements that make ``new`` from ``old``, in order, with unchanged lines between any two."""
    return _changes(old, new, Replaced(0, len(old), 0, len(new)))


def _split(text: str, end: str) -> list[str]:
    """The lines without their ends, except that a last line without an end has a note."""
    lines = text.split(end)
    if last := lines.pop():
        lines.append(last + _NO_END)
    return lines


def _within(whole: Replaced, region: Replaced) -> Replaced:
    """``region`` without the empty line after the last line end."""
    return replace(region, old_end=min(region.old_end, whole.old_end), new_end=min(region.new_end, whole.new_end))


def _changes(old: Sequence[str], new: Sequence[str], region: Replaced, depth: int = 0) -> Iterator[Replaced]:
    """The changes in ``region``. Lines that occur once in both texts are matched first (the "patience" algorithm)."""
    region = _trimmed(old, new, region)
    a, b = old[region.old_start : region.old_end], new[region.new_start : region.new_end]
    if not a and not b:
        return
    if not a or not b or depth == _MAX_DEPTH:
        yield region
    elif max(len(a), len(b)) <= _EXACT:
        for tag, a_start, a_end, b_start, b_end in SequenceMatcher(None, a, b).get_opcodes():
            if tag != "equal":
                yield _moved(Replaced(a_start, a_end, b_start, b_end), region)
    else:
        a_done = b_done = 0
        for a_at, b_at in [*_anchors(a, b), (len(a), len(b))]:
            gap = _moved(Replaced(a_done, a_at, b_done, b_at), region)
            yield from _changes(old, new, gap, depth + 1)
            a_done, b_done = a_at + 1, b_at + 1


def _moved(change: Replaced, region: Replaced) -> Replaced:
    """``change``, counted from the start of ``region``, counted from the start of the texts."""
    old, new = region.old_start, region.new_start
    return Replaced(change.old_start + old, change.old_end + old, change.new_start + new, change.new_end + new)


def _trimmed(old: Sequence[str], new: Sequence[str], region: Replaced) -> Replaced:
    """``region`` without equal lines at its start and end."""
    old_start, old_end, new_start, new_end = region.old_start, region.old_end, region.new_start, region.new_end
    while old_start < old_end and new_start < new_end and old[old_start] == new[new_start]:
        old_start, new_start = old_start + 1, new_start + 1
    while old_start < old_end and new_start < new_end and old[old_end - 1] == new[new_end - 1]:
        old_end, new_end = old_end - 1, new_end - 1
    return Replaced(old_start, old_end, new_start, new_end)


def _anchors(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    """Where lines that occur once in both are, in the longest order that both have in common."""
    in_a, in_b = Counter(a), Counter(b)
    places = {line: at for at, line in enumerate(b) if in_b[line] == 1 and in_a.get(line) == 1}
    pairs = [(at, places[line]) for at, line in enumerate(a) if line in places]
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for index, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        last[length : length + 1] = [index]
    found: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        found.append(pairs[index])
        index = before[index]
    return found[::-1]


def _grouped(changes: Sequence[Replaced]) -> Iterator[list[Replaced]]:
    """Changes that belong to one hunk, because no more than their context is between them."""
    group: list[Replaced] = []
    for change in changes:
        if group and change.old_start - group[-1].old_end > 2 * CONTEXT:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _lines(old: Sequence[str], new: Sequence[str], group: Sequence[Replaced]) -> tuple[list[str], bool]:
    """The lines of a hunk, and whether they are complete."""
    lines: list[str] = []
    complete = True

    def add(mark: str, part: Sequence[str]) -> None:
        nonlocal complete
        for line in part[:MAX_LINES]:
            text, _, note = line.partition("\n")
            complete &= len(text) <= MAX_LINE
            lines.extend([mark + cut(text, MAX_LINE), *([note] if note else [])])
        if len(part) > MAX_LINES:
            complete = False
            lines.append(f"\\ {len(part) - MAX_LINES} more lines")

    done = max(0, group[0].old_start - CONTEXT)
    for change in group:
        if sum(map(len, lines)) > MAX_CHARS:
            return lines, False
        add(" ", old[done : change.old_start])
        add("-", old[change.old_start : change.old_end])
        add("+", new[change.new_start : change.new_end])
        done = change.old_end
    add(" ", old[done : done + CONTEXT])
    return lines, complete


def _hunk(old: Sequence[str], group: Sequence[Replaced], lines: Sequence[str]) -> DiffHunk:
    first, last = group[0], group[-1]
    lead = min(CONTEXT, first.old_start)
    trail = min(CONTEXT, len(old) - last.old_end)
    old_count = last.old_end + trail - (first.old_start - lead)
    new_count = last.new_end + trail - (first.new_start - lead)
    return DiffHunk(
        first.old_start - lead + bool(old_count),
        old_count,
        first.new_start - lead + bool(new_count),
        new_count,
        tuple(lines),
    )
