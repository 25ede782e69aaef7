"""What a terminal shows of a session, as a pure fold over its events: ``fold(view, event) -> view``.

Nothing here draws or reads a clock; times come from the events.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias, TypeVar

from deputy_protocol.agent import AgentNode, AgentStatus, ContextSize, FailureReason, Usage
from deputy_protocol.event import (
    AgentActivity,
    AgentFinished,
    AgentStarted,
    AgentStatusChanged,
    Event,
    InputRequested,
    InputResolved,
    MessageAdded,
    MessageDelta,
    PermissionRequested,
    PermissionResolved,
    ThoughtAdded,
    ToolCallStarted,
    ToolCallUpdate,
    UsageChanged,
)
from deputy_protocol.message import Role
from deputy_protocol.model import Effort
from deputy_protocol.tool import EditDiff, ToolKind, ToolStatus
from deputy_server.terminal.pattern import short_pattern

ENDED = frozenset({AgentStatus.COMPLETED, AgentStatus.FAILED, AgentStatus.CANCELLED})
_OPEN_CALLS = frozenset({ToolStatus.PENDING, ToolStatus.IN_PROGRESS})
_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class ToolCallItem:
    """A tool call. ``title`` does not have the label of the agent that makes it."""

    id: str
    title: str
    status: ToolStatus
    edits: bool = False
    diff: EditDiff | None = None
    """What it has changed, if it is an edit that was made."""

    @property
    def finished(self) -> bool:
        return self.status not in _OPEN_CALLS


@dataclass(frozen=True, slots=True)
class MessageItem:
    """A message of the primary agent. ``complete`` once all of its text has arrived."""

    id: str
    text: str
    complete: bool

    @property
    def finished(self) -> bool:
        return self.complete


@dataclass(frozen=True, slots=True)
class ThoughtItem:
    """What the primary agent thought before a message."""

    id: str
    text: str

    @property
    def finished(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class AgentBlock:
    """One run of a sub-agent. Times are seconds since the epoch."""

    agent_id: str
    run: int
    label: str
    definition: str
    depth: int
    status: AgentStatus
    started: float
    ended: float | None = None
    queue_position: int | None = None
    activity: str = ""
    waiting_for: str = ""
    """What the agent waits for, such as a retry of a model request."""
    calls: tuple[ToolCallItem, ...] = ()
    call_count: int = 0
    tokens: int = 0
    result: str = ""
    error: str = ""
    reason: FailureReason | None = None
    permission_requests: frozenset[str] = frozenset()
    """Ids of its open permission requests."""
    model: str = ""
    """Its model and effort; empty if they are those of the primary agent."""

    @property
    def finished(self) -> bool:
        return self.status in ENDED

    @property
    def edits_not_made(self) -> int:
        """The number of its edits, if none of them was made: they were denied, or failed."""
        edits = [call for call in self.calls if call.edits]
        return 0 if any(call.status is ToolStatus.COMPLETED for call in edits) else len(edits)


Item: TypeAlias = MessageItem | ThoughtItem | ToolCallItem | AgentBlock


@dataclass(frozen=True, slots=True)
class View:
    """A session. ``items`` are the messages and tool calls of the primary agent and the blocks of its sub-agents, in
    the order in which they started, by key.

    The first block of a delegation tool call replaces the item of that call.
    """

    primary: str | None = None
    model: str = ""
    effort: Effort | None = None
    waiting_for: str = ""
    """What the primary agent waits for."""
    items: Mapping[str, Item] = field(default_factory=dict[str, Item])
    permission_requests: Mapping[str, str] = field(default_factory=dict[str, str])
    """The agent id of each open request to the user, by request id."""
    tokens: int = 0
    context: ContextSize | None = None
    """How much of the primary agent's context window is used."""

    @property
    def blocks(self) -> tuple[AgentBlock, ...]:
        return tuple(item for item in self.items.values() if isinstance(item, AgentBlock))

    def block_of(self, agent_id: str) -> AgentBlock | None:
        """The block of the agent's latest run."""
        runs = [block for block in self.blocks if block.agent_id == agent_id]
        return runs[-1] if runs else None


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of sub-agents by the state of their latest run, and of open permission requests of all agents."""

    pending: int
    running: int
    finished: int
    permission_requests: int


def counts(view: View) -> Counts:
    latest = {block.agent_id: block for block in view.blocks}.values()
    return Counts(
        pending=sum(block.status is AgentStatus.PENDING for block in latest),
        running=sum(block.status is AgentStatus.RUNNING for block in latest),
        finished=sum(block.finished for block in latest),
        permission_requests=len(view.permission_requests),
    )


def status_line(view: View) -> str:
    """``Agents: 1 primary, 2 running, 1 finished · 1 waiting for you``."""
    count = counts(view)
    queued = f", {count.pending} queued" if count.pending else ""
    waiting = f" · {count.permission_requests} waiting for you" if count.permission_requests else ""
    return f"Agents: 1 primary{queued}, {count.running} running, {count.finished} finished{waiting}"


def context_gauge(view: View) -> str:
    """``context 42 %``: how full the primary agent's context window is. Empty below 1 %."""
    size = view.context
    percent = 0 if size is None else 100 * size.used // size.window
    return f"context {percent} %" if percent else ""


