"""What a terminal shows, as a pure fold over a session's events: ``fold(view, event) -> view``.

Drawing is elsewhere; nothing here knows of a terminal or a clock (times come with the events).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias, TypeVar

from deputy_protocol.agent import AgentStatus, FailureReason, Usage
from deputy_protocol.event import (
    AgentActivity,
    AgentFinished,
    AgentStarted,
    AgentStatusChanged,
    Event,
    MessageAdded,
    MessageDelta,
    PermissionRequested,
    PermissionResolved,
    ToolCallStarted,
    ToolCallUpdate,
    UsageChanged,
)
from deputy_protocol.message import Role
from deputy_protocol.tool import ToolStatus
from deputy_server.terminal.pattern import short_pattern

ENDED = frozenset({AgentStatus.COMPLETED, AgentStatus.FAILED, AgentStatus.CANCELLED})
_OPEN_CALLS = frozenset({ToolStatus.PENDING, ToolStatus.IN_PROGRESS})
_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call. ``title`` is without the label of the agent that makes it."""

    id: str
    title: str
    status: ToolStatus

    @property
    def settled(self) -> bool:
        return self.status not in _OPEN_CALLS


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the primary. ``whole`` once nothing more follows."""

    id: str
    text: str
    whole: bool

    @property
    def settled(self) -> bool:
        return self.whole


@dataclass(frozen=True, slots=True)
class Block:
    """One run of a child: what its collapsible group shows. Times are seconds since the epoch."""

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
    wait: str = ""
    """Why it does not get on, such as a model service that is asked again."""
    calls: tuple[Call, ...] = ()
    call_count: int = 0
    tokens: int = 0
    result: str = ""
    error: str = ""
    reason: FailureReason | None = None
    asking: frozenset[str] = frozenset()
    """Ids of its open questions."""

    @property
    def settled(self) -> bool:
        return self.status in ENDED


Item: TypeAlias = Said | Call | Block


@dataclass(frozen=True, slots=True)
class View:
    """Everything of one session in the order in which it began, which never changes.

    ``items`` maps a key to what the primary said, the tools that it called itself, and the blocks of its children.
    A block takes the place of the tool call that it came from, if that has no block yet.
    """

    primary: str | None = None
    model: str = ""
    wait: str = ""
    """Why the primary does not get on."""
    items: Mapping[str, Item] = field(default_factory=dict[str, Item])
    asking: Mapping[str, str] = field(default_factory=dict[str, str])
    """Open questions: request id to the id of the agent that asks."""
    tokens: int = 0

    @property
    def blocks(self) -> tuple[Block, ...]:
        return tuple(item for item in self.items.values() if isinstance(item, Block))

    def block_of(self, agent_id: str) -> Block | None:
        """The latest run of an agent."""
        runs = [block for block in self.blocks if block.agent_id == agent_id]
        return runs[-1] if runs else None


@dataclass(frozen=True, slots=True)
class Counts:
    """How many agents there are. ``asking`` is a part of ``running`` and counts questions."""

    pending: int
    running: int
    finished: int
    asking: int


def counts(view: View) -> Counts:
    """The figures of the status line: children by their latest run, and open questions of anyone."""
    latest = {block.agent_id: block for block in view.blocks}.values()
    return Counts(
        pending=sum(block.status is AgentStatus.PENDING for block in latest),
        running=sum(block.status is AgentStatus.RUNNING for block in latest),
        finished=sum(block.settled for block in latest),
        asking=len(view.asking),
    )


def status_line(view: View) -> str:
    """``Agents: 1 primary, 2 running, 1 finished · 1 waiting for you``."""
    have = counts(view)
    queued = f", {have.pending} queued" if have.pending else ""
    waiting = f" · {have.asking} waiting for you" if have.asking else ""
    return f"Agents: 1 primary{queued}, {have.running} running, {have.finished} finished{waiting}"


def fold(view: View, event: Event) -> View:
    """The view after ``event``. Events that change nothing here give the same view back."""
    match event:
        case AgentStarted():
            return _started(view, event)
        case AgentStatusChanged() | AgentActivity() | AgentFinished() | UsageChanged():
            return _changed(view, event)
        case MessageDelta() | MessageAdded():
            return _said(view, event)
        case ToolCallStarted() | ToolCallUpdate():
            return _called(view, event)
        case PermissionRequested():
            return _asking(view, event.agent.agent_id, {**view.asking, event.request_id: event.agent.agent_id})
        case PermissionResolved():
            return _asking(view, event.agent_id, _without(view.asking, event.request_id))
        case _:
            return view


def _started(view: View, event: AgentStarted) -> View:
    agent = event.agent
    if agent.parent_agent_id is None:
        return replace(view, primary=agent.agent_id, model=agent.model)
    block = Block(
        agent_id=agent.agent_id,
        run=event.run,
        label=agent.label,
        definition=agent.definition,
        depth=agent.depth,
        status=agent.status,
        started=_seconds(event.time),
        queue_position=agent.queue_position,
    )
    door = event.tool_call_id or agent.tool_call_id
    items: dict[str, Item] = {}
    for key, item in view.items.items():
        if key == door and isinstance(item, Call):
            items[_key(block)] = block
        else:
            items[key] = item
    items.setdefault(_key(block), block)
    return replace(view, items=items)


def _changed(view: View, event: AgentStatusChanged | AgentActivity | AgentFinished | UsageChanged) -> View:
    block = view.block_of(event.agent_id)
    if block is None:
        return _changed_primary(view, event)
    match event:
        case AgentStatusChanged():
            block = replace(
                block,
                status=event.status,
                queue_position=event.queue_position,
                wait=event.detail or "",
                # The clock of a block shows its work, not its wait.
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
                wait="",
                call_count=event.tool_call_count,
                tokens=_total(event.usage),
                result=event.result,
                error=event.error or "",
                reason=event.failure_reason,
            )
        case UsageChanged():
            block = replace(block, tokens=_total(event.usage))
    return _put(view, _key(block), block)


def _changed_primary(view: View, event: AgentStatusChanged | AgentActivity | AgentFinished | UsageChanged) -> View:
    match event:
        case UsageChanged():
            return replace(view, tokens=_total(event.usage))
        case AgentStatusChanged() if event.agent_id == view.primary:
            return replace(view, wait=event.detail or "")
        case _:
            return view


def _said(view: View, event: MessageDelta | MessageAdded) -> View:
    if event.agent_id != view.primary:
        return view
    if isinstance(event, MessageDelta):
        before = view.items.get(event.message_id)
        text = before.text if isinstance(before, Said) else ""
        return _put(view, event.message_id, Said(event.message_id, text + event.text, whole=False))
    if event.role is Role.USER:
        return view
    return _put(view, event.message_id, Said(event.message_id, event.text, whole=True))


def _called(view: View, event: ToolCallStarted | ToolCallUpdate) -> View:
    block = view.block_of(event.agent_id)
    if block is None:
        return _called_by_primary(view, event)
    if isinstance(event, ToolCallStarted):
        call = Call(event.tool_call_id, _title(event, f"[{block.label}] "), event.status)
        calls = (*block.calls, call)
        block = replace(block, calls=calls, call_count=max(block.call_count, len(calls)))
    else:
        moved = (replace(c, status=event.status) if c.id == event.tool_call_id else c for c in block.calls)
        block = replace(block, calls=tuple(moved))
    return _put(view, _key(block), block)


def _called_by_primary(view: View, event: ToolCallStarted | ToolCallUpdate) -> View:
    if isinstance(event, ToolCallStarted):
        return _put(view, event.tool_call_id, Call(event.tool_call_id, _title(event, ""), event.status))
    call = view.items.get(event.tool_call_id)
    return _put(view, event.tool_call_id, replace(call, status=event.status)) if isinstance(call, Call) else view


def _title(event: ToolCallStarted, prefix: str) -> str:
    """The title without who calls; that of a search says what is sought where, so that it can be read at a glance."""
    pattern = event.input.get("pattern")
    if event.tool != "grep" or not isinstance(pattern, str):
        return event.title.removeprefix(prefix)
    places = [str(place) for key in ("path", "glob") if (place := event.input.get(key)) not in (None, "", ".")]
    return f"grep({' in '.join([short_pattern(pattern), *places])})"


def _asking(view: View, agent_id: str, asking: Mapping[str, str]) -> View:
    view = replace(view, asking=asking)
    block = view.block_of(agent_id)
    if block is None:
        return view
    own = frozenset(request for request, asker in asking.items() if asker == agent_id)
    return _put(view, _key(block), replace(block, asking=own))


def _put(view: View, key: str, item: Item) -> View:
    return replace(view, items={**view.items, key: item})


def _without(mapping: Mapping[_K, _V], key: _K) -> dict[_K, _V]:
    return {k: v for k, v in mapping.items() if k != key}


def _key(block: Block) -> str:
    return f"{block.agent_id}/{block.run}"


def _total(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
