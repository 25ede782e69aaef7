"""The view of a session: agent tree, transcripts, counts and open permission requests, folded from its events.

Front ends show only what follows from this fold, so a live session and the same session read from the store look equal.
Folding is idempotent: an event whose number is not above the last one changes nothing.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from deputy_agents.domain.event import (
    Activity,
    AgentFinished,
    AgentInfo,
    AgentStarted,
    Event,
    MessageAdded,
    PermissionRequest,
    PermissionRequested,
    PermissionResolved,
    PlanChanged,
    PlanEntry,
    SessionStatus,
    StatusChanged,
    ToolCallStarted,
    ToolCallUpdated,
    TurnFinished,
    TurnStarted,
    UsageChanged,
)
from deputy_agents.domain.message import Usage
from deputy_agents.domain.outcome import AgentStatus, FailureReason


@dataclass(frozen=True, slots=True)
class AgentNode:
    """An agent in lists and trees. ``summary`` is the bounded result of its last run."""

    info: AgentInfo
    run: int
    status: AgentStatus
    started_at: float
    updated_at: float
    queue_position: int | None = None
    ended_at: float | None = None
    summary: str | None = None
    error: str | None = None
    failure_reason: FailureReason | None = None
    usage: Usage = field(default_factory=Usage)
    tool_call_count: int = 0
    detail: str | None = None
    activity: str | None = None
    open_permission_requests: int = 0


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call in its latest state."""

    started: ToolCallStarted
    update: ToolCallUpdated | None = None


@dataclass(frozen=True, slots=True)
class ChildBlock:
    """A sub-agent's block in its parent's transcript."""

    node: AgentNode


