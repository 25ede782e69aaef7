"""A session is a tree of agents: the primary agent at depth 0, its sub-agents at depth 1. Resuming a sub-agent after
its end keeps its id and starts a new run. Starts, ends and everything in between therefore belong to an agent and a
run.

Cancelling an agent also cancels everything below it, and returns when all of that has stopped. Its parent and its
siblings continue. A queued agent can be cancelled like a running one.
"""

from enum import StrEnum

from deputy_protocol.base import Count, Flag, Number, Params, Positive, Wire
from deputy_protocol.model import Effort


class AgentStatus(StrEnum):
    """State of an agent. Only the primary agent is `idle`, between turns; `pending` means that the agent waits for a
    free slot."""

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
    """What an agent may do. With `read_only` it gets no tool that changes anything."""

    READ_ONLY = "read_only"
    DEFAULT = "default"


class FailureReason(StrEnum):
    """Why a run failed. Details are in a separate text field."""

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
    """Input tokens that were neither read from nor written to the provider's cache."""
    output_tokens: Count = 0
    cache_read_tokens: Count = 0
    cache_write_tokens: Count = 0
    cost: Number | None = None
    """US dollars. Absent when the price of the model is unknown."""


class ContextSize(Wire):
    """How much of an agent's context window is used."""

    used: Count
    """Tokens of the last request and its reply."""
    window: Count
    """Size of the context window in tokens."""


class Ancestor(Wire):
    """An agent above another one in the tree."""

    agent_id: str
    label: str


class AgentRef(Wire):
    """The agent that makes a permission request."""

    agent_id: str
    label: str
    definition: str
    """Name of its agent definition."""
    model: str
    depth: Count
    """0 for the primary agent, 1 for its sub-agents."""
    ancestry: tuple[Ancestor, ...] = ()
    """The agents above it, starting with the primary agent."""


class AgentNode(Wire):
    """An agent as shown in a tree, in the state of its latest run."""

    agent_id: str
    parent_agent_id: str | None = None
    """Absent for the primary agent."""
    tool_call_id: str | None = None
    """The parent's tool call that started it."""
    label: str
    """The title that its parent gave it, at most 40 characters, or the first line of its task, at most 30."""
    definition: str
    """Name of its agent definition, such as `primary` or `general`."""
    model: str
    effort: Effort | None = None
    """Absent if it is left to the model."""
    access: Access
    depth: Count
    """0 for the primary agent, 1 for its sub-agents."""
    run: Positive
    """The latest run, counted from 1."""
    status: AgentStatus
    queue_position: Positive | None = None
    """Position in the queue while `pending`, counted from 1."""
    started_at: str
    """When the run was accepted."""
    updated_at: str
    ended_at: str | None = None
    """When the run ended. Absent until then."""
    summary: str | None = None
    """What the agent found, shortened. Absent until the run has ended."""
    error: str | None = None
    """Why the run failed, for the user."""
    failure_reason: FailureReason | None = None
    usage: Usage
    context: ContextSize | None = None
    """Absent before the first reply of the model."""
    tool_call_count: Count
    """Number of tool calls so far."""


class AgentListResult(Wire):
    """All agents of a session."""

    agents: tuple[AgentNode, ...]
    """Ordered by start time, then by id."""


class AgentParams(Params):
    """An agent of a session."""

    session_id: str
    agent_id: str


class CancelledResult(Wire):
    """The result of a cancellation. It arrives when everything below has stopped."""

    cancelled: Flag
    """False when there was nothing to cancel."""


class AgentMessageParams(Params):
    """A message to a running agent."""

    session_id: str
    agent_id: str
    text: str


class AgentMessageResult(Wire):
    """What happened to the message."""

    queued: Flag
    """The agent reads the message after its next tool results or, while it waits for sub-agents, when they have
    ended."""


class AgentRevertParams(Params):
    """The agent whose edits to revert."""

    session_id: str
    agent_id: str
    include_children: Flag = False
    """Also revert the edits of all agents below it."""


class RevertConflict(Wire):
    """A file that was not reverted."""

    uri: str
    reason: str
    """Why, for the user."""


class AgentRevertResult(Wire):
    """What was reverted, and what was not."""

    reverted: tuple[str, ...]
    """URIs of the reverted files."""
    conflicts: tuple[RevertConflict, ...]
    """Files that were left unchanged."""
