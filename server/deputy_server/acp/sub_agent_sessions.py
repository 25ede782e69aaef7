"""Sub-agents for clients that show them as sessions, announced in the session of their parent."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from deputy_agents.domain.event import (
    AgentFinished,
    AgentInfo,
    AgentStarted,
    Event,
    InputRequested,
    InputResolved,
    MessageAdded,
    PermissionRequest,
    PermissionRequested,
    PermissionResolved,
    StatusChanged,
)
from deputy_agents.domain.outcome import AgentStatus, FailureReason
from deputy_agents.text import visible
from deputy_protocol.errors import ErrorCode
from deputy_server.acp.agent_updates import AgentUpdates
from deputy_server.rpc.json import JsonObject

_CANCELLABLE: JsonObject = {"cancel": {}}


@dataclass(slots=True)
class _SubAgent:
    info: AgentInfo
    parent_session: str
    """The id of the session in which the sub-agent is announced."""
    updates: AgentUpdates
    open_requests: set[str] = field(default_factory=set[str])


class SubAgentSessions:
    """The sessions of all sub-agents; ``session_id`` is that of the primary agent. The session id of a sub-agent is its
    agent id."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._sub_agents: dict[str, _SubAgent] = {}

    def begin(self, body: AgentStarted) -> None:
        """Add a run of a sub-agent: the first one, or one that another call resumes."""
        info = body.info
        parent_session = info.parent_id if info.parent_id in self._sub_agents else None
        known = self._sub_agents.get(info.agent_id)
        updates = known.updates if known else AgentUpdates(info.agent_id, info.label)
        self._sub_agents[info.agent_id] = _SubAgent(info, parent_session or self._session_id, updates)

    def of(self, event: Event) -> Iterator[tuple[str, JsonObject]]:
        """The updates for ``event`` of a sub-agent."""
        agent_id = event.agent_id or ""
        if isinstance(event.body, AgentStarted):
            self.begin(event.body)
            yield self._announcement(event.body)
        if (sub_agent := self._sub_agents.get(agent_id)) is None:
            return
        if isinstance(event.body, MessageAdded) and event.body.role == "user":
            yield agent_id, self._message_from_parent(sub_agent, event.body)
        for update in sub_agent.updates.of(event):
            yield agent_id, update
        if (state := self._state_change(sub_agent, event)) is not None:
            update = {"sessionUpdate": "subagent_update", "sessionId": agent_id, **state}
            yield sub_agent.parent_session, update

    def requested_call(self, agent_id: str, request: PermissionRequest) -> tuple[str, JsonObject]:
        """The session in which a sub-agent's permission request is shown, and its tool call."""
        return agent_id, self._sub_agents[agent_id].updates.requested_call(request)

    def content_of_call(self, tool_call_id: str) -> list[JsonObject]:
        """Nothing: calls that start sub-agents show their results."""
        return []

    def _announcement(self, body: AgentStarted) -> tuple[str, JsonObject]:
        """The sub-agent in its parent's session, before any update of its own."""
        info = body.info
        effort = {} if info.effort is None else {"effort": info.effort.value}
        about = {"definition": info.definition, "model": info.model, **effort}
        update: JsonObject = {
            "sessionUpdate": "subagent_update",
            "sessionId": info.agent_id,
            "title": info.label,
            "description": info.definition,
            "capabilities": _CANCELLABLE,
            "_meta": {"deputy": {**about, "toolCallId": info.tool_call_id}},
        }
        # The protocol has no state for a queued agent: it is neither running nor idle.
        state = {"state": {"state": "running"}} if body.status is AgentStatus.RUNNING else {}
        return self._sub_agents[info.agent_id].parent_session, update | state

    def _message_from_parent(self, sub_agent: _SubAgent, message: MessageAdded) -> JsonObject:
        return {
            "sessionUpdate": "session_message",
            "messageId": message.message_id,
            "senderSessionId": sub_agent.parent_session,
            "recipientSessionId": sub_agent.info.agent_id,
            "content": [{"type": "text", "text": message.text}],
        }

    def _state_change(self, sub_agent: _SubAgent, event: Event) -> JsonObject | None:
        """The state that the parent's session shows, if ``event`` changes it."""
        match event.body:
            case StatusChanged(status=AgentStatus.RUNNING) if not sub_agent.open_requests:
                return {"state": {"state": "running"}}
            case PermissionRequested(request) | InputRequested(request):
                sub_agent.open_requests.add(request.request_id)
                return {"state": {"state": "requires_action"}}
            case PermissionResolved(request_id=request_id) | InputResolved(request_id=request_id):
                sub_agent.open_requests.discard(request_id)
                return None if sub_agent.open_requests else {"state": {"state": "running"}}
            case AgentFinished() as body:
                # An agent that has ended cannot be cancelled, but its parent may resume it.
                return {"state": _idle_state(body), "capabilities": {}}
            case _:
                return None


def _idle_state(body: AgentFinished) -> JsonObject:
    meta = {"deputy": {"status": body.status.value, "failureReason": body.failure_reason}}
    state: JsonObject = {"state": "idle", "_meta": meta}
    match body.status, body.failure_reason:
        case AgentStatus.COMPLETED, _:
            return state | {"stopReason": "end_turn"}
        case AgentStatus.CANCELLED, _:
            return state | {"stopReason": "cancelled"}
        case _, reason:
            name = (reason or FailureReason.UNKNOWN).value.replace("_", " ")
            message = visible(": ".join(filter(None, (name, body.error))))
            error = {"code": int(ErrorCode.INTERNAL_ERROR), "message": message}
            return state | {"stopReason": "error", "error": error}
