"""The unreviewed hunks of a weave, and what keeping and undoing them makes of it.

A hunk is kept or undone as a whole, or the part of it that some changes made: those of one agent, or of one turn.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain
from typing import NamedTuple, TypeAlias

from deputy_agents.review.weave import USER, Edit, Owners, Run, Typed, Weave, is_open, live_lines, normal, split


class HunkKey(NamedTuple):
    """The file, by its path, and the session that a hunk belongs to."""

    session_id: str
    path: str


Selects: TypeAlias = Callable[[str], bool]
"""Whether a change, given by its id, is selected."""

EVERY: Selects = lambda _: True  # noqa: E731 - a value of a type with a name
"""Selects all changes."""

SAME_LINES = "The same lines have been changed since."
OTHER_AGENT = "Another agent has changed the same lines since."
LINE_END = "A line end that the undone lines need has been removed since."


_ID_BYTES, _SEAL_BYTES = 12, 4


@dataclass(frozen=True, slots=True)
class Hunk:
    """Successive lines that differ from the base because of agents. ``start`` and ``base_start`` are the numbers of the
    first line in the text and in the base, counted from 0; lines have their ends."""

    hunk_id: str
    start: int
    lines: tuple[str, ...]
    base_start: int
    base_lines: tuple[str, ...]
    change_ids: tuple[str, ...]
    """In the order in which they appear in the file."""
    mixed: bool
    """Whether edits of the user overlap it."""
    note: str | None = None
    """What the lines do not show."""


@dataclass(frozen=True, slots=True)
class Undone:
    """The result of undoing hunks: the weave, and why some were left unchanged, by hunk id."""

    weave: Weave
    conflicts: Mapping[str, str]


def hunks_of(weave: Weave, key: HunkKey) -> list[Hunk]:
    """The hunks in the order of the file. ``key`` is part of their ids."""
    return [hunk for hunk, _ in _sections(weave, key) if hunk is not None]


def keep(weave: Weave, key: HunkKey, chosen: Mapping[str, Selects], owners: Owners) -> Weave:
    """``weave`` with the chosen hunks in the base."""
    runs: list[Run] = []
    for hunk, section in _sections(weave, key):
        selects = chosen.get(hunk.hunk_id) if hunk else None
        runs += section if selects is None else _kept(section, selects)
    return normal(runs, owners)


def undo(weave: Weave, key: HunkKey, chosen: Mapping[str, Selects], owners: Owners) -> Undone:
    """``weave`` with the base's lines in place of the chosen hunks. One that cannot be undone is left unchanged."""
    runs: list[Run] = []
    conflicts: dict[str, str] = {}
    for hunk, section in _sections(weave, key):
        selects = chosen.get(hunk.hunk_id) if hunk else None
        if hunk is None or selects is None:
            runs += section
        elif (reason := _conflict(section, selects)) is not None:
            conflicts[hunk.hunk_id] = reason
            runs += section
        else:
            runs += filter(None, (_undone(run, selects) for run in section))
    result = normal(runs, owners)
    if _is_broken(result):
        return Undone(weave, conflicts | {hunk_id: LINE_END for hunk_id in chosen if hunk_id not in conflicts})
    return Undone(result, conflicts)


# -- sections --------------------------------------------------------------------------------------------------------


def _sections(weave: Weave, key: HunkKey) -> Iterator[tuple[Hunk | None, Sequence[Run]]]:
    """The runs of each hunk, with the hunk, and each run between hunks, with ``None``."""
    start = base_start = 0
    section: list[Run] = []
    for run in chain(weave, (None,)):
        if run is not None and is_open(run):
            section.append(run)
            continue
        if section:
            hunk = _hunk(section, start, base_start, key)
            yield hunk, section
            start, base_start = start + len(hunk.lines), base_start + len(hunk.base_lines)
            section = []
        if run is not None:
            yield None, (run,)
            start, base_start = start + len(run.lines), base_start + len(run.lines)


