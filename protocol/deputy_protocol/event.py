"""`deputy/event` notifies subscribed clients that declared `events` of everything that happens in a session, in order.
A subscription covers a session and all of its agents. It starts with `deputy/session/new`, `deputy/session/load`,
`deputy/session/prompt` or the command `deputy.prompt`. Sub-agents need no subscription of their own.

Every event has `type` and `time`, and every event of a session has `sessionId`. Events of an agent also have `agentId`
and `run`. In `turn_started` and `turn_finished`, these name the primary agent; in `plan` and `usage`, the agent
concerned.

**Durable** events have `seq`, which increases by one per session, and `agentSeq`, which increases by one per agent and
run. They are sent after they are stored. **Lossy** events (`message_delta`, `thought_delta`, `tool_output_delta`,
`agent_activity`) may be merged or dropped under load. **Derived** events (`session_status`, `review_status`,
`prompt_queue`, `session_changed`, `definitions_changed`) contain only what follows from other state. Lossy and derived
events have `afterSeq`, the last `seq` before them. If there is a gap in `seq`, load the session again.

Order: the parent's `tool_call` comes first, then the sub-agent's `agent_started`, then all its other events, then its
`agent_finished`, which is the last event of that run. If the parent waits for the sub-agent, the last
`tool_call_update` of the parent's call follows, with the status `completed`, `failed` or `cancelled` of the sub-agent.
The primary agent has one `agent_started` and no `agent_finished`. All events of a turn are sent before the response to
its prompt.

The text of a message is the sum of the deltas with its `messageId`, until the `message` with that id replaces it. When
a stream is retried, the `messageId` stays the same, and no delta is sent until the new text is longer than what was
already shown.
"""

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias, TypeVar

from pydantic import ConfigDict, Field, RootModel

from deputy_protocol.agent import AgentNode, AgentStatus, ContextSize, EndStatus, FailureReason, Usage
from deputy_protocol.base import Count, Flag, Positive, Wire
from deputy_protocol.checkpoint import CheckpointCreated, SessionRewound
from deputy_protocol.envelope import Derived, Durable, Lossy
from deputy_protocol.message import Message, Thought
from deputy_protocol.permission import PermissionOutcome, PermissionRequest, ResolvedBy
from deputy_protocol.place import Location, Reference
from deputy_protocol.review import ChangesReviewed, ReviewStatus
from deputy_protocol.tool import EditDiff, ToolCall, ToolStatus
from deputy_protocol.user_input import InputOutcome, InputRequest

# -- turns -------------------------------------------------------------------------------------------------------


class TurnOrigin(StrEnum):
    """What started a turn: a prompt, the end of a background task or process, or a command."""

    USER = "user"
    TASK_END = "task_end"
    COMMAND = "command"


class TurnStarted(Durable):
    """The primary agent starts a turn."""

    type: Literal["turn_started"] = "turn_started"
    turn_id: str
    origin: TurnOrigin


class TurnEnd(StrEnum):
    """Why a turn ended: a stop reason as in the prompt's result, or `error` if the prompt returned an error."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    MAX_TURN_REQUESTS = "max_turn_requests"
    REFUSAL = "refusal"
    CANCELLED = "cancelled"
    ERROR = "error"


class TurnError(Wire):
    """Why a turn failed, for the user."""

    kind: str
    """Such as `rate_limited`, `authentication` or `connection`."""
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
    """Set when `stopReason` is `error`."""
    interrupted: Flag | None = None
    """True when the turn was cancelled because the server stopped. A prompt can continue it."""
    detail: str | None = None
    """With `max_turn_requests`: which limit was reached, and the setting that changes it."""
    setting: str | None = None
    """With `max_turn_requests`: the name of that setting without the prefix `deputy.`, such as
    `budgets.tree.tokens`."""


class TurnFinished(TurnOutcome, Durable):
    """The primary agent has finished its turn."""

    type: Literal["turn_finished"] = "turn_finished"


class PromptQueueEntry(Wire):
    """A queued prompt."""

    prompt_id: str
    text: str
    pictures: int | None = None
    """Number of images in the prompt. The images themselves are not sent back."""


class PromptQueue(Derived):
    """The queued prompts."""

    type: Literal["prompt_queue"] = "prompt_queue"
    entries: tuple[PromptQueueEntry, ...]
    """In the order in which they will run."""


# -- agents ------------------------------------------------------------------------------------------------------


class AgentStarted(Durable):
    """A run of an agent was accepted. It is `pending` or `running`."""

    type: Literal["agent_started"] = "agent_started"
    agent: AgentNode
    tool_call_id: str | None = None
    """The parent's tool call that the agent belongs to."""


class AgentStatusChanged(Durable):
    """An agent left the queue, moved within it, or waits for something."""

    type: Literal["agent_status"] = "agent_status"
    status: AgentStatus
    queue_position: Positive | None = None
    """Position in the queue while `pending`, counted from 1."""
    detail: str | None = None
    """What the agent waits for, such as `rate limited, retrying in 4 s (2/8)`."""


class AgentActivity(Lossy):
    """What an agent is doing now. Sent at most ten times a second; replaces the previous activity."""

    type: Literal["agent_activity"] = "agent_activity"
    text: str
    tool_call_count: Count
    """Number of tool calls so far."""


