"""The state of one agent's conversation, as a value.

A :class:`State` is a phase with what outlives phases. The phases of work carry ids of the effects that are under
way; an input that answers no such effect is illegal. The three endings of a child are phases too, and terminal.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from deputy_agents.domain.event import CallStatus
from deputy_agents.domain.message import ToolResult, ToolUse
from deputy_agents.domain.outcome import Cancelled, CancelReason, Completed, Failed, LimitReached, Outcome
from deputy_agents.domain.result_style import ResultStyle

EffectId: TypeAlias = int
"""Names one effect of one agent; rising, never used again."""


# -- calls -------------------------------------------------------------------------------------------------------


class CallKind(StrEnum):
    """When a call may run beside others of its turn."""

    CONCURRENT = "concurrent"
    """Changes nothing: runs beside others of its kind."""
    EXCLUSIVE = "exclusive"
    """May change something: after all before it, and before all behind it."""
    DELEGATION = "door"
    """Starts children: runs at once, and waits for them."""


@dataclass(frozen=True, slots=True)
class NotStarted:
    """Not started. ``ready`` means allowed: only its turn is missing."""

    ready: bool = False


@dataclass(frozen=True, slots=True)
class AwaitingApproval:
    """The user is asked by the effect named."""

    effect: EffectId


@dataclass(frozen=True, slots=True)
class Running:
    """Carried out by the effect named."""

    effect: EffectId


@dataclass(frozen=True, slots=True)
class Children:
    """A door whose children run. ``pending`` and ``completed`` together always hold every child of ``order``."""

    order: tuple[str, ...]
    pending: tuple[str, ...]
    completed: tuple[Outcome, ...] = ()
    style: ResultStyle = "bare"


@dataclass(frozen=True, slots=True)
class Done:
    """Answered: ``result`` goes into the history when all calls of the turn are done."""

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
    """Nothing under way: the primary between turns, a child before its first message."""


@dataclass(frozen=True, slots=True)
class LlmRequesting:
    """The model answers. ``attempt`` counts from 1."""

    attempt: int
    effect: EffectId


@dataclass(frozen=True, slots=True)
class RetryWaiting:
    """A failed request waits for its next ``attempt``."""

    attempt: int
    effect: EffectId


@dataclass(frozen=True, slots=True)
class Checking:
    """The answer of a child, which is the ``last_text`` of the state, is checked before it counts."""

    effect: EffectId


@dataclass(frozen=True, slots=True)
class ToolExecuting:
    """Some call is open that does not merely wait for children. ``deciding`` is the gate's effect."""

    calls: tuple[Call, ...]
    deciding: EffectId | None = None


@dataclass(frozen=True, slots=True)
class AwaitingSubAgents:
    """Every open call is a door whose children run."""

    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Cancelling:
    """Everything under way was told to stop; waits until each has acknowledged."""

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
    """Something to tell the model at the next chance: words of the user (``shown``), the end of a background child, or
    what became of a call beside its result."""

    text: str
    shown: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """``iterations`` counts model replies of this run (of this turn, for the primary); ``last_text`` is the text of
    the last assistant message that had any, or the result submitted since; ``corrections`` counts answers that were
    sent back; ``notes`` wait for the next message to the model."""

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
    """What is fixed for a run: who the agent is, and its limits."""

    is_child: bool = False
    delegation_tools: frozenset[str] = frozenset()
    concurrent: frozenset[str] = frozenset()
    max_iterations: int = 50
    attempts: int = 8
    check_answer: bool = False
    tools: frozenset[str] = field(default_factory=frozenset[str])
    """Names of the tools offered; ``submit_result`` and ``submit_error`` end a child that is offered them."""
    aggregate_bytes: int = 128 * 1024
    """Of the texts of all outcomes of one door together."""

    def kind_of(self, tool: str) -> CallKind:
        if tool in self.delegation_tools:
            return CallKind.DELEGATION
        return CallKind.CONCURRENT if tool in self.concurrent else CallKind.EXCLUSIVE
