"""The events of a session as updates for one client."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from deputy_agents.domain.event import AgentStarted, Event, MessageAdded, PermissionRequest, ToolCallUpdated
from deputy_agents.events.view import AgentNode
from deputy_server.acp.children import Children
from deputy_server.acp.subsessions import Subsessions
from deputy_server.acp.transcript import Transcript, chunk
from deputy_server.rpc.json import JsonObject


class _Below(Protocol):
    """How children are shown."""

    def begin(self, body: AgentStarted) -> None: ...
    def of(self, event: Event) -> Iterator[tuple[str, JsonObject]]: ...
    def asked(self, agent_id: str, request: PermissionRequest) -> tuple[str, JsonObject]: ...
    def doors(self, tool_call_id: str) -> list[JsonObject]: ...


class Updates:
    """What one client is told of one session: pairs of the session that it knows and an update of it. ``replay_to`` is
    the number of the last event that is told again, with what the user has said."""

    def __init__(self, session_id: str, primary_id: str, *, subagents: bool, replay_to: int = 0) -> None:
        self._session_id = session_id
        self._primary_id = primary_id
        self._replay_to = replay_to
        self._primary = Transcript(primary_id)
        self._below: _Below = Subsessions(session_id) if subagents else Children(session_id)

    def know(self, nodes: Iterable[AgentNode]) -> None:
        """The client has been told of these agents before."""
        for node in nodes:
            if node.info.parent_id is not None:
                self._below.begin(AgentStarted(node.info, node.status))

    def of(self, event: Event) -> Iterator[tuple[str, JsonObject]]:
        """What ``event`` is to the client."""
        if event.agent_id is None:
            return
        if event.agent_id != self._primary_id:
            yield from self._below.of(event)
            return
        body = event.body
        if isinstance(body, MessageAdded) and body.role == "user" and (event.seq or 0) <= self._replay_to:
            yield self._session_id, chunk("user_message_chunk", body.text, body.message_id)
        for update in self._primary.of(event):
            if isinstance(body, ToolCallUpdated) and (blocks := self._below.doors(body.tool_call_id)):
                update |= {"content": blocks}
            yield self._session_id, update

    def asked(self, request: PermissionRequest) -> tuple[str, JsonObject]:
        """The session that a question is asked in, and the call that it is about."""
        agent_id = request.agent.agent_id
        if agent_id == self._primary_id:
            return self._session_id, self._primary.asked(request)
        return self._below.asked(agent_id, request)
