"""The state of one agent as an immutable value.

A :class:`State` is a phase and the fields that outlive phases. Active phases carry the ids of their outstanding
effects; an input that answers any other effect is illegal. The three endings of a child are terminal phases.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from deputy_agents.domain.event import CallStatus
from deputy_agents.domain.message import ToolResult, ToolUse
from deputy_agents.domain.outcome import Cancelled, CancelReason, Completed, Failed, LimitReached, Outcome
from deputy_agents.domain.result_style import ResultStyle

EffectId: TypeAlias = int
"""Identifies one effect of one agent. Ids increase and are never reused."""


# -- calls -------------------------------------------------------------------------------------------------------


class CallKind(StrEnum):
    """When a call may run at the same time as other calls of the same reply."""

    CONCURRENT = "concurrent"
    """Changes nothing. Runs in parallel with other concurrent calls."""
    EXCLUSIVE = "exclusive"
    """May change something. Starts after all earlier calls have ended, and before any later call starts."""
    DELEGATION = "delegation"
    """Starts children. Starts at once and blocks no other call."""


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The call has not started. ``ready``: it is allowed, and waits only for earlier calls."""

    ready: bool = False


@dataclass(frozen=True, slots=True)
class AwaitingApproval:
    """The call waits for the user's answer to a permission request."""

    effect: EffectId


@dataclass(frozen=True, slots=True)
class Running:
    """The call runs."""

    effect: EffectId


@dataclass(frozen=True, slots=True)
class Children:
    """A delegation call whose children run. ``pending`` and ``completed`` together hold exactly the children in
    ``order``."""

    order: tuple[str, ...]
    pending: tuple[str, ...]
    completed: tuple[Outcome, ...] = ()
    style: ResultStyle = "bare"


@dataclass(frozen=True, slots=True)
class Done:
    """The call has a result. It goes into the history when all calls of the reply are done."""

    result: ToolResult
    status: CallStatus


Progress: TypeAlias = NotStarted | AwaitingApproval | Running | Children | Done


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call of the model's last reply."""

    use: ToolUse
    kind: CallKind
    progress: Progress = NotStarted()

    @property
    def open(self) -> bool:
        return not isinstance(self.progress, Done)


# -- phases ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing is under way: the primary between turns, or a child before its first message."""


@dataclass(frozen=True, slots=True)
class LlmRequesting:
    """A model request is under way. ``attempt`` counts from 1."""

    attempt: int
    effect: EffectId


@dataclass(frozen=True, slots=True)
class RetryWaiting:
    """A failed model request waits for its next attempt, which is number ``attempt``."""

    attempt: int
    effect: EffectId


@dataclass(frozen=True, slots=True)
class Checking:
    """The answer of a child, which is the ``last_text`` of the state, is checked before the child completes."""

    effect: EffectId


@dataclass(frozen=True, slots=True)
class ToolExecuting:
    """At least one open call does not wait for children. ``deciding`` is the outstanding effect of the gate, if any."""

    calls: tuple[Call, ...]
    deciding: EffectId | None = None


@dataclass(frozen=True, slots=True)
class AwaitingSubAgents:
    """Every open call waits for its children."""

    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Cancelling:
    """Everything under way is being stopped. Waits until each effect and each child has acknowledged."""

    reason: CancelReason
    limit: LimitReached | None
    outstanding: frozenset[EffectId]
    calls: tuple[Call, ...] = ()


Phase: TypeAlias = (
    Idle
    | LlmRequesting
    | RetryWaiting
    | Checking
    | ToolExecuting
    | AwaitingSubAgents
    | Cancelling
    | Completed
    | Failed
    | Cancelled
)
TERMINAL = (Completed, Failed, Cancelled)


@dataclass(frozen=True, slots=True)
class Note:
    """Text for the next message to the model, beside tool results: a message of the user (``shown``: it appears in the
    transcript), the end of a background child or process (``about`` names the process), or a change that the user made
    to a call."""

    text: str
    shown: bool = False
    about: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """``iterations`` counts the model replies of this run (of this turn, for the primary). ``last_text`` is the text of
    the last assistant message with text, or the result submitted since. ``corrections`` counts answers that were sent
    back. ``notes`` wait for the next message to the model."""

    phase: Phase = Idle()
    next_effect: EffectId = 1
    iterations: int = 0
    last_text: str = ""
    corrections: int = 0
    notes: tuple[Note, ...] = ()

    @property
    def ended(self) -> bool:
        return isinstance(self.phase, TERMINAL)


@dataclass(frozen=True, slots=True)
class Context:
    """What is fixed for a run: the role of the agent, its tools and its limits. ``attempts`` bounds each model request,
    ``max_iterations`` the requests of a run (of a turn, for the primary)."""

    is_child: bool = False
    delegation_tools: frozenset[str] = frozenset()
    concurrent: frozenset[str] = frozenset()
    max_iterations: int = 50
    attempts: int = 8
    check_answer: bool = False
    tools: frozenset[str] = field(default_factory=frozenset[str])
    """Names of the tools offered. ``submit_result`` and ``submit_error`` end the run of a child that has them."""
    aggregate_bytes: int = 128 * 1024
    """Limit for the texts of all outcomes of one delegation call together."""
    check_references: bool = False
    """Whether the check of an answer includes its file references."""

    def kind_of(self, tool: str) -> CallKind:
        if tool in self.delegation_tools:
            return CallKind.DELEGATION
        return CallKind.CONCURRENT if tool in self.concurrent else CallKind.EXCLUSIVE