def fold(view: View, event: Event) -> View:
    """The view after ``event``. An event that changes nothing here returns the same view."""
    match event:
        case AgentStarted():
            return _agent_started(view, event)
        case AgentStatusChanged() | AgentActivity() | AgentFinished() | UsageChanged():
            return _agent_changed(view, event)
        case ThoughtAdded(message_id=of, text=text) if event.agent_id == view.primary:
            return _thought(view, of, text)
        case MessageDelta() | MessageAdded():
            return _message(view, event)
        case ToolCallStarted() | ToolCallUpdate():
            return _tool_call(view, event)
        case PermissionRequested() | InputRequested():
            agent_id = event.agent.agent_id
            return _permissions(view, agent_id, {**view.permission_requests, event.request_id: agent_id})
        case PermissionResolved() | InputResolved():
            return _permissions(view, event.agent_id, _without(view.permission_requests, event.request_id))
        case _:
            return view


def _model(agent: AgentNode) -> str:
    return " · ".join(filter(None, (agent.model, agent.effort)))


def _agent_started(view: View, event: AgentStarted) -> View:
    agent = event.agent
    if agent.parent_agent_id is None:
        return replace(view, primary=agent.agent_id, model=agent.model, effort=agent.effort)
    block = AgentBlock(
        agent_id=agent.agent_id,
        run=event.run,
        label=agent.label,
        definition=agent.definition,
        model="" if (agent.model, agent.effort) == (view.model, view.effort) else _model(agent),
        depth=agent.depth,
        status=agent.status,
        started=_seconds(event.time),
        queue_position=agent.queue_position,
    )
    delegation = event.tool_call_id or agent.tool_call_id
    items: dict[str, Item] = {}
    for key, item in view.items.items():
        if key == delegation and isinstance(item, ToolCallItem):
            items[_key(block)] = block
        else:
            items[key] = item
    items.setdefault(_key(block), block)
    return replace(view, items=items)


def _agent_changed(view: View, event: AgentStatusChanged | AgentActivity | AgentFinished | UsageChanged) -> View:
    block = view.block_of(event.agent_id)
    if block is None:
        return _primary_changed(view, event)
    match event:
        case AgentStatusChanged():
            block = replace(
                block,
                status=event.status,
                queue_position=event.queue_position,
                waiting_for=event.detail or "",
                # The time of a block does not include the time in the queue.
                started=block.started if block.status is AgentStatus.RUNNING else _seconds(event.time),
            )
        case AgentActivity():
            block = replace(block, activity=event.text, call_count=max(block.call_count, event.tool_call_count))
        case AgentFinished():
            block = replace(
                block,
                status=AgentStatus(event.status),
                ended=_seconds(event.time),
                activity="",
                waiting_for="",
                call_count=event.tool_call_count,
                tokens=_total_tokens(event.usage),
                result=event.result,
                error=event.error or "",
                reason=event.failure_reason,
            )
        case UsageChanged():
            block = replace(block, tokens=_total_tokens(event.usage))
    return _with_item(view, _key(block), block)


