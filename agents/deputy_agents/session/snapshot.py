"""A read-only session as the store has it, where another process owns it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from deputy_agents.domain.event import Event, PermissionRequest, QueuedPrompt
from deputy_agents.events.entries import TranscriptPage, read_entries, read_page
from deputy_agents.events.transcript_index import EntryRef
from deputy_agents.events.view import AgentNode, Entry, View
from deputy_agents.ports.store import SessionRecord, Store


class Reading(Protocol):
    """What can be read of a session, open or not."""

    @property
    def record(self) -> SessionRecord: ...
    @property
    def view(self) -> View: ...
    @property
    def id(self) -> str: ...
    @property
    def primary_id(self) -> str: ...

    def agents(self) -> Sequence[AgentNode]: ...

    async def transcript(
        self, agent_id: str, after: int = 0, before: int | None = None, limit: int | None = None
    ) -> TranscriptPage:
        """The entries of an agent numbered above ``after`` and below ``before``: at most ``limit``, the last ones if
        ``before`` is given, else the first.

        Raises:
            UnknownAgent: the session has no such agent.
            StoreError: the store cannot be read.
        """
        ...

    async def entries(self, refs: Sequence[EntryRef]) -> Sequence[Entry]:
        """Entries that the view refers to, except those that cannot be read.

        Raises:
            StoreError: the store cannot be read.
        """
        ...

    def permission_requests(self) -> Sequence[PermissionRequest]: ...

    def queued_prompts(self) -> Sequence[QueuedPrompt]: ...


class Snapshot:
    """Implements :class:`Reading`. It does not change: events of the other process do not arrive here."""

    def __init__(self, record: SessionRecord, view: View, store: Store) -> None:
        self.record = record
        self.view = view
        self._store = store

    @property
    def id(self) -> str:
        return self.record.session_id

    @property
    def primary_id(self) -> str:
        return self.record.agent_id

    def agents(self) -> Sequence[AgentNode]:
        return self.view.tree()

    async def transcript(
        self, agent_id: str, after: int = 0, before: int | None = None, limit: int | None = None
    ) -> TranscriptPage:
        return await read_page(self.view, self._read_events, agent_id, after, before, limit)

    async def entries(self, refs: Sequence[EntryRef]) -> Sequence[Entry]:
        return await read_entries(self.view, self._read_events, refs)

    async def _read_events(self, numbers: Sequence[int]) -> Mapping[int, Event]:
        return {event.seq or 0: event for event in await self._store.events_at(self.id, numbers)}

    def permission_requests(self) -> Sequence[PermissionRequest]:
        """None: only the other process can ask and be answered."""
        return ()

    def queued_prompts(self) -> Sequence[QueuedPrompt]:
        """None: queued prompts are not stored."""
        return ()
