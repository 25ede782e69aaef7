"""`deputy/event` tells subscribed clients that declared `events` what happens in a session, in order. A subscription
covers the session and all of its agents; it begins with `deputy/session/new`, `deputy/session/load`,
`deputy/session/prompt` or the prompt command, and there is nothing to subscribe for each child.

Every event has `type` and `time`, and those of a session `sessionId`; events of an agent also name it by `agentId` and
`run`. `turn_started` and `turn_finished` name the primary, `plan` and `usage` the agent that they are about.

**Durable** events carry `seq`, which rises by one per session, and `agentSeq`, which rises by one per agent and run;
they are sent once they are stored. **Lossy** events (`message_delta`, `thought_delta`, `agent_activity`) may be
merged or left out under pressure, and **derived** ones (`session_status`, `prompt_queue`, `session_changed`,
`definitions_changed`) say what could be worked out from the rest; both carry `afterSeq`, the last `seq` before them. A
gap in `seq` means: load the session again.

Order: the parent's `tool_call` comes first, then the child's `agent_started`, then all else of the child, then its
`agent_finished`, which is the last of that run; where the parent waits for the child, its last `tool_call_update`
follows, `completed`, `failed` or `cancelled` as the child ended. The primary has one `agent_started` and never an
`agent_finished`. All events of a turn are sent before the prompt is answered.

The deltas with one `messageId` add up, and the `message` with that id replaces them. A stream that is retried keeps its
`messageId`: no delta comes until the new text passes what was shown.
"""

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias, TypeVar

from pydantic import ConfigDict, Field, RootModel

from deputy_protocol.agent import AgentNode, AgentStatus, EndStatus, FailureReason, Usage
from deputy_protocol.base import Count, Flag, Positive, Wire
from deputy_protocol.message import Message
from deputy_protocol.permission import PermissionOutcome, PermissionRequest, ResolvedBy
from deputy_protocol.place import Location, Reference
from deputy_protocol.tool import ToolCall, ToolStatus


class _AgentEvent(Wire):
    session_id: str
    agent_id: str
    run: Positive
    time: str


class _Durable(_AgentEvent):
    seq: Positive
    agent_seq: Positive


class _Lossy(_AgentEvent):
    after_seq: Count


class _Derived(Wire):
    session_id: str
    time: str
    after_seq: Count


# -- turns -------------------------------------------------------------------------------------------------------


class TurnOrigin(StrEnum):
    """What began a turn: a prompt, the end of a background agent, or a command."""

    USER = "user"
    TASK_END = "task_end"
    COMMAND = "command"


class TurnStarted(_Durable):
    """The primary begins a turn."""

    type: Literal["turn_started"] = "turn_started"
    turn_id: str
    origin: TurnOrigin


class TurnEnd(StrEnum):
    """Why a turn ended: a stop reason as in the prompt's answer, or `error` where the prompt is answered by one."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    MAX_TURN_REQUESTS = "max_turn_requests"
    REFUSAL = "refusal"
    CANCELLED = "cancelled"
    ERROR = "error"


class TurnError(Wire):
    """Why a turn failed, fit for the user."""

    kind: str
    message: str
    retryable: Flag
    """Whether the same prompt may succeed later."""
    action: str
    """What the user can do."""


class TurnOutcome(Wire):
    """How a turn ended."""

    turn_id: str
    stop_reason: TurnEnd
    error: TurnError | None = None
    interrupted: Flag | None = None
    """Whether it was the server's end that cancelled it: then a prompt can continue it."""
    detail: str | None = None
    """With `max_turn_requests`: the limit that was reached, in words, with the setting that sets it."""
    setting: str | None = None
    """With `max_turn_requests`: the name of that setting below `deputy.`, such as `budgets.tree.tokens`."""


class TurnFinished(TurnOutcome, _Durable):
    """The primary has ended its turn."""

    type: Literal["turn_finished"] = "turn_finished"


class PromptQueueEntry(Wire):
    """A prompt that waits for the running turn."""

    prompt_id: str
    text: str
    pictures: int | None = None
    """How many go with it; the pictures themselves are not sent back."""


class PromptQueue(_Derived):
    """The prompts that wait, in order."""

    type: Literal["prompt_queue"] = "prompt_queue"
    entries: tuple[PromptQueueEntry, ...]


# -- agents ------------------------------------------------------------------------------------------------------


class AgentStarted(_Durable):
    """A run of an agent was accepted: it is `pending` or `running`."""

    type: Literal["agent_started"] = "agent_started"
    agent: AgentNode
    tool_call_id: str | None = None
    """The parent's tool call, to whose block the agent belongs."""


class AgentStatusChanged(_Durable):
    """An agent left the queue, moved in it, or waits for something."""

    type: Literal["agent_status"] = "agent_status"
    status: AgentStatus
    queue_position: Positive | None = None
    detail: str | None = None
    """In words, such as `rate limited, retrying in 4 s (2/8)`."""


class AgentActivity(_Lossy):
    """What an agent does now, at most ten times a second; replaces the one before."""

    type: Literal["agent_activity"] = "agent_activity"
    text: str
    tool_call_count: Count


