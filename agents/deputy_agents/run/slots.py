"""Who may run: slots as reservations, and the queue before them.

One :class:`Slots` serves a process. A child asks once with :meth:`Slots.reserve` and gets a :class:`Slot`, which runs
at once or waits in one queue, first in first out. While it only waits (for its own children, or for the user) it gives
its place away and takes it back later, before any newcomer. Children that may write share one lane per parent, held
from start to end: a writer that waits never holds back the readers behind it.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Self

from deputy_agents.domain.errors import Overloaded
from deputy_agents.domain.settings import AgentSettings
from deputy_agents.events.signal import Signal


class _State(StrEnum):
    QUEUED = "queued"
    HELD = "held"
    GIVEN = "given away"
    RETURNING = "returning"
    CLOSED = "closed"


class Slot:
    """A reservation of one run of one child. Use it as a context manager: leaving it frees the place for ever."""

    def __init__(
        self, slots: "Slots", parent_id: str, writer: bool, started: Callable[[], None], shifted: Callable[[], None]
    ) -> None:
        self.parent_id = parent_id
        self.writer = writer
        self.started = started
        self.shifted = shifted
        self._slots = slots
        self._state = _State.QUEUED
        self._changed = Signal()

    @property
    def queued(self) -> bool:
        """True until the run may start for the first time."""
        return self._state is _State.QUEUED

    @property
    def closed(self) -> bool:
        return self._state is _State.CLOSED

    async def hold(self) -> None:
        """Waits until this slot may run, or is closed."""
        while self._state not in (_State.HELD, _State.CLOSED):
            if self._state is _State.GIVEN:
                self._state = _State.RETURNING
                self._slots.wait_again(self)
            else:
                await self._changed.wait()

    def give_away(self) -> None:
        """Lets others run while this one only waits."""
        if self._state in (_State.HELD, _State.RETURNING):
            self._set(_State.GIVEN)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        if self._state is not _State.CLOSED:
            self._set(_State.CLOSED)

    def _set(self, state: _State) -> None:
        before = self._state
        self._enter(state)
        self._slots.left(self, was_held=before is _State.HELD)

    def start(self) -> None:
        """For :class:`Slots` alone."""
        self._enter(_State.HELD)

    def _enter(self, state: _State) -> None:
        self._state = state
        self._changed.notify()


class Slots:
    """The places of one process: ``max_parallel`` in all, ``max_parallel_per_parent`` of one parent."""

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings
        self.running = 0
        self._per_parent: Counter[str] = Counter()
        self._lanes: dict[str, Slot] = {}
        # Both in order, and left from anywhere.
        self._returning: dict[Slot, None] = {}
        self._queue: dict[Slot, None] = {}
        self._shifted: Counter[Callable[[], None]] = Counter()

    @property
    def settings(self) -> AgentSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: AgentSettings) -> None:
        """What runs goes on; a higher cap lets the next ones start."""
        self._settings = settings
        self._pump()

    @property
    def queued(self) -> int:
        return len(self._queue)

    def places(self) -> Mapping[Slot, int]:
        """The slots that are queued, with their places counted from 1."""
        return {slot: place for place, slot in enumerate(self._queue, 1)}

    def reserve(
        self, parent_id: str, *, writer: bool, started: Callable[[], None], shifted: Callable[[], None]
    ) -> Slot:
        """A slot that runs now, or is queued (``slot.queued``) behind all others. ``started`` is told when a queued one
        starts to run; ``shifted``, which may be one for many slots, when places in the queue change.

        Raises:
            Overloaded: it would have to wait, and the queue is full.
        """
        slot = Slot(self, parent_id, writer, started, shifted)
        if self._may_start(slot):
            self._start(slot)
            return slot
        if len(self._queue) >= self.settings.queue:
            raise Overloaded(f"{self.running} sub-agents run and {len(self._queue)} wait; the queue is full")
        self._queue[slot] = None
        self._shifted[shifted] += 1
        return slot

    def wait_again(self, slot: Slot) -> None:
        """For :class:`Slot` alone."""
        self._returning[slot] = None
        self._pump()

    def left(self, slot: Slot, *, was_held: bool) -> None:
        """For :class:`Slot` alone."""
        self._returning.pop(slot, None)
        self._unqueue(slot)
        if was_held:
            self.running -= 1
            self._per_parent[slot.parent_id] -= 1
            self._per_parent += Counter()
        had_lane = slot.closed and self._lanes.get(slot.parent_id) is slot
        if had_lane:
            del self._lanes[slot.parent_id]
        if was_held or had_lane:
            self._pump()

    def _pump(self) -> None:
        for slot in [*self._returning, *self._queue]:
            if self.running >= self.settings.max_parallel:
                break
            if self._may_start(slot):
                self._returning.pop(slot, None)
                was_queued = slot.queued
                self._unqueue(slot)
                self._start(slot)
                if was_queued:
                    slot.started()

    def _unqueue(self, slot: Slot) -> None:
        if slot in self._queue:
            del self._queue[slot]
            self._shifted[slot.shifted] -= 1
            self._shifted += Counter()
            for shifted in tuple(self._shifted):
                shifted()

    def _may_start(self, slot: Slot) -> bool:
        return (
            self.running < self.settings.max_parallel
            and self._per_parent[slot.parent_id] < self.settings.max_parallel_per_parent
            and (not self._needs_lane(slot) or self._lanes.get(slot.parent_id) in (None, slot))
        )

    def _needs_lane(self, slot: Slot) -> bool:
        return slot.writer and not self.settings.parallel_writers

    def _start(self, slot: Slot) -> None:
        self.running += 1
        self._per_parent[slot.parent_id] += 1
        if self._needs_lane(slot):
            self._lanes[slot.parent_id] = slot
        slot.start()
