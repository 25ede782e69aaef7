"""A file with the lines that agents changed and the user has not reviewed: a *weave* of all lines, present and removed.

Each run of lines has its origin. Leaving out what agents added, and taking what they removed, gives the base; leaving
out what is removed gives the text. A weave changes in three ways: an agent changes the text, the user does, or hunks
are kept or undone (see :mod:`deputy_agents.review.hunks`). All three return a new weave, and a line that the user typed
stays in the text whatever is kept or undone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from enum import IntEnum
from itertools import groupby
from typing import NamedTuple, TypeAlias

from deputy_agents.files.line_diff import changed_lines
from deputy_agents.text import lines_with_ends


class Edit(NamedTuple):
    """One replacement of lines: the change that it belongs to, and its number in it. :data:`USER` stands for all edits
    that no agent of the session made."""

    change_id: str
    number: int


USER = Edit("", 0)

Owners: TypeAlias = Mapping[str, object]
"""Changes whose owners are equal are always undone together: those of one agent in one turn."""


_MAX_COMPARED = 4_000_000
"""The product of the numbers of removed and new lines up to which lines that come back are looked for."""


class Typed(IntEnum):
    """How lines that the user typed relate to unreviewed lines."""

    APART = 0
    INSIDE = 1
    """Between unreviewed lines, or where lines were removed: restoring the removed ones would guess their order."""
    OVER = 2
    """Instead of lines that an agent had written. They are not part of the base."""


@dataclass(frozen=True, slots=True)
class Run:
    """Successive lines, with their ends, that have one origin and one fate."""

    lines: tuple[str, ...]
    added: Edit | None = None
    """The unreviewed edit of an agent that added the lines."""
    removed: Edit | None = None
    """What removed them: the unreviewed edit of an agent, or the user if an agent had added them."""
    typed: Typed = Typed.APART
    first: int = 0
    """The number of the first line within its edit. With the edit, it identifies lines that an agent added."""
    author: str = ""
    """The change that added the lines, if they were kept."""

    @property
    def is_live(self) -> bool:
        """Whether the lines are in the text."""
        return self.removed is None

    @property
    def in_base(self) -> bool:
        if self.added is not None:
            return False
        return not (self.is_live and self.typed is Typed.OVER)

    @property
    def is_restorable(self) -> bool:
        """Whether an agent removed lines of the base."""
        return self.added is None and not self.is_live

    @property
    def is_new(self) -> bool:
        """Whether an agent added the lines, and they are in the text."""
        return self.added is not None and self.is_live

    @property
    def origin(self) -> str:
        """The change that added the lines, kept or not; empty if no agent did."""
        return self.added.change_id if self.added is not None else self.author

    def part(self, start: int, end: int) -> "Run":
        return replace(self, lines=self.lines[start:end], first=self.first + start)


Weave: TypeAlias = tuple[Run, ...]


def split(text: str) -> tuple[str, ...]:
    """The lines of ``text`` with their ends. A last line without an end is a line if it is not empty."""
    lines = text.split("\n") if "\r" not in text else None
    found = [line + "\n" for line in lines[:-1]] + lines[-1:] if lines is not None else lines_with_ends(text)
    return tuple(found if found[-1] else found[:-1])


def weave_of(lines: Iterable[str]) -> Weave:
    """A file without unreviewed lines."""
    lines = tuple(lines)
    return (Run(lines),) if lines else ()


def live_lines(weave: Weave) -> list[str]:
    """The lines of the text."""
    return [line for run in weave if run.is_live for line in run.lines]


def base_lines(weave: Weave) -> list[str]:
    """The lines of the base."""
    return [line for run in weave if run.in_base for line in run.lines]


def change_by_agent(weave: Weave, lines: Sequence[str], change_id: str, owners: Owners) -> Weave:
    """``weave`` after an agent has changed the text to ``lines``."""

    def edited(number: int, region: _Region) -> Iterable[Run]:
        edit = Edit(change_id, number)
        new = Run(tuple(region.lines), added=edit)
        return _woven(region, lambda run: replace(run, removed=edit), new, lambda run: run.is_restorable)

    return normal(_edited(weave, lines, edited), owners)


def change_by_user(weave: Weave, lines: Sequence[str], owners: Owners) -> Weave:
    """``weave`` after somebody else has changed the text to ``lines``. Lines that come back, as by the undo command of
    an editor, are what they were before."""

    def edited(_: int, region: _Region) -> Iterable[Run]:
        new = Run(tuple(region.lines), typed=_relation(region))
        return _woven(region, lambda run: replace(run, removed=USER) if run.added else None, new, lambda _: True)

    return normal(_edited(weave, lines, edited), owners)


# -- edits -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Region:
    """The runs between the live lines around a replacement, and the new lines. ``before`` and ``after`` are the runs
    around it."""

    runs: tuple[Run, ...]
    lines: Sequence[str]
    before: Run | None
    after: Run | None

    @property
    def insertion(self) -> int:
        """The index among the runs where new lines belong if none of them comes back: after the last line that they
        replace, and otherwise before the lines that were removed together with those that follow."""
        live = [index for index, run in enumerate(self.runs) if run.is_live]
        if live:
            return live[-1] + 1
        at = len(self.runs)
        while at and self.after is not None and self.after.added and self.runs[at - 1].removed == self.after.added:
            at -= 1
        return at


def _relation(region: _Region) -> Typed:
    """How lines that the user typed in place of the live lines of ``region`` relate to unreviewed lines."""
    live = [index for index, run in enumerate(region.runs) if run.is_live]
    replaced = [region.runs[index] for index in live]
    if any(run.added or run.typed is Typed.OVER for run in replaced):
        return Typed.OVER
    between = region.runs[live[0] : live[-1]] if live else region.runs[: region.insertion]
    if any(run.is_restorable for run in between) or any(run.typed is Typed.INSIDE for run in replaced):
        return Typed.INSIDE
    before, after = region.before, region.after
    split_edit = before is not None and after is not None and before.added and before.added == after.added
    return Typed.INSIDE if split_edit and not live else Typed.APART


def _edited(weave: Weave, lines: Sequence[str], edit: Callable[[int, _Region], Iterable[Run]]) -> Iterator[Run]:
    """The runs of ``weave`` with each replaced region ``edit``-ed."""
    queue = list(reversed(weave))
    done = 0
    last: Run | None = None
    for number, change in enumerate(changed_lines(live_lines(weave), lines)):
        for run in _take(queue, change.old_start - done):
            last = run if run.is_live else last
            yield run
        inner = [*_dead(queue), *_take(queue, change.old_end - change.old_start), *_dead(queue)]
        after = queue[-1] if queue else None
        yield from edit(number, _Region(tuple(inner), lines[change.new_start : change.new_end], last, after))
        done = change.old_end
    yield from reversed(queue)


def _take(queue: list[Run], count: int) -> Iterator[Run]:
    """The runs up to the next ``count`` live lines, taken from the end of ``queue``."""
    while count > 0:
        run = queue.pop()
        if run.is_live and len(run.lines) > count:
            queue.append(run.part(count, len(run.lines)))
            run = run.part(0, count)
        count -= len(run.lines) if run.is_live else 0
        yield run


def _dead(queue: list[Run]) -> list[Run]:
    found: list[Run] = []
    while queue and not queue[-1].is_live:
        found.append(queue.pop())
    return found


def _woven(
    region: _Region, fate: Callable[[Run], Run | None], new: Run, comes_back: Callable[[Run], bool]
) -> Iterable[Run]:
    """The runs of the region with the ``fate`` of those that were live, and the lines of ``new``, some of which may be
    removed lines that come back."""
    insertion = region.insertion
    kept: list[Run] = []
    candidates: list[tuple[int, int]] = []
    at = 0
    for index, run in enumerate(region.runs):
        left = fate(run) if run.is_live else run
        if left is None:
            continue
        if not run.is_live and comes_back(run):
            candidates += ((len(kept), offset) for offset in range(len(run.lines)))
        kept.append(left)
        at += index < insertion
    blocks = _matches([kept[index].lines[offset] for index, offset in candidates], new.lines)
    back = {candidates[a + i]: b + i for a, b, size in blocks for i in range(size)}
    return _revived(kept, new, at, back) if back else (*kept[:at], new, *kept[at:])


def _matches(removed: Sequence[str], lines: Sequence[str]) -> list[tuple[int, int, int]]:
    """Blocks of removed lines that are among ``lines``. Blank lines alone are no match, as they are everywhere."""
    if not removed or not lines or len(removed) * len(lines) > _MAX_COMPARED:
        return []
    blocks = SequenceMatcher(None, removed, lines, autojunk=False).get_matching_blocks()
    return [(a, b, size) for a, b, size in blocks if any(line.strip() for line in removed[a : a + size])]


def _revived(kept: Sequence[Run], new: Run, at: int, back: Mapping[tuple[int, int], int]) -> Iterator[Run]:
    """``kept`` with the lines of ``new``: those in ``back`` are the removed lines at these places, each of the others
    precedes the next of them, and the last ones stand at ``at`` if that is further down."""
    at = max(at, max(back)[0] + 1)
    done = 0
    for index, run in enumerate(kept[:at]):
        for offset in range(len(run.lines)):
            if (number := back.get((index, offset))) is None:
                yield run.part(offset, offset + 1)
            else:
                yield new.part(done, number)
                yield replace(run.part(offset, offset + 1), removed=None)
                done = number + 1
    yield new.part(done, len(new.lines))
    yield from kept[at:]


# -- the normal form -------------------------------------------------------------------------------------------------


def is_open(run: Run) -> bool:
    """Whether the run is part of an unreviewed hunk."""
    return run.added is not None or run.removed is not None or run.typed is not Typed.APART


def normal(runs: Iterable[Run], owners: Owners) -> Weave:
    """The runs without traces that nothing depends on, and equal neighbors as one."""
    result: list[Run] = []
    for open_, group in groupby((run for run in runs if run.lines), is_open):
        found = list(group)
        result += _reduced(found, owners) if open_ else found
    return tuple(_joined(result))


def _reduced(runs: list[Run], owners: Owners) -> list[Run]:
    if not any(run.is_new or run.is_restorable for run in runs):
        # Nothing of an agent is left: what remains is the user's.
        return [replace(run, typed=Typed.APART) for run in runs if run.is_live]
    return [run for run in runs if not _is_forgotten(run, owners)]


def _is_forgotten(run: Run, owners: Owners) -> bool:
    """Whether an agent has replaced its own lines in the same turn: nothing can bring them back."""
    added, removed = run.added, run.removed
    if added is None or removed is None or removed is USER:
        return False
    return owners.get(added.change_id, added) == owners.get(removed.change_id, removed)


def _joined(runs: Iterable[Run]) -> Iterator[Run]:
    series: list[Run] = []
    for run in runs:
        if series and not _continues(series[-1], run):
            yield _merged(series)
            series = []
        series.append(run)
    if series:
        yield _merged(series)


def _merged(series: Sequence[Run]) -> Run:
    return (
        series[0] if len(series) == 1 else replace(series[0], lines=tuple(line for run in series for line in run.lines))
    )


def _continues(run: Run, following: Run) -> bool:
    """Whether both have the same origin and fate. Only the number of a line within the edit that added it matters."""
    expected = replace(following, lines=run.lines, first=run.first)
    return expected == run and (run.added is None or following.first == run.first + len(run.lines))
