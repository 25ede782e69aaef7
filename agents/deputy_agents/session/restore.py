"""Repairs what a process left unfinished in a session when it ended.

Pure: what a repair adds is returned as events and messages, to be stored in one step. A session that ended in order, or
was repaired before, needs none. A repair needs only an :class:`Excerpt` of a session.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from deputy_agents.domain.event import (
    AgentFinished,
    CallStatus,
    Durable,
    Event,
    InputResolved,
    MessageAdded,
    PermissionResolved,
    ResolvedBy,
    StatusChanged,
    ToolCallUpdated,
    TurnFinished,
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
from deputy_agents.domain.user_input import InputAction
from deputy_agents.events.entries import entries_of, numbers_of
from deputy_agents.events.numbering import Numbering
from deputy_agents.events.view import AgentNode, Entry, ToolCall, View
from deputy_agents.ports.store import ContextRecord, HistoryEnds, HistoryRecord, PendingPrompt, SessionState
from deputy_agents.run.result import aggregate, background_text, bare
from deputy_agents.text import clean, truncate
from deputy_agents.tool.ask import ASK_USER

ERROR = "Deputy ended while the agent was running"
INTERRUPTED = "Interrupted: Deputy ended while this was running. It may have taken effect in part."
NOT_ANSWERED = "Deputy ended before the user answered this question. Ask again if the answer still matters."
NOT_RUN = "Not run: Deputy ended before it started."
LOST = "Deputy ended before the result was delivered. The call is known to have {status}."
NOTICE_OF_TASK = '"task_id": "'
"""What the notice of the end of a background task contains, before the id of the agent."""

_BACKGROUND = "task"
_AGGREGATE = "spawn_agents"


@dataclass(slots=True)
class Past:
    """What is known of a stored session: ``view`` is the fold of its events up to ``saved_seq`` as it was saved, and of
    the events after them. ``contexts`` and ``notes`` (messages that the agent has not received) are by agent id."""

    session_id: str
    view: View
    saved_seq: int = 0
    contexts: dict[str, ContextRecord] = field(default_factory=dict[str, ContextRecord])
    notes: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    prompts: tuple[PendingPrompt, ...] = ()
    """The prompts that were queued."""
    primary_messages: int = 0
    """The number of messages in the history of the primary agent."""


def past_of(session_id: str, view: View, saved_seq: int, state: SessionState) -> Past:
    return Past(
        session_id,
        view,
        saved_seq,
        {record.agent_id: record for record in state.contexts},
        {record.agent_id: record.notes for record in state.notes},
        state.prompts,
    )


@dataclass(slots=True)
class Excerpt:
    """What a repair needs of histories (by agent) and of events (by number)."""

    histories: Mapping[str, HistoryEnds]
    events: dict[int, Event] = field(default_factory=dict[int, Event])


@dataclass(frozen=True, slots=True)
class Repaired:
    """What has to be stored before the session can continue."""

    events: Sequence[Event]
    history: Sequence[HistoryRecord]


def unfinished(view: View) -> list[str]:
    """The agents that a repair is about: those that have not ended. The primary never ends."""
    return [agent_id for agent_id, node in view.agents.items() if not node.status.ended]


def reported(view: View, agent_ids: Sequence[str], histories: Mapping[str, HistoryEnds]) -> list[str]:
    """The children whose ends a repair of these agents reports to them. The excerpt must have their histories too."""
    nodes = [view.agents[agent_id] for agent_id in agent_ids]
    index = view.transcripts
    if not index.open_calls and not index.tasks:
        return []
    unread = {child.info.agent_id for node in nodes for child in _unread_tasks(view, node, histories)}
    waited_for = {
        child.info.agent_id
        for child in view.agents.values()
        if child.info.parent_id in agent_ids and _call_of(view, child) in index.open_calls
    }
    return [*(unread | waited_for)]


def wanted(view: View, agent_ids: Sequence[str], histories: Mapping[str, HistoryEnds]) -> list[int]:
    """The numbers of the events that a repair of these agents needs: those of calls that have not ended, of calls in
    the last message of a history, and of answers."""
    index = view.transcripts
    seqs = [seq for seq, agent_id in index.open_calls.items() if agent_id in agent_ids]
    seqs += [index.last_answers[agent_id] for agent_id in agent_ids if agent_id in index.last_answers]
    for agent_id in agent_ids:
        uses = _last_calls(histories.get(agent_id))
        found = (index.call(agent_id, use.id, view.agents[agent_id].run) for use in uses)
        seqs += [seq for seq in found if seq is not None]
    return numbers_of(index.refs(seqs))


def repair(past: Past, agent_ids: Sequence[str], excerpt: Excerpt, now: float, limits: Limits) -> Repaired:
    """Ends the unfinished runs of these agents, sub-agents before their parents, and gives every tool call a result.
    Changes ``past`` to what the store will hold. ``limits`` bound the results of sub-agents."""
    found = _Found(past.view, excerpt)
    numbering = Numbering(past.view)
    events: list[Event] = []
    nodes = [past.view.agents[agent_id] for agent_id in agent_ids]
    for node in sorted(nodes, key=lambda node: -node.info.depth):
        for body in _endings(found, node, limits):
            event = numbering.numbered(Event(past.session_id, now, body, node.info.agent_id, node.run))
            past.view.apply(event)
            excerpt.events[event.seq or 0] = event
            events.append(event)
    history = [
        HistoryRecord(agent_id, message)
        for agent_id in agent_ids
        for message in missing_messages(past.view, agent_id, excerpt)
    ]
    return Repaired(events, history)


def missing_messages(view: View, agent_id: str, excerpt: Excerpt) -> Iterator[Message]:
    """The message that an agent's history lacks: results of its last calls, and ends of its background tasks."""
    found, node = _Found(view, excerpt), view.agents[agent_id]
    history = excerpt.histories.get(agent_id)
    results = tuple(_result(use, found.call(node, use.id)) for use in _last_calls(history))
    unread = _unread_tasks(view, node, excerpt.histories)
    notices = tuple(Text(background_text(_outcome(found, child))) for child in unread)
    if results or notices:
        yield Message("user", (*results, *notices), new_id())


