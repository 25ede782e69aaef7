"""Announces the places of sub-agents that wait for a slot."""

from collections.abc import Mapping

import anyio
from anyio.abc import TaskGroup

from deputy_agents.domain.event import StatusChanged
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.run.host import Host, emit
from deputy_agents.run.slots import Slots
from deputy_agents.session.child_run import ChildRun

POSITIONS_EVERY = 0.1
"""Seconds between two announcements of queue positions: each start moves everyone behind it."""

POSITIONS_PER_SECOND = 500
"""Queue positions announced per second, at most: a longer queue is announced less often."""


class QueuePositions:
    """Announces the positions of ``running`` in the queue of ``slots``, a moment after they change: only the last ones
    count."""

    def __init__(self, host: Host, slots: Slots, tasks: TaskGroup, running: Mapping[str, ChildRun]) -> None:
        self._host = host
        self._slots = slots
        self._tasks = tasks
        self._running = running
        self._announcing = False

    def changed(self) -> None:
        if not self._announcing:
            self._announcing = True
            self._tasks.start_soon(self._announce)

    async def _announce(self) -> None:
        await anyio.sleep(max(POSITIONS_EVERY, self._slots.queued / POSITIONS_PER_SECOND))
        self._announcing = False
        positions = self._slots.positions()
        for child in self._running.values():
            position = positions.get(child.slot) if child.slot is not None else None
            if position not in (None, child.queue_position):
                child.queue_position = position
                emit(self._host, child.agent, StatusChanged(AgentStatus.PENDING, position))