def _hunk(section: Sequence[Run], start: int, base_start: int, key: HunkKey) -> Hunk:
    lines = tuple(line for run in section if run.is_live for line in run.lines)
    base = tuple(line for run in section if run.in_base for line in run.lines)
    edits = (edit for run in section for edit in (run.removed, run.added) if edit is not None and edit != USER)
    mixed = any(run.typed is not Typed.APART or (run.added and run.removed == USER) for run in section)
    identity = (*_identity(section), str(len(base)), *base, *lines)
    change_ids = tuple(dict.fromkeys(edit.change_id for edit in edits))
    return Hunk(hunk_id(key, identity), start, lines, base_start, base, change_ids, bool(mixed))


def _identity(section: Sequence[Run]) -> tuple[str, ...]:
    """Distinguishes a hunk from others with the same lines: its first line that an agent added or removed."""
    first = next(run for run in section if run.is_new or run.is_restorable)
    edit = first.added or first.removed or USER
    return edit.change_id, str(edit.number), str(first.first)


def hunk_id(key: HunkKey, parts: Sequence[str]) -> str:
    """An id for the hunk that ``parts`` identify in a file."""
    hashed = blake2b(digest_size=_ID_BYTES)
    for part in (key.path, *parts):
        data = part.encode("utf-8", "surrogatepass")
        hashed.update(b"%d:%b" % (len(data), data))
    found = hashed.hexdigest()
    return found + _seal(found, key.session_id)


def is_hunk_id(text: str, session_id: str) -> bool:
    """Whether ``text`` is the id that a hunk of the session has or had."""
    return text[2 * _ID_BYTES :] == _seal(text[: 2 * _ID_BYTES], session_id)


def _seal(text: str, session_id: str) -> str:
    return blake2b(f"{session_id} {text}".encode("utf-8", "surrogatepass"), digest_size=_SEAL_BYTES).hexdigest()


# -- keeping and undoing ---------------------------------------------------------------------------------------------


def _selected(edit: Edit | None, selects: Selects) -> bool:
    return edit is not None and edit != USER and selects(edit.change_id)


def _kept(section: Sequence[Run], selects: Selects) -> Iterator[Run]:
    whole = all(
        selects(edit.change_id)
        for run in section
        for edit in (run.added, run.removed)
        if edit is not None and edit != USER
    )
    for run in section:
        if _selected(run.removed, selects) or (run.removed == USER and _selected(run.added, selects)):
            continue
        if run.added is not None and _selected(run.added, selects):
            yield replace(run, added=None, author=run.added.change_id)
        elif whole:
            yield replace(run, typed=Typed.APART)
        else:
            yield run


def _undone(run: Run, selects: Selects) -> Run | None:
    """What is left of ``run``; :func:`_conflict` has excluded what cannot be undone."""
    if _selected(run.added, selects):
        return None
    if _selected(run.removed, selects):
        return replace(run, removed=None)
    return run


def _conflict(section: Sequence[Run], selects: Selects) -> str | None:
    """Why the selected edits of a section cannot be undone."""
    for run in section:
        if _selected(run.added, selects) and run.removed not in (None, USER) and not _selected(run.removed, selects):
            return OTHER_AGENT
    restored = [run for run in section if _selected(run.removed, selects) and not _selected(run.added, selects)]
    if restored and any(run.is_live and run.typed is not Typed.APART for run in section):
        return SAME_LINES
    for edit in {run.removed for run in restored}:
        extent = [index for index, run in enumerate(section) if edit in (run.added, run.removed)]
        inner = section[extent[0] : extent[-1] + 1]
        if any(run.is_live and not _selected(run.added, selects) for run in inner):
            return OTHER_AGENT
    return None


def _is_broken(weave: Weave) -> bool:
    """Whether two lines would become one: the first has no end, or its end would join with the next line."""
    lines = live_lines(weave)
    return any(not line.endswith(("\n", "\r")) for line in lines[:-1]) or split("".join(lines)) != tuple(lines)
