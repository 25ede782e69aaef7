"""Restores a stored session: folds its events, and repairs what a process left unfinished when it ended.

Pure: what a repair adds is returned as events and messages, to be stored in one step. A session that ended in order, or
was repaired before, needs none.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from deputy_agents.domain.event import (
    AgentFinished,
    CallStatus,
    Durable,
    Event,
    MessageAdded,
    PermissionResolved,
    ResolvedBy,
    StatusChanged,
    ToolCallUpdated,
    TurnFinished,
    TurnStarted,
    UsageChanged,
)
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.message import Message, Text, ToolResult, ToolUse, final_text, tool_uses
from deputy_agents.domain.outcome import (
    CANCELLED_BY_USER,
    AgentStatus,
    Cancelled,
    CancelReason,
    Completed,
    Ending,
    Failed,
    FailureReason,
    Outcome,
)
from deputy_agents.domain.settings import Limits
from deputy_agents.events.numbering import Numbering
from deputy_agents.events.view import AgentNode, ToolCall, View
from deputy_agents.ports.store import HistoryRecord
from deputy_agents.run.result import aggregate, background_text, bare
from deputy_agents.text import clean, truncate

ERROR = "Deputy ended while the agent was running"
INTERRUPTED = "Interrupted: Deputy ended while this was running. It may have taken effect in part."
NOT_RUN = "Not run: Deputy ended before it started."
LOST = "Deputy ended before the result was delivered. The call is known to have {status}."

_OPEN = (CallStatus.PENDING, CallStatus.IN_PROGRESS)
_BACKGROUND = "task"
_AGGREGATE = "spawn_agents"


@dataclass(slots=True)
class Past:
    """A stored session. ``view`` is the fold of its events; ``histories`` are by agent id."""

    session_id: str
    view: View
    numbering: Numbering
    histories: dict[str, list[Message]]
    open_turn: str | None = None
    finished: dict[str, AgentFinished] = field(default_factory=dict[str, AgentFinished])
    """The ending of the last run of each child that has one."""
    requests: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    """Model replies, by agent and run."""

    def apply(self, event: Event) -> None:
        self.view.apply(event)
        match event.body:
            case TurnStarted(turn_id):
                self.open_turn = turn_id
            case TurnFinished():
                self.open_turn = None
            case AgentFinished() as body if event.agent_id is not None:
                self.finished[event.agent_id] = body
            case UsageChanged():
                key = (event.agent_id or "", event.run or 1)
                self.requests[key] = self.requests.get(key, 0) + 1
            case _:
                pass

    def result_of(self, agent_id: str) -> str:
        """The complete result of the last run of an agent; of a truncated one, what its history still has."""
        ended = self.finished.get(agent_id)
        if ended is None or not ended.truncated:
            return ended.result if ended else ""
        messages = self.histories.get(agent_id, ())
        submitted = [
            str(call.input["result"])
            for message in messages
            for call in tool_uses(message)
            if call.name == "submit_result" and "result" in call.input
        ]
        return submitted[-1] if submitted else final_text(messages) or ended.result


@dataclass(frozen=True, slots=True)
class Repaired:
    """What has to be stored before the session can continue."""

    events: Sequence[Event]
    history: Sequence[HistoryRecord]


def fold(session_id: str, events: Sequence[Event], histories: Mapping[str, Sequence[Message]]) -> Past:
    copies = {agent_id: list(messages) for agent_id, messages in histories.items()}
    past = Past(session_id, View(), Numbering(events), copies)
    for event in events:
        past.apply(event)
    return past


def repair(past: Past, now: float, limits: Limits) -> Repaired:
    """Ends every unfinished run, sub-agents before their parents, and gives every tool call a result. Changes ``past``
    to what the store will hold. ``limits`` bound the results of sub-agents."""
    events: list[Event] = []
    for node in sorted(past.view.tree(), key=lambda node: -node.info.depth):
        for body in _endings(past, node, limits):
            event = past.numbering.numbered(Event(past.session_id, now, body, node.info.agent_id, node.run))
            past.apply(event)
            events.append(event)
    history = [
        HistoryRecord(node.info.agent_id, message)
        for node in past.view.tree()
        for message in _missing_messages(past, node)
    ]
    for line in history:
        past.histories.setdefault(line.agent_id, []).append(line.message)
    return Repaired(events, history)


# -- events --------------------------------------------------------------------------------------------------------


def _endings(past: Past, node: AgentNode, limits: Limits) -> Iterator[Durable]:
    """The events that the last run of an agent lacks. The sub-agents of its calls have ended."""
    agent_id = node.info.agent_id
    if node.status.ended:
        return
    for request in tuple(past.view.permission_requests.values()):
        if request.agent.agent_id == agent_id:
            yield PermissionResolved(request.request_id, ResolvedBy.CANCELLED)
    for call in _calls(past, agent_id, node.run).values():
        if (call.update or call.started).status in _OPEN:
            yield _ended_call(past, node, call, limits)
    if node.status is AgentStatus.IDLE:
        return
    if node.info.parent_id is not None:
        yield _finished(past, node, limits.result_bytes)
        return
    if past.open_turn is not None:
        yield TurnFinished(past.open_turn, "cancelled", interrupted=True)
    yield StatusChanged(AgentStatus.IDLE)


def _ended_call(past: Past, node: AgentNode, call: ToolCall, limits: Limits) -> ToolCallUpdated:
    call_id = call.started.tool_call_id
    children = _children(past, node, call_id)
    if call.started.tool == _AGGREGATE and children:
        outcomes = [_outcome(past, child) for child in children]
        return ToolCallUpdated(call_id, CallStatus.CANCELLED, aggregate(outcomes, limits.aggregate_bytes))
    if call.started.tool != _BACKGROUND and children:
        content, status = bare(_outcome(past, children[0]))
        return ToolCallUpdated(call_id, status, content)
    ran = (call.update or call.started).status is CallStatus.IN_PROGRESS
    return ToolCallUpdated(call_id, CallStatus.CANCELLED, INTERRUPTED if ran else NOT_RUN)


def _finished(past: Past, node: AgentNode, result_bytes: int) -> AgentFinished:
    agent_id = node.info.agent_id
    hint = f"get_agent(agent_id={agent_id!r}, messages=true) has all of it"
    found, truncated = truncate(clean(_last_message(past, node)), result_bytes, hint)
    return AgentFinished(
        status=AgentStatus.FAILED,
        result=found,
        usage=node.usage,
        tool_call_count=node.tool_call_count,
        iterations=past.requests.get((agent_id, node.run), 0),
        failure_reason=FailureReason.INTERRUPTED_BY_RESTART,
        error=ERROR,
        truncated=truncated,
    )


def _last_message(past: Past, node: AgentNode) -> str:
    """The agent's last message in this run."""
    entries = past.view.transcript(node.info.agent_id)
    bodies = [entry.body for entry in entries if entry.run == node.run]
    texts = [body.text for body in bodies if isinstance(body, MessageAdded) and body.role == "assistant"]
    return texts[-1] if texts else ""