def full_result(node: AgentNode, messages: Sequence[Message]) -> str:
    """The result of an agent's last run, of which its node has only a part: what its history has of it."""
    submitted = [
        str(call.input["result"])
        for message in messages
        for call in tool_uses(message)
        if call.name == "submit_result" and "result" in call.input
    ]
    return submitted[-1] if submitted else final_text(messages) or node.summary or ""


_LOST = "The server ended before you answered its permission request. Send a prompt, and the agent asks again."


# -- events --------------------------------------------------------------------------------------------------------


def _endings(found: "_Found", node: AgentNode, limits: Limits) -> Iterator[Durable]:
    """The events that the last run of an agent lacks. The sub-agents of its calls have ended."""
    agent_id = node.info.agent_id
    lost = [one for one in found.view.permission_requests.values() if one.agent.agent_id == agent_id]
    for request in lost:
        yield PermissionResolved(request.request_id, ResolvedBy.CANCELLED, reason=_LOST)
    unanswered = {request.tool_call_id for request in lost}
    for request in tuple(found.view.input_requests.values()):
        if request.agent.agent_id == agent_id:
            yield InputResolved(request.request_id, InputAction.CANCELLED, ResolvedBy.CANCELLED)
    for call in found.open_calls(node):
        if call.started.tool_call_id in unanswered:
            yield ToolCallUpdated(call.started.tool_call_id, CallStatus.CANCELLED, f"{NOT_RUN} {_LOST}")
        else:
            yield _ended_call(found, node, call, limits)
    if node.status is AgentStatus.IDLE:
        return
    if node.info.parent_id is not None:
        yield _finished(found, node, limits.result_bytes)
        return
    if found.view.open_turn is not None:
        yield TurnFinished(found.view.open_turn, "cancelled", interrupted=True)
    yield StatusChanged(AgentStatus.IDLE)


def _ended_call(found: "_Found", node: AgentNode, call: ToolCall, limits: Limits) -> ToolCallUpdated:
    call_id = call.started.tool_call_id
    children = _children(found.view, node, call_id)
    if call.started.tool == _AGGREGATE and children:
        outcomes = [_outcome(found, child) for child in children]
        return ToolCallUpdated(call_id, CallStatus.CANCELLED, aggregate(outcomes, limits.aggregate_bytes))
    if call.started.tool != _BACKGROUND and children:
        content, status = bare(_outcome(found, children[0]))
        return ToolCallUpdated(call_id, status, content)
    if call.started.tool == ASK_USER:
        return ToolCallUpdated(call_id, CallStatus.CANCELLED, NOT_ANSWERED)
    ran = (call.update or call.started).status is CallStatus.IN_PROGRESS
    return ToolCallUpdated(call_id, CallStatus.CANCELLED, INTERRUPTED if ran else NOT_RUN)


