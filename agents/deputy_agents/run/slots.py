"""Limits how many sub-agents run at the same time, with one queue for the others.

A process has one :class:`Slots`. Each run of a child reserves a :class:`Slot` with :meth:`Slots.reserve`, which runs at
once or waits in a first-in, first-out queue. A run that only waits (for its own children, or for the user) releases
its slot and acquires it again later, before any queued run starts. Writers of one parent run one at a time, from start
to end; a writer that waits for this never blocks readers behind it.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Self

from deputy_agents.concurrency.signal import Signal
from deputy_agents.domain.errors import Overloaded
from deputy_agents.domain.settings import AgentSettings


class _State(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    RELEASED = "released"
    RETURNING = "returning"
    CLOSED = "closed"


class Slot:
    """The reservation of one run of one child. A context manager that closes the slot at the end of its block."""

    def __init__(
        self, slots: "Slots", parent_id: str, writer: bool, on_start: Callable[[], None], on_shift: Callable[[], None]
    ) -> None:
        self.parent_id = parent_id
        self.writer = writer
        self.on_start = on_start
        self.on_shift = on_shift
        self._slots = slots
        self._state = _State.QUEUED
        self._changed = Signal()

    @property
    def queued(self) -> bool:
        """Whether the run has not started yet."""
        return self._state is _State.QUEUED

    @property
    def closed(self) -> bool:
        return self._state is _State.CLOSED

    async def acquire(self) -> None:
        """Waits until the run may start or continue, or the slot is closed."""
        while self._state not in (_State.RUNNING, _State.CLOSED):
            if self._state is _State.RELEASED:
                self._state = _State.RETURNING
                self._slots.returned(self)
            else:
                await self._changed.wait()

    def release(self) -> None:
        """Lets another run start while this one only waits."""
        if self._state in (_State.RUNNING, _State.RETURNING):
            self._leave(_State.RELEASED)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the slot for good."""
        if self._state is not _State.CLOSED:
            self._leave(_State.CLOSED)

    def start(self) -> None:
        """Called only by :class:`Slots`."""
        self._enter(_State.RUNNING)

    def _leave(self, state: _State) -> None:
        before = self._state
        self._enter(state)
        self._slots.left(self, was_running=before is _State.RUNNING)

    def _enter(self, state: _State) -> None:
        self._state = state
        self._changed.notify()


class Slots:
    """The slots of one process: ``max_parallel`` in total, ``max_parallel_per_parent`` for each parent."""

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings
        self.running = 0
        self._per_parent: Counter[str] = Counter()
        self._writers: dict[str, Slot] = {}
        """The writer that has started, by parent."""
        # Ordered sets: a slot may leave from anywhere.
        self._returning: dict[Slot, None] = {}
        self._queue: dict[Slot, None] = {}
        self._on_shift: Counter[Callable[[], None]] = Counter()

    @property
    def settings(self) -> AgentSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: AgentSettings) -> None:
        """Raised limits start queued runs; lowered limits never stop a run."""
        self._settings = settings
        self._start_waiting()

    @property
    def idle(self) -> bool:
        """Whether no slot is held or queued."""
        return not (self.running or self.queued or self._per_parent or self._writers)

    @property
    def queued(self) -> int:
        return len(self._queue)

    def positions(self) -> Mapping[Slot, int]:
        """The queued slots, with their positions counted from 1."""
        return {slot: position for position, slot in enumerate(self._queue, 1)}

    def reserve(
        self, parent_id: str, *, writer: bool, on_start: Callable[[], None], on_shift: Callable[[], None]
    ) -> Slot:
        """Returns a slot that runs now, or is queued (``slot.queued``) behind all others. ``on_start`` is called when a
        queued slot starts to run, ``on_shift`` when positions in the queue change: once for all slots that share it.

        Raises:
            Overloaded: the slot would have to wait, and the queue is full.
        """
        slot = Slot(self, parent_id, writer, on_start, on_shift)
        if self._may_start(slot):
            self._start(slot)
            return slot
        if len(self._queue) >= self.settings.queue:
            raise Overloaded(f"{self.running} sub-agents run and {len(self._queue)} wait; the queue is full")
        self._queue[slot] = None
        self._on_shift[on_shift] += 1
        return slot

    def returned(self, slot: Slot) -> None:
        """Called only by :class:`Slot`."""
        self._returning[slot] = None
        self._start_waiting()

    def left(self, slot: Slot, *, was_running: bool) -> None:
        """Called only by :class:`Slot`."""
        self._returning.pop(slot, None)
        self._unqueue(slot)
        if was_running:
            self.running -= 1
            self._per_parent[slot.parent_id] -= 1
            self._per_parent += Counter()
        was_writer = slot.closed and self._writers.get(slot.parent_id) is slot
        if was_writer:
            del self._writers[slot.parent_id]
        if was_running or was_writer:
            self._start_waiting()

    def _start_waiting(self) -> None:
        for slot in [*self._returning, *self._queue]:
            if self.running >= self.settings.max_parallel:
                break
            if self._may_start(slot):
                self._returning.pop(slot, None)
                was_queued = slot.queued
                self._unqueue(slot)
                self._start(slot)
                if was_queued:
                    slot.on_start()

    def _unqueue(self, slot: Slot) -> None:
        if slot in self._queue:
            del self._queue[slot]
            self._on_shift[slot.on_shift] -= 1
            self._on_shift += Counter()
            for on_shift in tuple(self._on_shift):
                on_shift()

    def _may_start(self, slot: Slot) -> bool:
        return (
            self.running < self.settings.max_parallel
            and self._per_parent[slot.parent_id] < self.settings.max_parallel_per_parent
            and (not self._is_exclusive(slot) or self._writers.get(slot.parent_id) in (None, slot))
        )

    def _is_exclusive(self, slot: Slot) -> bool:
        return slot.writer and not self.settings.parallel_writers

    def _start(self, slot: Slot) -> None:
        self.running += 1
        self._per_parent[slot.parent_id] += 1
        if self._is_exclusive(slot):
            self._writers[slot.parent_id] = slot
        slot.start()
