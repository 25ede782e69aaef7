"""Who may run: slots as reservations, and the queue before them.

One :class:`Slots` serves a process. A child asks once with :meth:`Slots.reserve` and gets a :class:`Slot`, which runs
at once or waits in one queue, first in first out. While it only waits (for its own children, or for the user) it gives
its place away and takes it back later, before any newcomer. Children that may write share one lane per parent, held
from start to end: a writer that waits never holds back the readers behind it.
"""

from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Self

import anyio

from deputy_agents.errors import Overloaded
from deputy_agents.settings import AgentSettings


class _State(StrEnum):
    QUEUED = "queued"
    HELD = "held"
    GIVEN = "given away"
    RETURNING = "returning"
    CLOSED = "closed"


class Slot:
    """A reservation of one run of one child. Use it as a context manager: leaving it frees the place for ever."""

    def __init__(self, slots: "Slots", parent_id: str, writer: bool, moved: "Callable[[Slot], None]") -> None:
        self.parent_id = parent_id
        self.writer = writer
        self.moved = moved
        """Told when the slot starts to run, and when its place in the queue changes."""
        self.position: int | None = None
        self._slots = slots
        self._state = _State.QUEUED
        self._changed = anyio.Event()

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
        first = self.queued
        self._enter(_State.HELD)
        if first:
            self.moved(self)

    def _enter(self, state: _State) -> None:
        self._state = state
        self.position = None
        self._changed.set()
        self._changed = anyio.Event()


class Slots:
    """The places of one process: ``max_parallel`` in all, ``max_parallel_per_parent`` of one parent."""

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings
        self.running = 0
        self._per_parent: Counter[str] = Counter()
        self._lanes: dict[str, Slot] = {}
        self._returning: list[Slot] = []
        self._queue: list[Slot] = []

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

    def reserve(self, parent_id: str, *, writer: bool, moved: Callable[[Slot], None]) -> Slot:
        """A slot that runs now or is queued (``slot.queued``, ``slot.position``).

        Raises:
            Overloaded: it would have to wait, and the queue is full.
        """
        slot = Slot(self, parent_id, writer, moved)
        if self._may_start(slot):
            self._start(slot)
            return slot
        if len(self._queue) >= self.settings.queue:
            raise Overloaded(f"{self.running} sub-agents run and {len(self._queue)} wait; the queue is full")
        self._queue.append(slot)
        slot.position = len(self._queue)
        return slot

    def wait_again(self, slot: Slot) -> None:
        """For :class:`Slot` alone."""
        self._returning.append(slot)
        self._pump()

    def left(self, slot: Slot, *, was_held: bool) -> None:
        """For :class:`Slot` alone."""
        for line in (self._queue, self._returning):
            if slot in line:
                line.remove(slot)
        if was_held:
            self.running -= 1
            self._per_parent[slot.parent_id] -= 1
            self._per_parent += Counter()
        if self._lanes.get(slot.parent_id) is slot and slot.closed:
            del self._lanes[slot.parent_id]
        self._pump()

    def _pump(self) -> None:
        for slot in [*self._returning, *self._queue]:
            if self.running >= self.settings.max_parallel:
                break
            if self._may_start(slot):
                (self._queue if slot.queued else self._returning).remove(slot)
                self._start(slot)
        self._renumber()

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

    def _renumber(self) -> None:
        for position, slot in enumerate(self._queue, 1):
            if slot.position != position:
                slot.position = position
                slot.moved(slot)
