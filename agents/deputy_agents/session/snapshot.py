"""A read-only session as the store has it, where another process owns it."""

from collections.abc import Sequence
from typing import Protocol

from deputy_agents.domain.errors import UnknownAgent
from deputy_agents.domain.event import PermissionRequest, QueuedPrompt
from deputy_agents.events.view import AgentNode, Entry, View
from deputy_agents.ports.store import SessionRecord


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

    def transcript(self, agent_id: str, after: int = 0, limit: int | None = None) -> tuple[Sequence[Entry], int]: ...

    def permission_requests(self) -> Sequence[PermissionRequest]: ...

    def queued_prompts(self) -> Sequence[QueuedPrompt]: ...


class Snapshot:
    """Implements :class:`Reading`. It does not change: events of the other process do not arrive here."""

    def __init__(self, record: SessionRecord, view: View) -> None:
        self.record = record
        self.view = view

    @property
    def id(self) -> str:
        return self.record.session_id

    @property
    def primary_id(self) -> str:
        return self.record.agent_id

    def agents(self) -> Sequence[AgentNode]:
        return self.view.tree()

    def transcript(self, agent_id: str, after: int = 0, limit: int | None = None) -> tuple[Sequence[Entry], int]:
        """
        Raises:
            UnknownAgent: the session has no such agent.
        """
        if agent_id not in self.view.agents:
            raise UnknownAgent(f"This session has no agent {agent_id}.")
        return self.view.transcript(agent_id, after, limit), self.view.last_seq

    def permission_requests(self) -> Sequence[PermissionRequest]:
        """None: only the other process can ask and be answered."""
        return ()

    def queued_prompts(self) -> Sequence[QueuedPrompt]:
        """None: queued prompts are not stored."""
        return ()