def _primary_changed(view: View, event: AgentStatusChanged | AgentActivity | AgentFinished | UsageChanged) -> View:
    match event:
        case UsageChanged():
            return replace(view, tokens=_total_tokens(event.usage), context=event.context or view.context)
        case AgentStatusChanged() if event.agent_id == view.primary:
            return replace(view, waiting_for=event.detail or "")
        case _:
            return view


def _thought(view: View, message_id: str, text: str) -> View:
    """Adds a thought before its message, whose text may have arrived first."""
    thought = ThoughtItem(f"{message_id}/thought", text)
    before = {key: item for key, item in view.items.items() if key != message_id}
    after = {message_id: view.items[message_id]} if message_id in view.items else {}
    return replace(view, items={**before, thought.id: thought, **after})


def _message(view: View, event: MessageDelta | MessageAdded) -> View:
    if event.agent_id != view.primary:
        return view
    if isinstance(event, MessageDelta):
        before = view.items.get(event.message_id)
        text = before.text if isinstance(before, MessageItem) else ""
        return _with_item(view, event.message_id, MessageItem(event.message_id, text + event.text, complete=False))
    if event.role is Role.USER:
        return view
    return _with_item(view, event.message_id, MessageItem(event.message_id, event.text, complete=True))


def _tool_call(view: View, event: ToolCallStarted | ToolCallUpdate) -> View:
    block = view.block_of(event.agent_id)
    if block is None:
        return _primary_tool_call(view, event)
    if isinstance(event, ToolCallStarted):
        title = _title(event, f"[{block.label}] ")
        call = ToolCallItem(event.tool_call_id, title, event.status, edits=event.kind is ToolKind.EDIT)
        calls = (*block.calls, call)
        block = replace(block, calls=calls, call_count=max(block.call_count, len(calls)))
    else:
        updated = (_updated(call, event) if call.id == event.tool_call_id else call for call in block.calls)
        block = replace(block, calls=tuple(updated))
    return _with_item(view, _key(block), block)


def _primary_tool_call(view: View, event: ToolCallStarted | ToolCallUpdate) -> View:
    if isinstance(event, ToolCallStarted):
        call = ToolCallItem(event.tool_call_id, _title(event, ""), event.status)
        return _with_item(view, event.tool_call_id, call)
    item = view.items.get(event.tool_call_id)
    if not isinstance(item, ToolCallItem):
        return view
    return _with_item(view, event.tool_call_id, _updated(item, event))


def _updated(call: ToolCallItem, event: ToolCallUpdate) -> ToolCallItem:
    return replace(call, status=event.status, diff=event.diff)


def _title(event: ToolCallStarted, prefix: str) -> str:
    """The title without the agent's label in ``prefix``. For a search, a short form of the pattern and its places."""
    pattern = event.input.get("pattern")
    if event.tool != "grep" or not isinstance(pattern, str):
        return event.title.removeprefix(prefix)
    places = [str(place) for key in ("path", "glob") if (place := event.input.get(key)) not in (None, "", ".")]
    return f"grep({' in '.join([short_pattern(pattern), *places])})"


def _permissions(view: View, agent_id: str, requests: Mapping[str, str]) -> View:
    """The view with the open permission ``requests``, of which those of one agent have changed."""
    view = replace(view, permission_requests=requests)
    block = view.block_of(agent_id)
    if block is None:
        return view
    own = frozenset(request_id for request_id, requester in requests.items() if requester == agent_id)
    return _with_item(view, _key(block), replace(block, permission_requests=own))


def _with_item(view: View, key: str, item: Item) -> View:
    return replace(view, items={**view.items, key: item})


def _without(mapping: Mapping[_K, _V], key: _K) -> dict[_K, _V]:
    return {k: v for k, v in mapping.items() if k != key}


def _key(block: AgentBlock) -> str:
    return f"{block.agent_id}/{block.run}"


def _total_tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