class AgentFinished(Durable):
    """The end of a sub-agent's run. There is exactly one for each run."""

    type: Literal["agent_finished"] = "agent_finished"
    status: EndStatus
    failure_reason: FailureReason | None = None
    """Set when `status` is `failed`."""
    error: str | None = None
    """Why the run failed, for the user."""
    result: str
    """The agent's answer, or what it had found so far. Limited in length."""
    references: tuple[Reference, ...] | None = None
    """Passages that the result refers to."""
    usage: Usage
    tool_call_count: Count
    """Number of tool calls of the agent."""
    iterations: Count
    """Number of model replies in this run."""
    truncated: Flag
    """Whether `result` was cut. The transcript has the full text."""


class UsageChanged(Durable):
    """The total usage of an agent, and how much of its context window is used."""

    type: Literal["usage"] = "usage"
    usage: Usage
    context: ContextSize | None = None
    """Absent if it has not changed."""


# -- messages and tool calls -------------------------------------------------------------------------------------


class MessageDelta(Lossy):
    """More text of a message."""

    type: Literal["message_delta"] = "message_delta"
    message_id: str
    text: str


class ThoughtDelta(Lossy):
    """More of a model's reasoning, for display only. It never becomes part of a message."""

    type: Literal["thought_delta"] = "thought_delta"
    message_id: str
    text: str


class ToolOutputDelta(Lossy):
    """More output of a running tool call, such as a shell command. When there is too much output, only the latest part
    is sent. The last `tool_call_update` has the output."""

    type: Literal["tool_output_delta"] = "tool_output_delta"
    tool_call_id: str
    text: str


class MessageAdded(Message, Durable):
    """A complete message. In a cancelled turn it has the text shown so far."""

    type: Literal["message"] = "message"


class ThoughtAdded(Thought, Durable):
    """What the model thought before a message. It replaces the `thought_delta` events with this `messageId`."""

    type: Literal["thought"] = "thought"


class ToolCallStarted(ToolCall, Durable):
    """An agent calls a tool."""

    type: Literal["tool_call"] = "tool_call"


class ToolCallUpdate(Durable):
    """The state of a tool call changed."""

    type: Literal["tool_call_update"] = "tool_call_update"
    tool_call_id: str
    status: ToolStatus
    content: str | None = None
    """The part of the result to show to the user. Limited in length."""
    locations: tuple[Location, ...] | None = None
    """Replaces the locations of the tool call."""
    truncated: Flag | None = None
    """Whether `content` is only a part of the output. `deputy/agent/output` returns more of it."""
    diff: EditDiff | None = None
    """What a completed edit has changed."""


class PlanStatus(StrEnum):
    """State of a step."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


class PlanPriority(StrEnum):
    """Priority of a step."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class PlanEntry(Wire):
    """A step of a plan."""

    content: str
    status: PlanStatus
    priority: PlanPriority | None = None


class Plan(Durable):
    """An agent's plan. Replaces the previous plan."""

    type: Literal["plan"] = "plan"
    entries: tuple[PlanEntry, ...]


# -- permissions -------------------------------------------------------------------------------------------------


class PermissionRequested(PermissionRequest, Durable):
    """A permission request is open. This event is for information; the request itself is sent as
    `deputy/permission/request`."""

    type: Literal["permission_requested"] = "permission_requested"


class PermissionResolved(Durable):
    """A permission request was settled."""

    type: Literal["permission_resolved"] = "permission_resolved"
    request_id: str
    outcome: PermissionOutcome
    by: ResolvedBy
    """How it was settled."""
    reason: str | None = None
    """Why, if a rule or the permission mode settled it."""


class InputRequested(InputRequest, Durable):
    """An input request is open. This event is for information; the request itself is sent as `deputy/input/request`."""

    type: Literal["input_requested"] = "input_requested"


class InputResolved(Durable):
    """An input request was settled. What the user entered is in the result of the tool call only."""

    type: Literal["input_resolved"] = "input_resolved"
    request_id: str
    outcome: InputOutcome
    by: ResolvedBy
    """How it was settled."""


# -- the session -------------------------------------------------------------------------------------------------


class SessionStatus(Derived):
    """How many agents the session has. All fields except `primary` count sub-agents."""

    type: Literal["session_status"] = "session_status"
    primary: Count
    pending: Count
    running: Count
    awaiting_permission: Count
    """Included in `running`."""
    finished: Count


class SessionChanged(Derived):
    """The title, model, permission mode, archived state or background processes changed. Request them again."""

    type: Literal["session_changed"] = "session_changed"


class DefinitionsChanged(Wire):
    """The agent definitions changed. Request them again. This event belongs to no session."""

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
    | ThoughtAdded
    | ToolCallStarted
    | ToolCallUpdate
    | Plan
    | PermissionRequested
    | PermissionResolved
    | InputRequested
    | InputResolved
    | ChangesReviewed
    | ReviewStatus
    | CheckpointCreated
    | SessionRewound
    | SessionStatus
    | SessionChanged
    | DefinitionsChanged,
    Field(discriminator="type"),
]


_T = TypeVar("_T")


class _Deferred(RootModel[_T]):
    # A plain `RootModel[Event]` would build the validators of all events at import.
    model_config = ConfigDict(frozen=True, defer_build=True)


class EventParams(_Deferred[Event]):
    """One event. `type` identifies its shape."""


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
    """:class:`MessageDelta` or :class:`ThoughtDelta` in wire format. Built without a model, because they are sent by
    the hundred."""
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
    """:class:`AgentActivity` in wire format, built without a model."""
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
