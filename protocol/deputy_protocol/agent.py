"""A session is a tree of agents: the primary at depth 0, its children at depth 1. A child that is continued after its
end keeps its id and opens a new run, so a start, an ending and everything between them belong to an agent and a run.

Cancelling an agent cancels everything below it, answers when all of that has stopped, and touches neither its parent
nor its siblings. A queued agent can be cancelled like a running one.
"""

from enum import StrEnum

from deputy_protocol.base import Count, Flag, Number, Params, Positive, Wire


class AgentStatus(StrEnum):
    """State of an agent. `idle` is the primary's alone, between turns; `pending` waits for a slot."""

    IDLE = "idle"
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class EndStatus(StrEnum):
    """How a run ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Access(StrEnum):
    """What an agent may touch. `read_only` offers no tool that changes anything."""

    READ_ONLY = "read_only"
    DEFAULT = "default"


class FailureReason(StrEnum):
    """Why a run failed; the detail is free text beside it."""

    TOOL_ERROR = "tool_error"
    APPROVAL_DENIED = "approval_denied"
    RUNTIME_ERROR = "runtime_error"
    MODEL_ERROR = "model_error"
    SUB_AGENT_ERROR = "sub_agent_error"
    TIMED_OUT = "timed_out"
    BUDGET_EXCEEDED = "budget_exceeded"
    INTERRUPTED_BY_RESTART = "interrupted_by_restart"
    UNKNOWN = "unknown"


class Usage(Wire):
    """Tokens used so far."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_read_tokens: Count = 0
    cache_write_tokens: Count = 0
    cost: Number | None = None
    """US dollars, where a price is known."""


class Ancestor(Wire):
    """An agent above another one."""

    agent_id: str
    label: str


class AgentRef(Wire):
    """Who asks."""

    agent_id: str
    label: str
    definition: str
    model: str
    depth: Count
    ancestry: tuple[Ancestor, ...] = ()
    """The root first, the agent itself excluded."""


class AgentNode(Wire):
    """An agent as a tree shows it, in the state of its latest run."""

    agent_id: str
    parent_agent_id: str | None = None
    """Absent for the primary."""
    tool_call_id: str | None = None
    """The parent's tool call that started it."""
    label: str
    """First line of its task, at most 30 characters."""
    definition: str
    """Name of its definition: `primary`, `general`, or another one."""
    model: str
    access: Access
    depth: Count
    """0 for the primary, 1 for its children."""
    run: Positive
    status: AgentStatus
    queue_position: Positive | None = None
    """Place in the queue, counted from 1, while `pending`."""
    started_at: str
    """When the run was accepted."""
    updated_at: str
    ended_at: str | None = None
    summary: str | None = None
    """What it found, bounded, once it has ended."""
    error: str | None = None
    failure_reason: FailureReason | None = None
    usage: Usage
    tool_call_count: Count


class AgentListResult(Wire):
    """All agents of a session."""

    agents: tuple[AgentNode, ...]
    """Ordered by start, then id."""


class AgentParams(Params):
    """An agent of a session."""

    session_id: str
    agent_id: str


class CancelledResult(Wire):
    """Answered when everything below has stopped."""

    cancelled: Flag
    """False when there was nothing left to cancel."""


class AgentMessageParams(Params):
    """Words for a running agent."""

    session_id: str
    agent_id: str
    text: str


class AgentMessageResult(Wire):
    """Where the words went."""

    queued: Flag
    """It reads them after its next tool results, or, while it waits for children, when they have ended."""


class AgentRevertParams(Params):
    """Whose edits to take back."""

    session_id: str
    agent_id: str
    include_children: Flag = False


class RevertConflict(Wire):
    """A file that was left alone."""

    uri: str
    reason: str


class AgentRevertResult(Wire):
    """What was taken back, and what could not be."""

    reverted: tuple[str, ...]
    """URIs."""
    conflicts: tuple[RevertConflict, ...]
