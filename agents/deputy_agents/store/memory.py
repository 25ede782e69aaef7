"""A store that lives as long as the process: for tests, and when no file can be written."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from deputy_agents.errors import StoreError
from deputy_agents.event import AgentStarted, Event
from deputy_agents.message import Message
from deputy_agents.ports import HistoryRecord, SessionRecord


@dataclass(slots=True)
class _Kept:
    record: SessionRecord
    events: list[Event] = field(default_factory=list[Event])
    history: dict[str, list[Message]] = field(default_factory=dict[str, list[Message]])


class MemoryStore:
    """Implements :class:`deputy_agents.ports.Store`."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Kept] = {}

    async def create(self, record: SessionRecord) -> None:
        if record.session_id in self._sessions:
            raise StoreError(f"Session {record.session_id} exists already.")
        self._sessions[record.session_id] = _Kept(record)

    async def update(self, record: SessionRecord) -> None:
        self._kept(record.session_id).record = record

    async def sessions(self, cwd: str | None = None) -> Sequence[SessionRecord]:
        records = [_counted(kept) for kept in self._sessions.values() if cwd in (None, kept.record.cwd)]
        return sorted(records, key=lambda record: (record.updated_at, record.session_id), reverse=True)

    async def append(self, session_id: str, events: Sequence[Event], history: Sequence[HistoryRecord] = ()) -> None:
        kept = self._kept(session_id)
        for seq, event in enumerate(events, len(kept.events) + 1):
            if event.seq != seq:
                raise StoreError(f"Event {event.seq} does not follow {seq - 1} in session {session_id}.")
        kept.events.extend(events)
        for line in history:
            kept.history.setdefault(line.agent_id, []).append(line.message)

    async def events(self, session_id: str, after: int = 0, limit: int | None = None) -> Sequence[Event]:
        stop = None if limit is None else after + limit
        return self._kept(session_id).events[after:stop]

    async def history(self, session_id: str, agent_id: str) -> Sequence[Message]:
        return list(self._kept(session_id).history.get(agent_id, ()))

    async def close(self) -> None:
        self._sessions.clear()

    def _kept(self, session_id: str) -> _Kept:
        kept = self._sessions.get(session_id)
        if kept is None:
            raise StoreError(f"The store has no session {session_id}.")
        return kept


def _counted(kept: _Kept) -> SessionRecord:
    agents = {event.agent_id for event in kept.events if isinstance(event.body, AgentStarted)}
    return replace(kept.record, agent_count=len(agents))
