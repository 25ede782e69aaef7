"""How a client that shows children as sessions sees them: each has one of its own, which its parent's announces."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from deputy_agents.domain.event import (
    AgentFinished,
    AgentInfo,
    AgentStarted,
    Event,
    MessageAdded,
    PermissionRequest,
    PermissionRequested,
    PermissionResolved,
    StatusChanged,
)
from deputy_agents.domain.outcome import AgentStatus, FailureReason
from deputy_agents.text import visible
from deputy_protocol.errors import ErrorCode
from deputy_server.acp.transcript import Transcript
from deputy_server.rpc.json import JsonObject

_CANCELLABLE: JsonObject = {"cancel": {}}


@dataclass(slots=True)
class _Child:
    info: AgentInfo
    parent: str
    """The session that it is announced in."""
    transcript: Transcript
    permission_requests: set[str] = field(default_factory=set[str])


class Subsessions:
    """The sessions of all children below the primary, whose own is ``session_id``. A child's has its agent's id."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._children: dict[str, _Child] = {}

    def begin(self, body: AgentStarted) -> None:
        """A run of a child begins: the first, or one that another call goes on with."""
        info = body.info
        parent = info.parent_id if info.parent_id in self._children else None
        known = self._children.get(info.agent_id)
        transcript = known.transcript if known else Transcript(info.agent_id, info.label)
        self._children[info.agent_id] = _Child(info, parent or self._session_id, transcript)

    def of(self, event: Event) -> Iterator[tuple[str, JsonObject]]:
        """What ``event``, one of a child, is to the client."""
        agent_id = event.agent_id or ""
        if isinstance(event.body, AgentStarted):
            self.begin(event.body)
            yield self._announced(event.body)
        if (child := self._children.get(agent_id)) is None:
            return
        if isinstance(event.body, MessageAdded) and event.body.role == "user":
            yield agent_id, self._told(child, event.body)
        for update in child.transcript.of(event):
            yield agent_id, update
        if (news := self._news(child, event)) is not None:
            yield child.parent, {"sessionUpdate": "subagent_update", "sessionId": agent_id, **news}

    def asked(self, agent_id: str, request: PermissionRequest) -> tuple[str, JsonObject]:
        """The session that a child's question is asked in, and the call that it is about."""
        return agent_id, self._children[agent_id].transcript.asked(request)

    def doors(self, tool_call_id: str) -> list[JsonObject]:
        """Nothing: the calls that start children show what the model reads."""
        return []

    def _announced(self, body: AgentStarted) -> tuple[str, JsonObject]:
        """The child, before anything of its own."""
        info = body.info
        update: JsonObject = {
            "sessionUpdate": "subagent_update",
            "sessionId": info.agent_id,
            "title": info.label,
            "description": info.definition,
            "capabilities": _CANCELLABLE,
            "_meta": {"deputy": {"definition": info.definition, "model": info.model, "toolCallId": info.tool_call_id}},
        }
        # One that waits for its turn is neither at work nor ready for more.
        state = {"state": {"state": "running"}} if body.status is AgentStatus.RUNNING else {}
        return self._children[info.agent_id].parent, update | state

    def _told(self, child: _Child, message: MessageAdded) -> JsonObject:
        """What the parent says to the child."""
        return {
            "sessionUpdate": "session_message",
            "messageId": message.message_id,
            "senderSessionId": child.parent,
            "recipientSessionId": child.info.agent_id,
            "content": [{"type": "text", "text": message.text}],
        }

    def _news(self, child: _Child, event: Event) -> JsonObject | None:
        """What the parent's session is told of the child's work."""
        match event.body:
            case StatusChanged(status=AgentStatus.RUNNING) if not child.permission_requests:
                return {"state": {"state": "running"}}
            case PermissionRequested(request):
                child.permission_requests.add(request.request_id)
                return {"state": {"state": "requires_action"}}
            case PermissionResolved(request_id=request_id):
                child.permission_requests.discard(request_id)
                return None if child.permission_requests else {"state": {"state": "running"}}
            case AgentFinished() as body:
                # What has ended cannot be cancelled; its parent may give it more to do.
                return {"state": _ended(body), "capabilities": {}}
            case _:
                return None


def _ended(body: AgentFinished) -> JsonObject:
    meta = {"deputy": {"status": body.status.value, "failureReason": body.failure_reason}}
    state: JsonObject = {"state": "idle", "_meta": meta}
    match body.status, body.failure_reason:
        case AgentStatus.COMPLETED, _:
            return state | {"stopReason": "end_turn"}
        case AgentStatus.CANCELLED, _:
            return state | {"stopReason": "cancelled"}
        case _, reason:
            name = (reason or FailureReason.UNKNOWN).value.replace("_", " ")
            told = visible(": ".join(filter(None, (name, body.error))))
            return state | {"stopReason": "error", "error": {"code": int(ErrorCode.INTERNAL_ERROR), "message": told}}
