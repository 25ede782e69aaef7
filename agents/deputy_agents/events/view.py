"""The view of a session: agent tree, transcripts, counts and open permission requests, folded from its events.

Front ends show only what follows from this fold, so a live session and the same session read from the store look equal.
Folding is idempotent: an event whose number is not above the last one changes nothing. Of transcripts, the view has an
index only: ``events.entries`` reads entries.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from deputy_agents.domain.event import (
    Activity,
    AgentFinished,
    AgentInfo,
    AgentStarted,
    ContextSize,
    Event,
    InputRequest,
    InputRequested,
    InputResolved,
    MessageAdded,
    PermissionRequest,
    PermissionRequested,
    PermissionResolved,
    PlanChanged,
    PlanEntry,
    SessionStatus,
    StatusChanged,
    ThoughtAdded,
    ToolCallStarted,
    ToolCallUpdated,
    TurnFinished,
    TurnStarted,
    UsageChanged,
)
from deputy_agents.domain.message import Usage
from deputy_agents.domain.outcome import AgentStatus, FailureReason
from deputy_agents.domain.review import CheckpointCreated, SessionRewound
from deputy_agents.events.lineage import Lineage
from deputy_agents.events.transcript_index import TranscriptIndex


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
    open_requests: int = 0
    """Its open requests to the user, for permission and for input."""
    context: ContextSize | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call in its latest state."""

    started: ToolCallStarted
    update: ToolCallUpdated | None = None


@dataclass(frozen=True, slots=True)
class ChildBlock:
    """A sub-agent's block in its parent's transcript."""

    node: AgentNode


EntryBody: TypeAlias = MessageAdded | ThoughtAdded | ToolCall | ChildBlock


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
        self.transcripts = TranscriptIndex()
        self.permission_requests: dict[str, PermissionRequest] = {}
        self.input_requests: dict[str, InputRequest] = {}
        self.plans: dict[str, tuple[PlanEntry, ...]] = {}
        self.last_turn: TurnFinished | None = None
        """The end of the last turn; ``None`` during a turn."""
        self.open_turn: str | None = None
        """The turn that runs."""
        self.truncated: set[str] = set()
        """Agents whose ``summary`` is only a part of their result."""
        self.replies: dict[tuple[str, int], int] = {}
        """Model replies, by agent and run."""
        self.agent_seqs: dict[tuple[str | None, int | None], int] = {}
        """The last number within an agent and a run."""
        self.lineage = Lineage()
        self.first_seqs: dict[str, int] = {}
        """The number of the event with which each agent started."""

    def apply(self, event: Event) -> None:
        if event.seq is None:
            if isinstance(event.body, Activity):
                self._set_activity(event, event.body)
            return
        if event.seq <= self.last_seq:
            return
        self.last_seq = event.seq
        self.agent_seqs[event.agent_id, event.run] = event.agent_seq or 0
        self._fold(event)

    def tree(self) -> Sequence[AgentNode]:
        """All agents, ordered by start time, then id, without those of turns that were gone back over."""
        return sorted(self._shown(), key=lambda node: (node.started_at, node.info.agent_id))

    def _shown(self) -> Iterator[AgentNode]:
        hidden = self.lineage.is_hidden
        return (node for agent_id, node in self.agents.items() if not hidden(self.first_seqs.get(agent_id, 0)))

    def descendants(self, agent_id: str) -> Sequence[str]:
        """The ids of all agents below ``agent_id``, in start order."""
        found = [agent_id]
        for node in self.tree():
            if node.info.parent_id in found:
                found.append(node.info.agent_id)
        return found[1:]

    def status(self) -> SessionStatus:
        """Counts for the status line."""
        states = Counter(node.status for node in self._shown() if node.info.parent_id is not None)
        requests = (*self.permission_requests.values(), *self.input_requests.values())
        waiting = {request.agent.agent_id for request in requests if request.agent.depth > 0}
        return SessionStatus(
            primary=1,
            pending=states[AgentStatus.PENDING],
            running=states[AgentStatus.RUNNING],
            awaiting_permission=sum(
                node.status is AgentStatus.RUNNING for agent_id, node in self.agents.items() if agent_id in waiting
            ),
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
            case UsageChanged() as body:
                self._set_usage(event, body)
            case MessageAdded() as body:
                self.transcripts.add_message(event.agent_id or "", self.last_seq, body)
            case ThoughtAdded():
                self.transcripts.add(event.agent_id or "", self.last_seq)
            case ToolCallStarted() as body:
                self._start_tool_call(event, body)
            case ToolCallUpdated() as body:
                self.transcripts.update_call(event.agent_id or "", event.run or 1, self.last_seq, body)
            case PermissionRequested(request):
                self.permission_requests[request.request_id] = request
                self._count_requests(event, 1)
            case PermissionResolved(request_id):
                if self.permission_requests.pop(request_id, None) is not None:
                    self._count_requests(event, -1)
            case InputRequested(request):
                self.input_requests[request.request_id] = request
                self._count_requests(event, 1)
            case InputResolved(request_id):
                if self.input_requests.pop(request_id, None) is not None:
                    self._count_requests(event, -1)
            case PlanChanged(entries) if event.agent_id is not None:
                self.plans[event.agent_id] = entries
            case CheckpointCreated(checkpoint_id):
                self.lineage.mark(checkpoint_id, self.last_seq)
            case SessionRewound(checkpoint_id, conversation=True):
                if self.lineage.rewind(checkpoint_id, self.last_seq):
                    self.transcripts.hide(self.lineage.is_hidden)
                    self.plans.clear()
            case TurnStarted(turn_id):
                self.open_turn, self.last_turn = turn_id, None
            case TurnFinished() as body:
                self.open_turn, self.last_turn = None, body
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
        self.first_seqs.setdefault(body.info.agent_id, self.last_seq)
        earlier = self.agents.get(body.info.agent_id)
        if earlier is not None:
            node = replace(node, started_at=earlier.started_at, usage=earlier.usage, context=earlier.context)
        self.agents[body.info.agent_id] = node
        if body.info.parent_id is not None:
            self.transcripts.add(body.info.parent_id, self.last_seq)

    def _set_status(self, event: Event, body: StatusChanged) -> None:
        self._change(event, status=body.status, queue_position=body.queue_position, detail=body.detail)
        if body.status is AgentStatus.IDLE:
            self._change(event, activity=None)

    def _set_usage(self, event: Event, body: UsageChanged) -> None:
        key = (event.agent_id or "", event.run or 1)
        self.replies[key] = self.replies.get(key, 0) + body.replied
        self._change(event, usage=body.usage)
        if body.context is not None:
            self._change(event, context=body.context)

    def _finish(self, event: Event, body: AgentFinished) -> None:
        node = self.agents.get(event.agent_id or "")
        if node is not None and event.run == node.run and not node.status.ended:
            (self.truncated.add if body.truncated else self.truncated.discard)(node.info.agent_id)
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

    def _count_requests(self, event: Event, change: int) -> None:
        node = self.agents.get(event.agent_id or "")
        if node is not None:
            self._change(event, open_requests=node.open_requests + change)

    def _start_tool_call(self, event: Event, body: ToolCallStarted) -> None:
        agent_id = event.agent_id or ""
        is_new = self.transcripts.start_call(agent_id, event.run or 1, self.last_seq, body)
        if is_new and (node := self.agents.get(agent_id)) is not None:
            self._change(event, tool_call_count=node.tool_call_count + 1)
