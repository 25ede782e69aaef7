"""A store in memory, for tests and as a fallback when no file can be used."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from deputy_agents.domain.errors import StoreError, UnknownSession, WrongState
from deputy_agents.domain.event import AgentFinished, AgentStarted, Event
from deputy_agents.domain.file_change import FileChange
from deputy_agents.domain.message import Message, Text, ToolResult
from deputy_agents.ports.store import (
    ChangesDropped,
    CheckpointRecord,
    Claim,
    ContextRecord,
    HistoryEnds,
    HistoryRecord,
    NotesRecord,
    OutputRecord,
    PendingPrompt,
    PromptsRecord,
    Record,
    ReviewRecord,
    RewindRecord,
    SessionPage,
    SessionQuery,
    SessionRecord,
    SessionState,
    StoredReview,
    ViewRecord,
)
from deputy_agents.store.paging import Child, Family, child_row, order, page


@dataclass(slots=True)
class _StoredSession:
    record: SessionRecord
    owned: bool = True
    events: list[Event] = field(default_factory=list[Event])
    history: dict[str, list[Message]] = field(default_factory=dict[str, list[Message]])
    contexts: dict[str, ContextRecord] = field(default_factory=dict[str, ContextRecord])
    prompts: tuple[PendingPrompt, ...] = ()
    notes: dict[str, NotesRecord] = field(default_factory=dict[str, NotesRecord])
    agents: dict[str, Child] = field(default_factory=dict[str, Child])
    """Includes the primary agent."""
    changes: dict[str, FileChange] = field(default_factory=dict[str, FileChange])
    reviews: dict[str, ReviewRecord] = field(default_factory=dict[str, ReviewRecord])
    outputs: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    checkpoints: list[CheckpointRecord] = field(default_factory=list[CheckpointRecord])
    made: int = 0
    """The number of changes of files so far."""
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    """Of the changes of files."""

    def row(self) -> SessionRecord:
        return replace(self.record, agent_count=len(self.agents))

    def add_record(self, record: Record) -> None:
        match record:
            case HistoryRecord(agent_id, message):
                self.history.setdefault(agent_id, []).append(message)
            case ContextRecord(agent_id):
                self.contexts[agent_id] = record
            case PromptsRecord(prompts):
                self.prompts = prompts
            case NotesRecord(agent_id):
                self.notes[agent_id] = record
            case ViewRecord():
                pass  # nothing here outlives the process
            case FileChange():
                self._add_change(record)
            case CheckpointRecord():
                counts = {agent_id: len(found) for agent_id, found in self.history.items() if "@" not in agent_id}
                context = self.contexts.get(record.agent_id)
                made = replace(record, counts=counts, context=context, last_change=self.made)
                self.checkpoints.append(made)
            case RewindRecord():
                self._rewind(record)
            case ChangesDropped(change_ids):
                self.changes = {key: change for key, change in self.changes.items() if key not in change_ids}
            case ReviewRecord():
                self._add_review(record)
            case OutputRecord(agent_id, tool_call_id, text):
                self.outputs[agent_id, tool_call_id] = text

    def _add_change(self, change: FileChange) -> None:
        self.made += 1
        self.changes[change.change_id] = change
        self.numbers[change.change_id] = self.made

    def _add_review(self, record: ReviewRecord) -> None:
        last = self.reviews.get(record.path)
        self.reviews[record.path] = replace(record, change_id=record.change_id or (last.change_id if last else ""))

    def _rewind(self, record: RewindRecord) -> None:
        for agent_id, count in record.counts.items():
            now = self.history.get(agent_id, [])
            then = self.history.get(f"{agent_id}@{record.target}", now)
            if then is not now or len(now) > count:
                self.history[f"{agent_id}@{record.left}"] = now
                self.history[agent_id] = then[:count]
        self.notes.pop(record.agent_id, None)
        self.contexts.pop(record.agent_id, None)
        if record.context is not None:
            self.contexts[record.agent_id] = record.context

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

    async def delete(self, session_id: str, purge_after: float = 0) -> None:
        del purge_after  # nothing here outlives the process
        self._owned(session_id)
        del self._sessions[session_id]

    async def undelete(self, purge_after: float) -> None:
        del purge_after

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

    async def events_at(self, session_id: str, numbers: Sequence[int]) -> Sequence[Event]:
        events = self._stored(session_id).events
        return [events[number - 1] for number in sorted(set(numbers)) if 0 < number <= len(events)]

    async def history(self, session_id: str, agent_id: str, limit: int | None = None) -> Sequence[Message]:
        return self._stored(session_id).history.get(agent_id, [])[:limit]

    async def history_ends(
        self, session_id: str, agent_ids: Sequence[str], containing: str = ""
    ) -> Mapping[str, HistoryEnds]:
        histories = self._stored(session_id).history
        found = ((agent_id, histories[agent_id]) for agent_id in agent_ids if histories.get(agent_id))
        return {agent_id: _ends(messages, containing) for agent_id, messages in found}

    async def state(self, session_id: str) -> SessionState:
        stored = self._stored(session_id)
        notes = tuple(record for record in stored.notes.values() if record.notes)
        return SessionState(tuple(stored.contexts.values()), stored.prompts, notes)

    async def changes(self, session_id: str, since: str | None = None) -> Sequence[FileChange]:
        stored = self._stored(session_id)
        after = next((one.last_change for one in stored.checkpoints if one.checkpoint_id == since), 0)
        return [one for one in stored.changes.values() if stored.numbers[one.change_id] > after]

    async def checkpoints(self, session_id: str) -> Sequence[CheckpointRecord]:
        return list(self._stored(session_id).checkpoints)

    async def fork(
        self, session_id: str, record: SessionRecord, ids: Mapping[str, str], checkpoint_id: str | None = None
    ) -> None:
        raise WrongState(
            "Sessions are kept in memory only, because no session file can be used. They cannot be forked."
        )

    async def review(self, session_id: str) -> StoredReview:
        stored = self._stored(session_id)
        order = {change_id: number for number, change_id in enumerate(stored.changes, 1)}
        done = {path: order.get(record.change_id, 0) for path, record in stored.reviews.items()}
        made = (one for one in stored.changes.values() if one.agent_id)
        later = (one for one in made if order[one.change_id] > done.get(one.path, 0))
        return StoredReview(tuple(stored.reviews.values()), tuple(later))

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


def _ends(messages: Sequence[Message], containing: str) -> HistoryEnds:
    matching = [message for message in messages if containing and any(containing in text for text in _texts(message))]
    return HistoryEnds(len(messages), messages[0], messages[-1], tuple(matching))


def _texts(message: Message) -> Iterator[str]:
    for block in message.content:
        match block:
            case Text(text) | ToolResult(content=text):
                yield text
            case _:
                pass
