"""How a run of a child ends: completed, failed or cancelled, with what it had found."""

from dataclasses import dataclass, field
from enum import StrEnum

from deputy_agents.domain.message import Usage


class FailureReason(StrEnum):
    """The closed set of reasons for a failure; detail is free text beside it."""

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
    """Who or what ends an agent early. ``TIMEOUT`` and ``BUDGET`` end it as failed, the others as cancelled."""

    USER = "user"
    PARENT = "parent"
    TIMEOUT = "timeout"
    BUDGET = "budget"
    SHUTDOWN = "shutdown"


class AgentStatus(StrEnum):
    """State of an agent as people see it. ``IDLE`` is the primary's between turns."""

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
    """The child answered."""

    result: str


@dataclass(frozen=True, slots=True)
class LimitReached:
    """A limit that is reached: in words, and the setting that sets it, if one alone does (``budgets.tree.tokens``)."""

    words: str
    setting: str = ""

    def __str__(self) -> str:
        return f"{self.words} ({self.setting})" if self.setting else self.words


@dataclass(frozen=True, slots=True)
class Failed:
    """The child could not finish. ``partial`` is what it had said until then."""

    reason: FailureReason
    error: str
    partial: str = ""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The child was stopped. ``by`` decides which sentence its parent reads."""

    by: CancelReason
    partial: str = ""


Ending = Completed | Failed | Cancelled


@dataclass(frozen=True, slots=True)
class Outcome:
    """The ending of one run of one child, with its counts."""

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
    """The one sentence that a parent reads of a cancelled child."""
    return CANCELLED_BY_USER if by is CancelReason.USER else CANCELLED_WITH_PARENT