# -- histories -----------------------------------------------------------------------------------------------------


def _missing_messages(past: Past, node: AgentNode) -> Iterator[Message]:
    """The message that the agent's history lacks: results of its last calls, and ends of its background tasks."""
    history = past.histories.get(node.info.agent_id, [])
    last = history[-1] if history else None
    calls = tool_uses(last) if last is not None and last.role == "assistant" else ()
    known = _calls(past, node.info.agent_id, node.run)
    results = tuple(_result(use, known.get(use.id)) for use in calls)
    notices = tuple(Text(background_text(outcome)) for outcome in _unread_tasks(past, node, history))
    if results or notices:
        yield Message("user", (*results, *notices), new_id())


def _result(use: ToolUse, call: ToolCall | None) -> ToolResult:
    if call is None or call.update is None:
        return ToolResult(use.id, NOT_RUN, is_error=True)
    status = call.update.status
    content = call.update.content or LOST.format(status=status.value)
    return ToolResult(use.id, content, is_error=status is not CallStatus.COMPLETED)


def _unread_tasks(past: Past, node: AgentNode, history: Sequence[Message]) -> Iterator[Outcome]:
    """The background tasks of whose last end the agent has no notice."""
    tasks = {
        entry.body.started.tool_call_id
        for entry in past.view.transcript(node.info.agent_id)
        if isinstance(entry.body, ToolCall) and entry.body.started.tool == _BACKGROUND
    }
    if not tasks:
        return
    read = "\n".join(message.text for message in history if message.role == "user")
    for child in past.view.tree():
        info = child.info
        is_background = info.parent_id == node.info.agent_id and info.tool_call_id in tasks
        if is_background and child.status.ended and read.count(f'"task_id": "{info.agent_id}"') < child.run:
            yield _outcome(past, child)


# -- what the view has ---------------------------------------------------------------------------------------------


def _calls(past: Past, agent_id: str, run: int) -> dict[str, ToolCall]:
    """The tool calls of a run, by id."""
    return {
        entry.body.started.tool_call_id: entry.body
        for entry in past.view.transcript(agent_id)
        if entry.run == run and isinstance(entry.body, ToolCall)
    }


def _children(past: Past, node: AgentNode, tool_call_id: str) -> list[AgentNode]:
    return [
        child
        for child in past.view.tree()
        if child.info.parent_id == node.info.agent_id and child.info.tool_call_id == tool_call_id
    ]


def _outcome(past: Past, node: AgentNode) -> Outcome:
    history = past.histories.get(node.info.agent_id)
    task = history[0].text if history else node.info.label
    requests = past.requests.get((node.info.agent_id, node.run), 0)
    return Outcome(node.info.agent_id, _ending(node), task, node.usage, node.tool_call_count, requests)


def _ending(node: AgentNode) -> Ending:
    found = node.summary or ""
    match node.status:
        case AgentStatus.COMPLETED:
            return Completed(found)
        case AgentStatus.CANCELLED:
            by = CancelReason.USER if node.error == CANCELLED_BY_USER else CancelReason.PARENT
            return Cancelled(by, found)
        case _:
            return Failed(node.failure_reason or FailureReason.UNKNOWN, node.error or "", found)
