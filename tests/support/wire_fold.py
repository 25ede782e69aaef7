"""The state that a front end must reach from events of the wire, worked out by the fold of the core.

An event is read back into what it was before it went out, folded, and the result converted once more: so a front
end's own fold can be held against the one that the server itself uses.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import BaseModel
from pygls.uris import to_fs_path

from deputy_agents.domain import event as ev
from deputy_agents.domain import preview
from deputy_agents.domain.access import Access
from deputy_agents.domain.message import Usage
from deputy_agents.domain.outcome import AgentStatus, FailureReason
from deputy_agents.domain.rule import RuleScope
from deputy_agents.events.view import View
from deputy_protocol import agent, event, permission, place, tool
from deputy_protocol.base import to_wire
from deputy_protocol.event import EventParams
from deputy_server.convert.agent import agent_node_to_wire
from deputy_server.convert.permission import permission_request_to_wire
from deputy_server.convert.transcript import entry_to_wire
from tests.support.fold import transcripts
from tests.support.model_replies import Json

UNKNOWN = ev.Unknown("unknown")
TYPES = frozenset(choice.model_fields["type"].default for choice in event.Event.__args__[0].__args__)


@dataclass
class WireFold:
    """The fold. Feed it every event in order; ``state`` is what a front end should then hold, in the wire's form."""

    view: View = field(default_factory=View)
    events: list[ev.Event] = field(default_factory=list[ev.Event])
    queue: list[Json] = field(default_factory=list[Json])
    streaming: dict[str, Json] = field(default_factory=dict[str, Json])

    def apply(self, raw: Json) -> None:
        known = "seq" not in raw or raw["seq"] > self.view.last_seq
        happened = _event(raw)
        self.view.apply(happened)
        if known:
            self.events.append(happened)
        match raw:
            case {"type": "prompt_queue", "entries": entries}:
                self.queue = entries
            case {"type": "message_delta", "messageId": message_id, "text": text, "agentId": agent_id}:
                before = self.streaming.get(message_id, {"text": ""})["text"]
                self.streaming[message_id] = {"agentId": agent_id, "text": before + text}
            case {"type": "message", "messageId": message_id} if known:
                self.streaming.pop(message_id, None)
            case _:
                pass

    def state(self) -> Json:
        """The expected state, as ``tests/vectors`` has it."""
        nodes = self.view.tree()
        ids = [node.info.agent_id for node in nodes]
        session_id = "session-1"
        entries = transcripts(self.view, self.events)
        return {
            "lastSeq": self.view.last_seq,
            "agents": [to_wire(agent_node_to_wire(node)) for node in nodes],
            "transcripts": {key: _wires(map(entry_to_wire, entries[key])) for key in ids},
            "permissions": _wires(
                permission_request_to_wire(session_id, q) for q in self.view.permission_requests.values()
            ),
            "counts": _counts(self.view.status()),
            "plans": {key: _plan(steps) for key, steps in self.view.plans.items()},
            "promptQueue": self.queue,
            "streaming": self.streaming,
            "activities": {node.info.agent_id: node.activity for node in nodes if node.activity},
            "details": {node.info.agent_id: node.detail for node in nodes if node.detail},
        }


def folded(events: Iterable[Json]) -> Json:
    fold = WireFold()
    for raw in events:
        fold.apply(raw)
    return fold.state()


def _wires(models: Iterable[BaseModel]) -> list[Json]:
    return [to_wire(model) for model in models]


def _counts(status: ev.SessionStatus) -> Json:
    return {
        "primary": status.primary,
        "pending": status.pending,
        "running": status.running,
        "awaitingPermission": status.awaiting_permission,
        "finished": status.finished,
    }


def _plan(steps: Iterable[ev.PlanEntry]) -> list[Json]:
    shown = ({"content": s.content, "status": s.status, "priority": s.priority} for s in steps)
    return [{key: value for key, value in step.items() if value is not None} for step in shown]


# -- back from the wire --------------------------------------------------------------------------------------------


def _event(raw: Json) -> ev.Event:
    return ev.Event(
        session_id=raw.get("sessionId", ""),
        time=_seconds(raw["time"]),
        body=_body(EventParams.model_validate(raw).root) if raw["type"] in TYPES else UNKNOWN,
        agent_id=raw.get("agentId"),
        run=raw.get("run"),
        seq=raw.get("seq"),
        agent_seq=raw.get("agentSeq"),
        after_seq=raw.get("afterSeq"),
    )


