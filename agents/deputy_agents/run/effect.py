"""What the machine is told (inputs) and what it wants done (effects).

Each effect with an ``id`` is answered by exactly one input that carries the same id, unless the run ends first.
``Abort`` asks for that answer at once: the effect stops and is acknowledged by :class:`Stopped`, or by its own
natural answer when that was faster.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from deputy_agents.domain.event import CallStatus
from deputy_agents.domain.message import Image, Message, Reply, ToolUse
from deputy_agents.domain.outcome import CancelReason, Ending, LimitReached, Outcome
from deputy_agents.domain.result_style import ResultStyle
from deputy_agents.run.state import EffectId, Note

# -- inputs ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UserPrompt:
    """Starts a turn of the primary, or a run of a child (its task)."""

    message: Message
    shown: str


@dataclass(frozen=True, slots=True)
class ModelReplied:
    """The model's whole reply."""

    effect: EffectId
    reply: Reply


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """``partial`` is the text that was shown before the request failed."""

    effect: EffectId
    kind: str
    message: str
    retryable: bool = False
    retry_after: float | None = None
    action: str = ""
    partial: Message | None = None


@dataclass(frozen=True, slots=True)
class RetryDue:
    """The wait before the next attempt is over."""

    effect: EffectId


@dataclass(frozen=True, slots=True)
class CallAllowed:
    """The gate, or the user, lets the call run; ``input`` replaces what the model proposed. ``notes`` tell the model
    more, behind the results of its calls."""

    input: Mapping[str, object] | None = None
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class CallNeedsApproval:
    """The user has to be asked."""


@dataclass(frozen=True, slots=True)
class CallDenied:
    """The call does not run; ``text`` is the error result that the model reads."""

    text: str


CallDecision: TypeAlias = CallAllowed | CallNeedsApproval | CallDenied


@dataclass(frozen=True, slots=True)
class CallsDecided:
    """A verdict for every call of the reply, by tool use id."""

    effect: EffectId
    decisions: Mapping[str, CallDecision]


@dataclass(frozen=True, slots=True)
class PermissionAnswered:
    """The user's answer, or what settled the question in the user's place."""

    effect: EffectId
    verdict: CallAllowed | CallDenied


@dataclass(frozen=True, slots=True)
class ToolCompleted:
    """A tool has ended, well or not; also a door that could start no child."""

    effect: EffectId
    content: str
    is_error: bool = False
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class ChildrenStarted:
    """The supervisor accepted the children of a door. With ``immediate`` the door does not wait: that text is its
    result, and the children run in the background."""

    effect: EffectId
    tool_use_id: str
    agent_ids: tuple[str, ...]
    style: ResultStyle = "bare"
    immediate: str | None = None


@dataclass(frozen=True, slots=True)
class SubAgentResult:
    """A child of a waiting door has ended."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class AnswerChecked:
    """``correction`` asks the same child to mend its answer; when it had its chances, ``warning`` goes with the answer.
    Both are empty when there is nothing to mend."""

    effect: EffectId
    correction: str = ""
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something of which the model is told beside its turn: a background child has ended, or the user has taken edits
    back or changed the workspace folders."""

    text: str


@dataclass(frozen=True, slots=True)
class Steered:
    """The user tells a running agent something."""

    text: str


@dataclass(frozen=True, slots=True)
class UserCancel:
    """Everything stops: the turn of the primary, the run of a child. ``limit`` is the one that it met."""

    reason: CancelReason
    limit: LimitReached | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """Acknowledges an aborted effect. ``partial`` is the text that a stopped model request had shown, ``output`` what a
    stopped tool had put out last."""

    effect: EffectId
    partial: Message | None = None
    output: str = ""


Input: TypeAlias = (
    UserPrompt
    | ModelReplied
    | ModelFailed
    | RetryDue
    | CallsDecided
    | PermissionAnswered
    | ToolCompleted
    | ChildrenStarted
    | SubAgentResult
    | AnswerChecked
    | Notice
    | Steered
    | UserCancel
    | Stopped
)

# -- effects -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AppendMessage:
    """Adds to the model's history. ``shown`` is what people see of it; empty for nothing."""

    message: Message
    shown: str = ""


@dataclass(frozen=True, slots=True)
class RequestModel:
    """Sends the history to the model."""

    id: EffectId
    attempt: int


@dataclass(frozen=True, slots=True)
class ScheduleRetry:
    """Waits before ``attempt``; the wait itself is the driver's, by back-off or by ``retry_after``."""

    id: EffectId
    attempt: int
    retry_after: float | None
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class DecideCalls:
    """Asks the gate about every call, in order, before any runs."""

    id: EffectId
    calls: tuple[ToolUse, ...]


@dataclass(frozen=True, slots=True)
class RequestPermission:
    """Puts one call to the user."""

    id: EffectId
    use: ToolUse


@dataclass(frozen=True, slots=True)
class RunTool:
    """Carries out one call that is no door."""

    id: EffectId
    use: ToolUse


@dataclass(frozen=True, slots=True)
class StartChildren:
    """Asks the supervisor for the children of a door."""

    id: EffectId
    use: ToolUse


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """Looks at the answer of a child before it counts."""

    id: EffectId
    text: str


@dataclass(frozen=True, slots=True)
class Abort:
    """Stops the effects named: all that are under way."""

    ids: frozenset[EffectId]


@dataclass(frozen=True, slots=True)
class CancelSubAgents:
    """Tells children to stop; each acknowledges by its :class:`SubAgentResult`."""

    ids: tuple[str, ...]
    reason: CancelReason


@dataclass(frozen=True, slots=True)
class ReportCall:
    """People are told that a call has moved on; ``content`` is its result."""

    use: ToolUse
    status: CallStatus
    content: str | None = None


@dataclass(frozen=True, slots=True)
class FinishTurn:
    """The primary's turn is over. ``error`` is set when a failure ended it, ``interrupted`` when the process ends,
    ``limit`` when one was reached."""

    stop_reason: str
    error: ModelFailed | None = None
    interrupted: bool = False
    limit: LimitReached | None = None


@dataclass(frozen=True, slots=True)
class NotifyParent:
    """The child's run is over."""

    ending: Ending


Effect: TypeAlias = (
    AppendMessage
    | RequestModel
    | ScheduleRetry
    | DecideCalls
    | RequestPermission
    | RunTool
    | StartChildren
    | CheckAnswer
    | Abort
    | CancelSubAgents
    | ReportCall
    | FinishTurn
    | NotifyParent
)