class AgentFinished(_Durable):
    """The one ending of a child's run."""

    type: Literal["agent_finished"] = "agent_finished"
    status: EndStatus
    failure_reason: FailureReason | None = None
    error: str | None = None
    result: str
    """Its answer, or what it had found; bounded."""
    references: tuple[Reference, ...] | None = None
    usage: Usage
    tool_call_count: Count
    iterations: Count
    truncated: Flag
    """Whether `result` was cut; the whole is in the transcript."""


class UsageChanged(_Durable):
    """What an agent has used in total."""

    type: Literal["usage"] = "usage"
    usage: Usage


# -- what agents say and do --------------------------------------------------------------------------------------


class MessageDelta(_Lossy):
    """More text of a message."""

    type: Literal["message_delta"] = "message_delta"
    message_id: str
    text: str


class ThoughtDelta(_Lossy):
    """More of what a model thinks, for show; never part of a message."""

    type: Literal["thought_delta"] = "thought_delta"
    message_id: str
    text: str


class ToolOutputDelta(_Lossy):
    """More of what a tool call puts out while it runs, such as a command; of a flood only the latest part. The last
    `tool_call_update` has the output."""

    type: Literal["tool_output_delta"] = "tool_output_delta"
    tool_call_id: str
    text: str


class MessageAdded(Message, _Durable):
    """A whole message; a cancelled turn's has the text shown so far."""

    type: Literal["message"] = "message"


class ToolCallStarted(ToolCall, _Durable):
    """An agent calls a tool."""

    type: Literal["tool_call"] = "tool_call"


class ToolCallUpdate(_Durable):
    """A tool call moved on."""

    type: Literal["tool_call_update"] = "tool_call_update"
    tool_call_id: str
    status: ToolStatus
    content: str | None = None
    """What people see of the result, bounded."""
    locations: tuple[Location, ...] | None = None
    """Replace those of the call."""
    truncated: Flag | None = None
    """Whether `content` is a part of the output, and `deputy/agent/output` gives more of it."""


class PlanStatus(StrEnum):
    """State of a step."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


class PlanPriority(StrEnum):
    """Weight of a step."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class PlanEntry(Wire):
    """A step of a plan."""

    content: str
    status: PlanStatus
    priority: PlanPriority | None = None


class Plan(_Durable):
    """An agent's plan; replaces the one before."""

    type: Literal["plan"] = "plan"
    entries: tuple[PlanEntry, ...]


# -- questions ---------------------------------------------------------------------------------------------------


class PermissionRequested(PermissionRequest, _Durable):
    """A question is open. It informs only: the question itself comes as a request."""

    type: Literal["permission_requested"] = "permission_requested"


class PermissionResolved(_Durable):
    """A question is settled."""

    type: Literal["permission_resolved"] = "permission_resolved"
    request_id: str
    outcome: PermissionOutcome
    by: ResolvedBy
    reason: str | None = None
    """What the gate says, where a rule or the mode has settled it."""


# -- the session -------------------------------------------------------------------------------------------------


class SessionStatus(_Derived):
    """How many agents there are; all but `primary` count children."""

    type: Literal["session_status"] = "session_status"
    primary: Count
    pending: Count
    running: Count
    awaiting_permission: Count
    """A part of `running`."""
    finished: Count


class SessionChanged(_Derived):
    """Title, model, permission mode, archiving or background commands changed: ask for them again."""

    type: Literal["session_changed"] = "session_changed"


class DefinitionsChanged(Wire):
    """Agent definitions changed: ask for them again. It belongs to no session."""

    type: Literal["definitions_changed"] = "definitions_changed"
    time: str
    after_seq: Count = 0


Event: TypeAlias = Annotated[
    TurnStarted
    | TurnFinished
    | PromptQueue
    | AgentStarted
    | AgentStatusChanged
    | AgentActivity
    | AgentFinished
    | UsageChanged
    | MessageDelta
    | ThoughtDelta
    | ToolOutputDelta
    | MessageAdded
    | ToolCallStarted
    | ToolCallUpdate
    | Plan
    | PermissionRequested
    | PermissionResolved
    | SessionStatus
    | SessionChanged
    | DefinitionsChanged,
    Field(discriminator="type"),
]


_T = TypeVar("_T")


class _Deferred(RootModel[_T]):
    # `RootModel[Event]` itself would build the validators of all events at import.
    model_config = ConfigDict(frozen=True, defer_build=True)


class EventParams(_Deferred[Event]):
    """One event, told apart by `type`."""


def delta(
    kind: Literal["message_delta", "thought_delta"],
    *,
    session_id: str,
    agent_id: str,
    run: int,
    time: str,
    after_seq: int,
    message_id: str,
    text: str,
) -> dict[str, object]:
    """:class:`MessageDelta` or :class:`ThoughtDelta` as it goes to the wire, made without a model: these come by the
    hundred."""
    return {
        "sessionId": session_id,
        "agentId": agent_id,
        "run": run,
        "time": time,
        "afterSeq": after_seq,
        "type": kind,
        "messageId": message_id,
        "text": text,
    }


def activity(
    *, session_id: str, agent_id: str, run: int, time: str, after_seq: int, text: str, tool_call_count: int
) -> dict[str, object]:
    """:class:`AgentActivity` as it goes to the wire, made without a model."""
    return {
        "sessionId": session_id,
        "agentId": agent_id,
        "run": run,
        "time": time,
        "afterSeq": after_seq,
        "type": "agent_activity",
        "text": text,
        "toolCallCount": tool_call_count,
    }