def _body(told: event.Event) -> ev.Body:
    match told:
        case event.AgentStarted():
            return ev.AgentStarted(_info(told.agent), AgentStatus(told.agent.status), told.agent.queue_position)
        case event.AgentStatusChanged():
            return ev.StatusChanged(AgentStatus(told.status), told.queue_position, told.detail)
        case event.AgentActivity():
            return ev.Activity(told.text, told.tool_call_count)
        case event.AgentFinished():
            return _finished(told)
        case event.UsageChanged():
            context = told.context and ev.ContextSize(told.context.used, told.context.window)
            return ev.UsageChanged(_usage(told.usage), context)
        case event.MessageAdded():
            places = tuple(map(_location, told.references or ()))
            return ev.MessageAdded(told.message_id, told.role.value, told.text, places)
        case event.ToolCallStarted():
            return _call(told)
        case event.ToolCallUpdate():
            places = None if told.locations is None else tuple(map(_location, told.locations))
            status = ev.CallStatus(told.status)
            return ev.ToolCallUpdated(told.tool_call_id, status, told.content, places, diff=_diff(told.diff))
        case event.Plan():
            steps = (ev.PlanEntry(e.content, e.status.value, e.priority and e.priority.value) for e in told.entries)
            return ev.PlanChanged(tuple(steps))
        case event.PermissionRequested():
            return ev.PermissionRequested(_question(told))
        case event.PermissionResolved():
            return ev.PermissionResolved(told.request_id, ev.ResolvedBy(told.by))
        case _:
            return UNKNOWN


def _info(node: agent.AgentNode) -> ev.AgentInfo:
    return ev.AgentInfo(
        agent_id=node.agent_id,
        label=node.label,
        definition=node.definition,
        model=node.model,
        access=Access(node.access),
        depth=node.depth,
        parent_id=node.parent_agent_id,
        tool_call_id=node.tool_call_id,
    )


def _finished(told: event.AgentFinished) -> ev.AgentFinished:
    return ev.AgentFinished(
        status=AgentStatus(told.status),
        result=told.result,
        usage=_usage(told.usage),
        tool_call_count=told.tool_call_count,
        iterations=told.iterations,
        failure_reason=told.failure_reason and FailureReason(told.failure_reason),
        error=told.error,
        references=tuple(map(_location, told.references or ())),
        truncated=told.truncated,
    )


def _call(told: event.ToolCallStarted) -> ev.ToolCallStarted:
    return ev.ToolCallStarted(
        tool_call_id=told.tool_call_id,
        tool=told.tool,
        title=told.title,
        kind=ev.ToolKind(told.kind),
        status=ev.CallStatus(told.status),
        input=told.input,
        locations=tuple(map(_location, told.locations)),
    )


def _question(told: permission.PermissionRequest) -> ev.PermissionRequest:
    asks = told.agent
    return ev.PermissionRequest(
        request_id=told.request_id,
        agent=ev.AgentRef(
            asks.agent_id,
            asks.label,
            asks.definition,
            asks.model,
            asks.depth,
            tuple((above.agent_id, above.label) for above in asks.ancestry),
        ),
        batch=ev.Batch(told.batch.id, told.batch.index, told.batch.size),
        tool_call_id=told.tool_call_id,
        title=told.title,
        tool=told.tool,
        kind=ev.ToolKind(told.kind),
        input=told.input,
        locations=tuple(map(_location, told.locations)),
        options=tuple(map(_option, told.options)),
        preview=_preview(told.preview),
        reason=told.reason,
    )


def _option(told: permission.PermissionOption) -> ev.Option:
    scope = RuleScope(told.scope or RuleScope.ONCE)
    return ev.Option(told.option_id, told.name, ev.OptionKind(told.kind), told.rules or (), scope)


def _diff(told: tool.EditDiff | None) -> preview.EditDiff | None:
    return None if told is None else preview.EditDiff(_hunks(told.hunks), told.truncated or False)


def _hunks(told: Sequence[tool.DiffHunk]) -> tuple[preview.DiffHunk, ...]:
    return tuple(
        preview.DiffHunk(hunk.old_start, hunk.old_count, hunk.new_start, hunk.new_count, hunk.lines) for hunk in told
    )


def _preview(shown: permission.Preview | None) -> preview.Preview | None:
    match shown:
        case permission.DiffPreview(uri=uri):
            hunks = _hunks(shown.hunks or ())
            return preview.DiffPreview(_path(uri), shown.old_text, shown.new_text, hunks, shown.truncated or False)
        case permission.CommandPreview():
            return preview.CommandPreview(shown.command, _path(shown.cwd))
        case permission.TextPreview(text=text):
            return preview.TextPreview(text)
        case None:
            return None


def _location(at: place.Location | place.Reference) -> ev.Location:
    if at.range is None:
        return ev.Location(_path(at.uri))
    return ev.Location(_path(at.uri), at.range.start.line + 1, at.range.end.line)


def _usage(used: agent.Usage) -> Usage:
    return Usage(
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cache_read_tokens=used.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens,
        cost=used.cost,
    )


def _path(uri: str) -> str:
    path = to_fs_path(uri)
    assert path is not None
    return path


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
