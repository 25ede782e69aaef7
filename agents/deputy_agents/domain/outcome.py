"""The ending of a run of a sub-agent: completed, failed or cancelled, with its result so far."""

from dataclasses import dataclass, field
from enum import StrEnum

from deputy_agents.domain.message import Usage


class FailureReason(StrEnum):
    """All the reasons for a failure. Details are free text beside the reason."""

    TOOL_ERROR = "tool_error"
    APPROVAL_DENIED = "approval_denied"
    RUNTIME_ERROR = "runtime_error"
    MODEL_ERROR = "model_error"
    SUB_AGENT_ERROR = "sub_agent_error"
    TIMED_OUT = "timed_out"
    BUDGET_EXCEEDED = "budget_exceeded"
    INTERRUPTED_BY_RESTART = "interrupted_by_restart"
    UNKNOWN = "unknown"


class CancelReason(StrEnum):
    """Why an agent is ended early. After ``TIMEOUT`` and ``BUDGET`` it has failed, else it is cancelled."""

    USER = "user"
    PARENT = "parent"
    TIMEOUT = "timeout"
    BUDGET = "budget"
    SHUTDOWN = "shutdown"


class AgentStatus(StrEnum):
    """The status of an agent as clients show it. ``IDLE`` is the primary between turns."""

    IDLE = "idle"
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in (AgentStatus.COMPLETED, AgentStatus.FAILED, AgentStatus.CANCELLED)


@dataclass(frozen=True, slots=True)
class Completed:
    """The child completed its task with an answer."""

    result: str


@dataclass(frozen=True, slots=True)
class LimitReached:
    """A limit that a turn or run reached: its description, and the name of its setting (``budgets.tree.tokens``), if
    one setting alone determines it. As text: both."""

    description: str
    setting: str = ""

    def __str__(self) -> str:
        return f"{self.description} ({self.setting})" if self.setting else self.description


@dataclass(frozen=True, slots=True)
class Failed:
    """The child failed. ``partial`` is its last text."""

    reason: FailureReason
    error: str
    partial: str = ""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The child was cancelled. ``by`` determines the sentence that its parent reads, ``partial`` is its last text."""

    by: CancelReason
    partial: str = ""


Ending = Completed | Failed | Cancelled


@dataclass(frozen=True, slots=True)
class Outcome:
    """The ending of one run of a child, with its task and counts."""

    agent_id: str
    ending: Ending
    task: str = ""
    usage: Usage = field(default_factory=Usage)
    tool_calls: int = 0
    iterations: int = 0

    @property
    def status(self) -> AgentStatus:
        match self.ending:
            case Completed():
                return AgentStatus.COMPLETED
            case Failed():
                return AgentStatus.FAILED
            case Cancelled():
                return AgentStatus.CANCELLED


CANCELLED_BY_USER = "Sub-agent cancelled by user."
CANCELLED_WITH_PARENT = "Sub-agent cancelled: parent cancelled."


def cancel_sentence(by: CancelReason) -> str:
    """The result of a cancelled child, as its parent reads it."""
    return CANCELLED_BY_USER if by is CancelReason.USER else CANCELLED_WITH_PARENT
