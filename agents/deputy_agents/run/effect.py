"""Inputs and effects of the state machine.

Each effect with an ``id`` is answered by exactly one input with the same id, unless the run ends first. :class:`Abort`
stops an effect early; it is then acknowledged by :class:`Stopped`, or by its regular answer if that came first.
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
    """Starts a turn of the primary, or the run of a child (its task). ``shown`` is the text for the transcript."""

    message: Message
    shown: str


@dataclass(frozen=True, slots=True)
class ModelReplied:
    """The complete reply of the model."""

    effect: EffectId
    reply: Reply


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """A model request failed. ``partial`` is the text that was shown before, ``action`` what the user can do about it,
    ``retry_after`` the wait in seconds that the service asked for."""

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
    """The call may run. ``input`` replaces the input that the model proposed. ``notes`` go to the model behind the
    results of the calls."""

    input: Mapping[str, object] | None = None
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class CallNeedsApproval:
    """The call runs only if the user approves it."""


@dataclass(frozen=True, slots=True)
class CallDenied:
    """The call does not run. ``text`` is its error result."""

    text: str


CallDecision: TypeAlias = CallAllowed | CallNeedsApproval | CallDenied


@dataclass(frozen=True, slots=True)
class CallsDecided:
    """A decision for every call of the reply, by tool use id."""

    effect: EffectId
    decisions: Mapping[str, CallDecision]


@dataclass(frozen=True, slots=True)
class PermissionAnswered:
    """A permission request was resolved, by the user or otherwise."""

    effect: EffectId
    decision: CallAllowed | CallDenied


@dataclass(frozen=True, slots=True)
class ToolCompleted:
    """A tool call ended, with or without an error. Also a delegation call that could not start its children.
    ``reports`` names what its result reports: notices about that are dropped."""

    effect: EffectId
    content: str
    is_error: bool = False
    images: tuple[Image, ...] = ()
    reports: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChildrenStarted:
    """The supervisor accepted the children of a delegation call. With ``immediate``, the call does not wait: that text
    is its result, and the children run in the background."""

    effect: EffectId
    tool_use_id: str
    agent_ids: tuple[str, ...]
    style: ResultStyle = "bare"
    immediate: str | None = None


@dataclass(frozen=True, slots=True)
class SubAgentResult:
    """A child ended for which a delegation call waits."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class AnswerChecked:
    """The answer of a child was checked. ``correction`` asks the child to correct it; after the last correction,
    ``warning`` is appended to the answer instead. Both are empty for a valid answer."""

    effect: EffectId
    correction: str = ""
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """News that goes with the next message to the model: a background child or process ended, or the user reverted
    edits or changed the workspace folders. ``about`` names the process."""

    text: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Steered:
    """A message of the user to a running agent. It reaches the model with the next request."""

    text: str


@dataclass(frozen=True, slots=True)
class UserCancel:
    """Stops the turn of the primary, or the run of a child. ``limit`` is the limit that was reached, if one was."""

    reason: CancelReason
    limit: LimitReached | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """Acknowledges an aborted effect. ``partial`` is the text that a stopped model request had shown, ``output`` the
    end of what a stopped tool had printed."""

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
    """Appends to the history of the model. ``shown`` is the text for the transcript; empty text is not shown."""

    message: Message
    shown: str = ""


@dataclass(frozen=True, slots=True)
class RequestModel:
    """Sends the history to the model."""

    id: EffectId
    attempt: int


@dataclass(frozen=True, slots=True)
class ScheduleRetry:
    """Waits before ``attempt``: ``retry_after`` seconds, or as long as the driver's back-off computes. ``kind`` and
    ``message`` describe the failure."""

    id: EffectId
    attempt: int
    retry_after: float | None
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class DecideCalls:
    """Has the gate decide every call, in order, before any call runs."""

    id: EffectId
    calls: tuple[ToolUse, ...]


@dataclass(frozen=True, slots=True)
class RequestPermission:
    """Asks the user for permission to run one call."""

    id: EffectId
    use: ToolUse


@dataclass(frozen=True, slots=True)
class RunTool:
    """Runs one call of a tool that is not a delegation tool."""

    id: EffectId
    use: ToolUse


@dataclass(frozen=True, slots=True)
class StartChildren:
    """Has the supervisor start the children of a delegation call."""

    id: EffectId
    use: ToolUse


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """Checks the answer of a child before the child completes."""

    id: EffectId
    text: str


@dataclass(frozen=True, slots=True)
class Abort:
    """Stops these effects, which are all that are outstanding."""

    ids: frozenset[EffectId]


@dataclass(frozen=True, slots=True)
class CancelSubAgents:
    """Cancels children. Each acknowledges by its :class:`SubAgentResult`."""

    ids: tuple[str, ...]
    reason: CancelReason


@dataclass(frozen=True, slots=True)
class ReportCall:
    """Publishes the status of a call. ``content`` is its result, once it has one."""

    use: ToolUse
    status: CallStatus
    content: str | None = None


@dataclass(frozen=True, slots=True)
class FinishTurn:
    """Ends the turn of the primary. ``error`` is the failure that ended it, ``interrupted`` means that the process is
    shutting down, ``limit`` is the limit that was reached."""

    stop_reason: str
    error: ModelFailed | None = None
    interrupted: bool = False
    limit: LimitReached | None = None


@dataclass(frozen=True, slots=True)
class NotifyParent:
    """Ends the run of the child and reports its ending to the parent."""

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