def _finished(found: "_Found", node: AgentNode, result_bytes: int) -> AgentFinished:
    agent_id = node.info.agent_id
    hint = f"get_agent(agent_id={agent_id!r}, messages=true) has all of it"
    text, truncated = truncate(clean(_last_message(found, node)), result_bytes, hint)
    return AgentFinished(
        status=AgentStatus.FAILED,
        result=text,
        usage=node.usage,
        tool_call_count=node.tool_call_count,
        iterations=found.view.replies.get((agent_id, node.run), 0),
        failure_reason=FailureReason.INTERRUPTED_BY_RESTART,
        error=ERROR,
        truncated=truncated,
    )


def _last_message(found: "_Found", node: AgentNode) -> str:
    """The agent's last message in this run."""
    seq = found.view.transcripts.last_answers.get(node.info.agent_id)
    entry = None if seq is None else found.entry(seq)
    return entry.body.text if entry and entry.run == node.run and isinstance(entry.body, MessageAdded) else ""


# -- histories -----------------------------------------------------------------------------------------------------


def _last_calls(history: HistoryEnds | None) -> tuple[ToolUse, ...]:
    """The calls that the last message of a history makes."""
    return tool_uses(history.last) if history is not None and history.last.role == "assistant" else ()


def _result(use: ToolUse, call: ToolCall | None) -> ToolResult:
    if call is None or call.update is None:
        return ToolResult(use.id, NOT_RUN, is_error=True)
    status = call.update.status
    content = call.update.content or LOST.format(status=status.value)
    return ToolResult(use.id, content, is_error=status is not CallStatus.COMPLETED)


def _unread_tasks(view: View, node: AgentNode, histories: Mapping[str, HistoryEnds]) -> list[AgentNode]:
    """The background tasks of whose last end the agent has no notice."""
    if not view.transcripts.tasks:
        return []
    history = histories.get(node.info.agent_id)
    read = "\n".join(message.text for message in history.matching if message.role == "user") if history else ""
    tasks = (child for child in _children(view, node) if _call_of(view, child) in view.transcripts.tasks)
    return [
        child
        for child in tasks
        if child.status.ended and read.count(f'{NOTICE_OF_TASK}{child.info.agent_id}"') < child.run
    ]


def _children(view: View, node: AgentNode, tool_call_id: str | None = None) -> list[AgentNode]:
    """The agents that an agent, or one of its calls, has started."""
    return [
        child
        for child in view.tree()
        if child.info.parent_id == node.info.agent_id and tool_call_id in (None, child.info.tool_call_id)
    ]


def _call_of(view: View, child: AgentNode) -> int | None:
    """The entry of the call that has started an agent."""
    parent = view.agents.get(child.info.parent_id or "")
    return parent and view.transcripts.call(parent.info.agent_id, child.info.tool_call_id or "", parent.run)


# -- what is known -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Found:
    """What the view and the excerpt have."""

    view: View
    excerpt: Excerpt

    def entry(self, seq: int) -> Entry | None:
        """An entry in its latest state."""
        entries = entries_of(self.view.transcripts.refs([seq]), self.excerpt.events, self.view.agents)
        return entries[0] if entries else None

    def call(self, node: AgentNode, tool_call_id: str) -> ToolCall | None:
        seq = self.view.transcripts.call(node.info.agent_id, tool_call_id, node.run)
        entry = None if seq is None else self.entry(seq)
        return entry.body if entry and isinstance(entry.body, ToolCall) else None

    def open_calls(self, node: AgentNode) -> list[ToolCall]:
        """The calls of an agent's run that have not ended."""
        open_calls = self.view.transcripts.open_calls.items()
        entries = (self.entry(seq) for seq, agent_id in sorted(open_calls) if agent_id == node.info.agent_id)
        return [entry.body for entry in entries if entry and entry.run == node.run and isinstance(entry.body, ToolCall)]


def _outcome(found: "_Found", node: AgentNode) -> Outcome:
    history = found.excerpt.histories.get(node.info.agent_id)
    task = history.first.text if history else node.info.label
    requests = found.view.replies.get((node.info.agent_id, node.run), 0)
    return Outcome(node.info.agent_id, _ending(node), task, node.usage, node.tool_call_count, requests)


def _ending(node: AgentNode) -> Ending:
    summary = node.summary or ""
    match node.status:
        case AgentStatus.COMPLETED:
            return Completed(summary)
        case AgentStatus.CANCELLED:
            by = CancelReason.USER if node.error == CANCELLED_BY_USER else CancelReason.PARENT
            return Cancelled(by, summary)
        case _:
            return Failed(node.failure_reason or FailureReason.UNKNOWN, node.error or "", summary)