EntryBody: TypeAlias = MessageAdded | ToolCall | ChildBlock


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a transcript. ``seq`` is the number of the event that created it. ``agent_id`` and ``run`` of a
    :class:`ChildBlock` are those of the sub-agent."""

    seq: int
    agent_id: str
    run: int
    time: float
    body: EntryBody


class View:
    """The folded state of a session. Pass every event in order to :meth:`apply`."""

    def __init__(self) -> None:
        self.last_seq = 0
        self.agents: dict[str, AgentNode] = {}
        self.permission_requests: dict[str, PermissionRequest] = {}
        self.plans: dict[str, tuple[PlanEntry, ...]] = {}
        self.last_turn: TurnFinished | None = None
        """The end of the last turn; ``None`` during a turn."""
        self._entries: dict[str, list[Entry]] = {}
        self._tool_calls: dict[tuple[str, int, str], int] = {}
        """Index of each tool call's entry, by agent, run and tool call id."""

    def apply(self, event: Event) -> None:
        if event.seq is None:
            if isinstance(event.body, Activity):
                self._set_activity(event, event.body)
            return
        if event.seq <= self.last_seq:
            return
        self.last_seq = event.seq
        self._fold(event)

    def tree(self) -> Sequence[AgentNode]:
        """All agents, ordered by start time, then id."""
        return sorted(self.agents.values(), key=lambda node: (node.started_at, node.info.agent_id))

    def descendants(self, agent_id: str) -> Sequence[str]:
        """The ids of all agents below ``agent_id``, in start order."""
        found = [agent_id]
        for node in self.tree():
            if node.info.parent_id in found:
                found.append(node.info.agent_id)
        return found[1:]

    def transcript(self, agent_id: str, after: int = 0, limit: int | None = None) -> Sequence[Entry]:
        """Entries of one agent with ``seq`` greater than ``after``; sub-agents' blocks are in their latest state."""
        entries = [entry for entry in self._entries.get(agent_id, ()) if entry.seq > after][:limit]
        return [
            replace(entry, body=ChildBlock(self.agents[entry.agent_id]))
            if isinstance(entry.body, ChildBlock)
            else entry
            for entry in entries
        ]

    def status(self) -> SessionStatus:
        """Counts for the status line."""
        states = Counter(node.status for node in self.agents.values() if node.info.parent_id is not None)
        waiting = {request.agent.agent_id for request in self.permission_requests.values() if request.agent.depth > 0}
        return SessionStatus(
            primary=1,
            pending=states[AgentStatus.PENDING],
            running=states[AgentStatus.RUNNING],
            awaiting_permission=sum(self.agents[agent_id].status is AgentStatus.RUNNING for agent_id in waiting),
            finished=sum(count for status, count in states.items() if status.ended),
        )

    # -- folding -------------------------------------------------------------------------------------------------

    def _fold(self, event: Event) -> None:  # noqa: C901 - one case per event type
        match event.body:
            case AgentStarted() as body:
                self._start(event, body)
            case AgentFinished() as body:
                self._finish(event, body)
            case StatusChanged() as body:
                self._set_status(event, body)
            case UsageChanged(usage):
                self._change(event, usage=usage)
            case MessageAdded() as body:
                self._add_entry(event, body)
            case ToolCallStarted() as body:
                self._start_tool_call(event, body)
            case ToolCallUpdated() as body:
                self._update_tool_call(event, body)
            case PermissionRequested(request):
                self.permission_requests[request.request_id] = request
                self._count_permission_requests(event, 1)
            case PermissionResolved(request_id):
                if self.permission_requests.pop(request_id, None) is not None:
                    self._count_permission_requests(event, -1)
            case PlanChanged(entries) if event.agent_id is not None:
                self.plans[event.agent_id] = entries
            case TurnStarted() | TurnFinished():
                self.last_turn = event.body if isinstance(event.body, TurnFinished) else None
            case _:
                pass  # types of newer versions

    def _start(self, event: Event, body: AgentStarted) -> None:
        node = AgentNode(
            info=body.info,
            run=event.run or 1,
            status=body.status,
            started_at=event.time,
            updated_at=event.time,
            queue_position=body.queue_position,
        )
        earlier = self.agents.get(body.info.agent_id)
        if earlier is not None:
            node = replace(node, started_at=earlier.started_at, usage=earlier.usage)
        self.agents[body.info.agent_id] = node
        if body.info.parent_id is not None:
            self._add_entry(event, ChildBlock(node), owner=body.info.parent_id)

    def _set_status(self, event: Event, body: StatusChanged) -> None:
        self._change(event, status=body.status, queue_position=body.queue_position, detail=body.detail)
        if body.status is AgentStatus.IDLE:
            self._change(event, activity=None)

    def _finish(self, event: Event, body: AgentFinished) -> None:
        self._change(
            event,
            status=body.status,
            ended_at=event.time,
            queue_position=None,
            detail=None,
            activity=None,
            summary=body.result,
            error=body.error,
            failure_reason=body.failure_reason,
            usage=body.usage,
            tool_call_count=body.tool_call_count,
        )

    def _change(self, event: Event, **changes: object) -> None:
        node = self.agents.get(event.agent_id or "")
        # The end of a run is final: duplicate or late events change nothing.
        if node is not None and event.run == node.run and not node.status.ended:
            self.agents[node.info.agent_id] = replace(node, updated_at=event.time, **changes)  # pyright: ignore[reportArgumentType]

    def _set_activity(self, event: Event, activity: Activity) -> None:
        """Shows a running agent's activity. Activities are not stored, so they are removed when the agent stops."""
        node = self.agents.get(event.agent_id or "")
        if node is not None and event.run == node.run and node.status is AgentStatus.RUNNING:
            self.agents[node.info.agent_id] = replace(node, activity=activity.text)

    def _count_permission_requests(self, event: Event, change: int) -> None:
        node = self.agents.get(event.agent_id or "")
        if node is not None:
            self._change(event, open_permission_requests=node.open_permission_requests + change)

    def _add_entry(self, event: Event, body: EntryBody, owner: str | None = None) -> None:
        agent_id = event.agent_id or ""
        entry = Entry(event.seq or 0, agent_id, event.run or 1, event.time, body)
        self._entries.setdefault(owner or agent_id, []).append(entry)

    def _start_tool_call(self, event: Event, body: ToolCallStarted) -> None:
        agent_id = event.agent_id or ""
        key = (agent_id, event.run or 1, body.tool_call_id)
        if key in self._tool_calls:
            return
        self._tool_calls[key] = len(self._entries.get(agent_id, ()))
        self._add_entry(event, ToolCall(body))
        if (node := self.agents.get(agent_id)) is not None:
            self._change(event, tool_call_count=node.tool_call_count + 1)

    def _update_tool_call(self, event: Event, body: ToolCallUpdated) -> None:
        agent_id = event.agent_id or ""
        index = self._tool_calls.get((agent_id, event.run or 1, body.tool_call_id))
        if index is None:
            return
        entries = self._entries[agent_id]
        entry = entries[index]
        if isinstance(entry.body, ToolCall):
            entries[index] = replace(entry, body=replace(entry.body, update=body))
