"""A store in memory, for tests and as a fallback when no file can be used."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from deputy_agents.domain.errors import StoreError, UnknownSession
from deputy_agents.domain.event import AgentFinished, AgentStarted, Event
from deputy_agents.domain.file_change import FileChange
from deputy_agents.domain.message import Message
from deputy_agents.ports.store import (
    ChangesDropped,
    Claim,
    HistoryRecord,
    OutputRecord,
    Record,
    SessionPage,
    SessionQuery,
    SessionRecord,
)
from deputy_agents.store.paging import Child, Family, child_row, order, page


@dataclass(slots=True)
class _StoredSession:
    record: SessionRecord
    owned: bool = True
    events: list[Event] = field(default_factory=list[Event])
    history: dict[str, list[Message]] = field(default_factory=dict[str, list[Message]])
    agents: dict[str, Child] = field(default_factory=dict[str, Child])
    """Includes the primary agent."""
    changes: dict[str, FileChange] = field(default_factory=dict[str, FileChange])
    outputs: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    def row(self) -> SessionRecord:
        return replace(self.record, agent_count=len(self.agents))

    def add_record(self, record: Record) -> None:
        match record:
            case HistoryRecord(agent_id, message):
                self.history.setdefault(agent_id, []).append(message)
            case FileChange(change_id):
                self.changes[change_id] = record
            case ChangesDropped(change_ids):
                for change_id in change_ids:
                    self.changes.pop(change_id, None)
            case OutputRecord(agent_id, tool_call_id, text):
                self.outputs[agent_id, tool_call_id] = text

    def update_agents(self, event: Event) -> None:
        known = self.agents.get(event.agent_id or "")
        match event.body:
            case AgentStarted(info):
                started = known.started_at if known else event.time
                self.agents[info.agent_id] = Child(info.agent_id, info.label, info.model, started, event.time)
            case AgentFinished() if known is not None:
                self.agents[known.agent_id] = replace(known, updated_at=event.time)
            case _:
                pass


class MemoryStore:
    """Implements :class:`deputy_agents.ports.store.Store`."""

    def __init__(self) -> None:
        self._sessions: dict[str, _StoredSession] = {}

    async def create(self, record: SessionRecord) -> None:
        if record.session_id in self._sessions:
            raise StoreError(f"Session {record.session_id} already exists.")
        self._sessions[record.session_id] = _StoredSession(record)

    async def update(self, record: SessionRecord) -> None:
        self._owned(record.session_id).record = record

    async def get(self, session_id: str) -> SessionRecord:
        return self._stored(session_id).row()

    async def sessions(self, query: SessionQuery) -> SessionPage:
        return page(self._families(query), query)

    async def delete(self, session_id: str) -> None:
        self._owned(session_id)
        del self._sessions[session_id]

    async def append(self, session_id: str, events: Sequence[Event], records: Sequence[Record] = ()) -> None:
        stored = self._owned(session_id)
        for seq, event in enumerate(events, len(stored.events) + 1):
            if event.seq != seq:
                raise StoreError(f"Event {event.seq} does not follow {seq - 1} in session {session_id}.")
        stored.events.extend(events)
        for event in events:
            stored.update_agents(event)
        for record in records:
            stored.add_record(record)

    async def events(self, session_id: str, after: int = 0, limit: int | None = None) -> Sequence[Event]:
        stop = None if limit is None else after + limit
        return self._stored(session_id).events[after:stop]

    async def history(self, session_id: str, agent_id: str) -> Sequence[Message]:
        return list(self._stored(session_id).history.get(agent_id, ()))

    async def histories(self, session_id: str) -> Mapping[str, Sequence[Message]]:
        return {agent_id: list(messages) for agent_id, messages in self._stored(session_id).history.items()}

    async def changes(self, session_id: str) -> Sequence[FileChange]:
        return list(self._stored(session_id).changes.values())

    async def output(self, session_id: str, agent_id: str, tool_call_id: str) -> str | None:
        return self._stored(session_id).outputs.get((agent_id, tool_call_id))

    async def claim(self, session_id: str) -> Claim:
        self._stored(session_id).owned = True
        return Claim.MINE

    async def release(self, session_id: str) -> None:
        if (stored := self._sessions.get(session_id)) is not None:
            stored.owned = False

    async def abandoned(self) -> Sequence[str]:
        return ()

    async def close(self) -> None:
        self._sessions.clear()

    def _families(self, query: SessionQuery) -> Iterator[Family]:
        for stored in sorted(self._sessions.values(), key=lambda stored: order(stored.record), reverse=True):
            record = stored.row()
            recent = query.before is not None and record.updated_at >= query.before
            if query.cwd in (None, record.cwd) and (query.archived or not record.archived) and not recent:
                children = [child for child in stored.agents.values() if child.agent_id != record.agent_id]
                children.sort(key=lambda child: (child.started_at, child.agent_id))
                yield record, [child_row(record, child) for child in children]

    def _owned(self, session_id: str) -> _StoredSession:
        stored = self._stored(session_id)
        if not stored.owned:
            raise StoreError(f"Session {session_id} is not open for changes in this process.")
        return stored

    def _stored(self, session_id: str) -> _StoredSession:
        stored = self._sessions.get(session_id)
        if stored is None:
            raise UnknownSession(f"There is no session {session_id}.")
        return stored
