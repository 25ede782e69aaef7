"""The events of a session as updates for one client."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from deputy_agents.domain.event import AgentStarted, Event, MessageAdded, PermissionRequest, ToolCallUpdated
from deputy_agents.events.view import AgentNode
from deputy_server.acp.agent_updates import AgentUpdates, chunk
from deputy_server.acp.sub_agent_blocks import SubAgentBlocks
from deputy_server.acp.sub_agent_sessions import SubAgentSessions
from deputy_server.rpc.json import JsonObject


class _SubAgents(Protocol):
    """One of the two ways in which clients show sub-agents."""

    def begin(self, body: AgentStarted) -> None: ...
    def of(self, event: Event) -> Iterator[tuple[str, JsonObject]]: ...
    def requested_call(self, agent_id: str, request: PermissionRequest) -> tuple[str, JsonObject]: ...
    def content_of_call(self, tool_call_id: str) -> list[JsonObject]: ...


class SessionUpdates:
    """Pairs of a session id that the client knows and an update of that session. Events up to number ``replay_to`` are
    replayed, which includes the user's messages."""

    def __init__(self, session_id: str, primary_id: str, *, subagents: bool, replay_to: int = 0) -> None:
        self._session_id = session_id
        self._primary_id = primary_id
        self._replay_to = replay_to
        self._primary = AgentUpdates(primary_id)
        self._has_sub_agent_sessions = subagents
        self._sub_agents: _SubAgents = SubAgentSessions(session_id) if subagents else SubAgentBlocks(session_id)

    def add_known(self, nodes: Iterable[AgentNode]) -> None:
        """Add agents that the client already knows."""
        for node in nodes:
            if node.info.parent_id is not None:
                self._sub_agents.begin(AgentStarted(node.info, node.status))

    def of(self, event: Event) -> Iterator[tuple[str, JsonObject]]:
        """The updates for ``event``."""
        if event.agent_id is None:
            return
        if event.agent_id != self._primary_id:
            yield from self._sub_agents.of(event)
            return
        body = event.body
        if isinstance(body, MessageAdded) and body.role == "user" and (event.seq or 0) <= self._replay_to:
            yield self._session_id, chunk("user_message_chunk", body.text, body.message_id)
        for update in self._primary.of(event):
            if isinstance(body, ToolCallUpdated) and (blocks := self._sub_agents.content_of_call(body.tool_call_id)):
                update |= {"content": blocks}
            yield self._session_id, update

    def session_of(self, agent_id: str) -> str:
        """The session in which what an agent asks is shown."""
        own = self._has_sub_agent_sessions and agent_id != self._primary_id
        return agent_id if own else self._session_id

    def requested_call(self, request: PermissionRequest) -> tuple[str, JsonObject]:
        """The session in which a permission request is shown, and its tool call."""
        agent_id = request.agent.agent_id
        if agent_id == self._primary_id:
            return self._session_id, self._primary.requested_call(request)
        return self._sub_agents.requested_call(agent_id, request)
