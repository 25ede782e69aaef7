"""The conversation of an agent as a pure state machine: ``(state, input) -> (state, effects)``.

``TABLE`` is the whole of it: a row per phase and input that go together, with the phases to which the row may lead.
Everything else is illegal and raises :class:`InvalidTransition`; nothing is ignored in silence. The primary and
its children run the same machine and differ only in how a run ends: a child's in a terminal phase, the primary's
turn in ``Idle``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from deputy_agents.domain.errors import InvalidTransition
from deputy_agents.domain.event import CallStatus
from deputy_agents.domain.message import (
    Block,
    Message,
    Reply,
    StopReason,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    tool_uses,
)
from deputy_agents.domain.outcome import (
    CANCELLED_WITH_PARENT,
    Cancelled,
    CancelReason,
    Completed,
    Failed,
    FailureReason,
    LimitReached,
    Outcome,
)
from deputy_agents.run.effect import (
    Abort,
    AnswerChecked,
    AppendMessage,
    CallAllowed,
    CallDecision,
    CallDenied,
    CallNeedsApproval,
    CallsDecided,
    CancelSubAgents,
    CheckAnswer,
    ChildrenStarted,
    DecideCalls,
    Effect,
    FinishTurn,
    Input,
    ModelFailed,
    ModelReplied,
    Notice,
    NotifyParent,
    PermissionAnswered,
    ReportCall,
    RequestModel,
    RequestPermission,
    RetryDue,
    RunTool,
    ScheduleRetry,
    StartChildren,
    Steered,
    Stopped,
    SubAgentResult,
    ToolCompleted,
    UserCancel,
    UserPrompt,
)
from deputy_agents.run.result import delegation_result
from deputy_agents.run.state import (
    AwaitingApproval,
    AwaitingSubAgents,
    Call,
    CallKind,
    Cancelling,
    Checking,
    Children,
    Context,
    Done,
    EffectId,
    Idle,
    LlmRequesting,
    Note,
    NotStarted,
    Phase,
    RetryWaiting,
    Running,
    State,
    ToolExecuting,
)

Step: TypeAlias = tuple[State, tuple[Effect, ...]]
Handler: TypeAlias = Callable[["_Draft", Any, Any], Phase]


@dataclass(frozen=True, slots=True)
class Row:
    """``to`` holds every phase to which the row may lead, and no other."""

    to: tuple[type[Phase], ...]
    handler: Handler


TABLE: dict[tuple[type[Phase], type[Input]], Row] = {}


def transition(state: State, context: Context, input: Input) -> Step:
    """The next state and what is to be done.

    Raises:
        InvalidTransition: ``input`` is illegal in ``state``; the state stands as it was.
    """
    row = TABLE.get((type(state.phase), type(input)))
    if row is None:
        raise InvalidTransition(f"{type(input).__name__} is illegal in {type(state.phase).__name__}")
    draft = _Draft(state, context)
    phase = row.handler(draft, state.phase, input)
    if not isinstance(phase, row.to):
        raise InvalidTransition(f"{type(phase).__name__} is no declared target of this row")
    return replace(draft.state, phase=phase), tuple(draft.effects)


class _Draft:
    """A step in the making: the state without its phase, and the effects so far."""

    def __init__(self, state: State, context: Context) -> None:
        self.state = state
        self.context = context
        self.effects: list[Effect] = []

    def do(self, *effects: Effect) -> None:
        self.effects.extend(effects)

    def change(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)

    def new_id(self) -> EffectId:
        effect = self.state.next_effect
        self.change(next_effect=effect + 1)
        return effect

    def take_notes(self) -> tuple[Note, ...]:
        notes = self.state.notes
        self.change(notes=())
        return notes


def _on(
    phases: type[Phase] | tuple[type[Phase], ...], input: type[Input], *, to: tuple[type[Phase], ...] = ()
) -> Callable[[Handler], Handler]:
    """Without ``to``, the row stays in its phase."""

    def register(handler: Handler) -> Handler:
        for phase in phases if isinstance(phases, tuple) else (phases,):
            TABLE[phase, input] = Row(to or (phase,), handler)
        return handler

    return register


_ACTIVE = (LlmRequesting, RetryWaiting, Checking, ToolExecuting, AwaitingSubAgents, Cancelling)
_ROUND_OVER = (LlmRequesting, Idle, Failed)
_STOPPED = (Idle, Cancelled, Failed)


# -- a run begins ------------------------------------------------------------------------------------------------


@_on(Idle, UserPrompt, to=(LlmRequesting,))
def _prompt(draft: _Draft, _: Idle, input: UserPrompt) -> Phase:
    draft.change(iterations=0, last_text="", corrections=0)
    notes = draft.take_notes()
    message = replace(input.message, content=(*_note_blocks(notes), *input.message.content))
    shown = "\n\n".join(part for part in (_shown(notes), input.shown) if part)
    draft.do(AppendMessage(message, shown))
    return _request(draft)


@_on((Idle, *_ACTIVE), Notice)
def _background(draft: _Draft, phase: Phase, input: Notice) -> Phase:
    draft.change(notes=(*draft.state.notes, Note(input.text)))
    return phase


@_on(_ACTIVE, Steered)
def _steer(draft: _Draft, phase: Phase, input: Steered) -> Phase:
    draft.change(notes=(*draft.state.notes, Note(input.text, shown=True)))
    return phase


# -- the model answers -------------------------------------------------------------------------------------------


@_on(LlmRequesting, ModelReplied, to=(ToolExecuting, LlmRequesting, Checking, Idle, Completed, Failed))
def _replied(draft: _Draft, phase: LlmRequesting, input: ModelReplied) -> Phase:
    _expect(input.effect, phase.effect)
    reply = input.reply
    message = _kept(reply)
    draft.change(iterations=draft.state.iterations + 1, last_text=message.text.strip() or draft.state.last_text)
    if message.content:
        draft.do(AppendMessage(message, message.text))
    if uses := tool_uses(message):
        return _submitted(draft, uses) or _decide(draft, uses)
    if reply.stop_reason is StopReason.PAUSE_TURN or _must_hear(draft):
        return _next_request(draft)
    return _stop(draft, reply.stop_reason)


@_on(LlmRequesting, ModelFailed, to=(RetryWaiting, Idle, Failed))
def _failed(draft: _Draft, phase: LlmRequesting, input: ModelFailed) -> Phase:
    _expect(input.effect, phase.effect)
    if input.retryable and phase.attempt < draft.context.attempts:
        effect = draft.new_id()
        attempt = phase.attempt + 1
        draft.do(ScheduleRetry(effect, attempt, input.retry_after, input.kind, input.message))
        return RetryWaiting(attempt, effect)
    _keep_partial(draft, input.partial)
    if draft.context.is_child:
        return _end(draft, Failed(FailureReason.MODEL_ERROR, input.message, draft.state.last_text))
    draft.do(FinishTurn("error", input))
    return Idle()


@_on(RetryWaiting, RetryDue, to=(LlmRequesting,))
def _retry(draft: _Draft, phase: RetryWaiting, input: RetryDue) -> Phase:
    _expect(input.effect, phase.effect)
    return _request(draft, phase.attempt)


def _request(draft: _Draft, attempt: int = 1) -> LlmRequesting:
    effect = draft.new_id()
    draft.do(RequestModel(effect, attempt))
    return LlmRequesting(attempt, effect)


def _next_request(draft: _Draft) -> Phase:
    """Another round, unless the limit is reached; waiting notes go before it."""
    if _at_limit(draft):
        return _stop_at_limit(draft)
    if notes := draft.take_notes():
        draft.do(AppendMessage(Message("user", _note_blocks(notes)), _shown(notes)))
    return _request(draft)


def _stop(draft: _Draft, reason: StopReason) -> Phase:
    """The model has nothing more to do."""
    if not draft.context.is_child:
        draft.do(FinishTurn(_TURN_ENDS.get(reason, "end_turn")))
        return Idle()
    text = draft.state.last_text
    if problem := _CHILD_STOPS.get(reason):
        return _end(draft, Failed(FailureReason.MODEL_ERROR, problem, text))
    if not text:
        return _end(draft, Failed(FailureReason.RUNTIME_ERROR, "it ended without an answer"))
    return _answer(draft, text)


_TURN_ENDS = {
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.CONTEXT_WINDOW: "max_tokens",
    StopReason.REFUSAL: "refusal",
}
_CHILD_STOPS = {
    StopReason.MAX_TOKENS: "its answer was cut off at the token limit of one reply",
    StopReason.CONTEXT_WINDOW: "its context window is full",
    StopReason.REFUSAL: "the model refused to answer",
}


def _must_hear(draft: _Draft) -> bool:
    """It was told something that it has not read, and may still ask its model."""
    return bool(draft.state.notes) and not _at_limit(draft)


def _at_limit(draft: _Draft) -> bool:
    return draft.state.iterations >= draft.context.max_iterations


def _stop_at_limit(draft: _Draft) -> Phase:
    error = f"it reached its limit of {draft.context.max_iterations} model requests"
    if not draft.context.is_child:
        draft.do(
            FinishTurn("max_turn_requests", limit=LimitReached(f"{error} for one prompt", "limits.turnIterations"))
        )
        return Idle()
    return _end(draft, Failed(FailureReason.BUDGET_EXCEEDED, error, draft.state.last_text))


def _end(draft: _Draft, ending: Completed | Failed | Cancelled) -> Phase:
    """The run is over. What it was told too late is kept for a further run, and people see that it was not read."""
    if notes := draft.take_notes():
        shown = _shown(notes)
        draft.do(AppendMessage(Message("user", _note_blocks(notes)), f"{shown}\n\n{UNREAD}" if shown else ""))
    draft.do(NotifyParent(ending))
    return ending


UNREAD = "(Not read: the agent ended first.)"


def _answer(draft: _Draft, text: str) -> Phase:
    """A child has answered; where it was asked to, the answer is checked first."""
    draft.change(last_text=text)
    if not draft.context.check_answer:
        return _next_request(draft) if _must_hear(draft) else _end(draft, Completed(text))
    effect = draft.new_id()
    draft.do(CheckAnswer(effect, text))
    return Checking(effect)


CORRECTIONS = 2
"""How often a child is asked to mend its answer."""


@_on(Checking, AnswerChecked, to=(LlmRequesting, Completed))
def _checked(draft: _Draft, phase: Checking, input: AnswerChecked) -> Phase:
    _expect(input.effect, phase.effect)
    mend = input.correction and draft.state.corrections < CORRECTIONS and not _at_limit(draft)
    if mend:
        draft.change(corrections=draft.state.corrections + 1)
        draft.do(AppendMessage(Message("user", (Text(input.correction),)), input.correction))
    if mend or _must_hear(draft):
        return _next_request(draft)
    text = draft.state.last_text
    return _end(draft, Completed(f"{text}\n\n{input.warning}" if input.warning else text))


def _submitted(draft: _Draft, uses: tuple[ToolUse, ...]) -> Phase | None:
    """The ending that a child reports by a tool, if it does; the first report counts and no other call runs."""
    report = next((use for use in uses if _report_text(draft.context, use)), None)
    if report is None:
        return None
    text = _report_text(draft.context, report)
    received = _RECEIVED_TOO_EARLY if _must_hear(draft) else "Received."
    results: list[ToolResult] = []
    for use in uses:
        first = use is report
        result = ToolResult(use.id, received if first else _NOT_RUN_AFTER_REPORT, is_error=not first)
        results.append(result)
        draft.do(ReportCall(use, CallStatus.COMPLETED if first else CallStatus.CANCELLED, result.content))
    draft.do(AppendMessage(Message("user", tuple(results))))
    if report.name == "submit_result":
        return _answer(draft, text)
    if _must_hear(draft):
        return _next_request(draft)
    return _end(draft, Failed(FailureReason.SUB_AGENT_ERROR, text, draft.state.last_text))


_REPORTS = {"submit_result": "result", "submit_error": "error"}
_RECEIVED_TOO_EARLY = "Received, but there is a message for you: see to it, then report again, in full."
_NOT_RUN_AFTER_REPORT = "Not run: the sub-agent had already submitted its result."


def _report_text(context: Context, use: ToolUse) -> str:
    """What the call reports, or nothing when it is no valid report."""
    if not context.is_child or use.name not in context.tools or use.name not in _REPORTS or use.error:
        return ""
    value = use.input.get(_REPORTS[use.name])
    return value.strip() if isinstance(value, str) else ""


# -- calls are decided and carried out ---------------------------------------------------------------------------


def _decide(draft: _Draft, uses: tuple[ToolUse, ...]) -> ToolExecuting:
    effect = draft.new_id()
    draft.do(DecideCalls(effect, uses))
    return ToolExecuting(tuple(Call(use, draft.context.kind_of(use.name)) for use in uses), effect)


@_on(ToolExecuting, CallsDecided, to=(ToolExecuting, *_ROUND_OVER))
def _decided(draft: _Draft, phase: ToolExecuting, input: CallsDecided) -> Phase:
    _expect(input.effect, phase.deciding)
    if set(input.decisions) != {call.use.id for call in phase.calls}:
        raise InvalidTransition("the gate must decide every call of the reply, and no other")
    return _advance(draft, tuple(_judged(draft, call, input.decisions[call.use.id]) for call in phase.calls))


@_on(ToolExecuting, PermissionAnswered, to=(ToolExecuting, AwaitingSubAgents, *_ROUND_OVER))
def _answered(draft: _Draft, phase: ToolExecuting, input: PermissionAnswered) -> Phase:
    call = _by_effect(phase.calls, AwaitingApproval, input.effect)
    return _advance(draft, _put(phase.calls, _judged(draft, call, input.verdict)))


@_on(ToolExecuting, ToolCompleted, to=(ToolExecuting, AwaitingSubAgents, *_ROUND_OVER))
def _completed(draft: _Draft, phase: ToolExecuting, input: ToolCompleted) -> Phase:
    call = _by_effect(phase.calls, Running, input.effect)
    return _advance(draft, _put(phase.calls, _tool_done(draft, call, input)))


@_on(ToolExecuting, ChildrenStarted, to=(ToolExecuting, AwaitingSubAgents, *_ROUND_OVER))
def _spawned(draft: _Draft, phase: ToolExecuting, input: ChildrenStarted) -> Phase:
    call = _by_effect(phase.calls, Running, input.effect)
    return _advance(draft, _put(phase.calls, _opened(draft, phase.calls, call, input)))


@_on(ToolExecuting, SubAgentResult)
@_on(AwaitingSubAgents, SubAgentResult, to=(AwaitingSubAgents, *_ROUND_OVER))
def _child_ended(draft: _Draft, phase: ToolExecuting | AwaitingSubAgents, input: SubAgentResult) -> Phase:
    return _advance(draft, _put(phase.calls, _collected(draft, phase.calls, input.outcome)))


def _judged(draft: _Draft, call: Call, verdict: CallDecision) -> Call:
    match verdict:
        case CallAllowed(edited, notes):
            draft.change(notes=(*draft.state.notes, *notes))
            use = call.use if edited is None else replace(call.use, input=edited)
            return replace(call, use=use, progress=NotStarted(ready=True))
        case CallNeedsApproval():
            effect = draft.new_id()
            draft.do(RequestPermission(effect, call.use))
            return replace(call, progress=AwaitingApproval(effect))
        case CallDenied(text):
            return _done(draft, call, Done(ToolResult(call.use.id, text, is_error=True), CallStatus.FAILED))


def _tool_done(draft: _Draft, call: Call, input: ToolCompleted) -> Call:
    result = ToolResult(call.use.id, input.content, input.is_error, input.images)
    return _done(draft, call, Done(result, CallStatus.FAILED if input.is_error else CallStatus.COMPLETED))


def _opened(draft: _Draft, calls: tuple[Call, ...], call: Call, input: ChildrenStarted) -> Call:
    if call.kind is not CallKind.DELEGATION or input.tool_use_id != call.use.id:
        raise InvalidTransition(f"the children of {input.tool_use_id} are no answer to {call.use.id}")
    if input.immediate is not None:
        return _done(draft, call, Done(ToolResult(call.use.id, input.immediate), CallStatus.COMPLETED))
    ids = input.agent_ids
    waited_for = {
        agent_id for other in calls if isinstance(other.progress, Children) for agent_id in other.progress.order
    }
    if not ids or len(set(ids)) < len(ids) or waited_for & set(ids):
        raise InvalidTransition("a door opens for at least one child, and each once")
    if input.style != "aggregate" and len(ids) > 1:
        raise InvalidTransition("a bare result is that of one child")
    return replace(call, progress=Children(ids, ids, style=input.style))


def _collected(draft: _Draft, calls: tuple[Call, ...], outcome: Outcome) -> Call:
    for call in calls:
        if isinstance(progress := call.progress, Children) and outcome.agent_id in progress.pending:
            pending = tuple(agent_id for agent_id in progress.pending if agent_id != outcome.agent_id)
            progress = replace(progress, pending=pending, completed=(*progress.completed, outcome))
            if pending:
                return replace(call, progress=progress)
            return _done(draft, call, delegation_result(call.use.id, progress, draft.context.aggregate_bytes))
    raise InvalidTransition(f"no door waits for agent {outcome.agent_id}")


def _done(draft: _Draft, call: Call, done: Done) -> Call:
    draft.do(ReportCall(call.use, done.status, done.result.content))
    return replace(call, progress=done)


def _advance(draft: _Draft, calls: tuple[Call, ...]) -> Phase:
    """Starts every call whose turn has come; when all are done, their results go to the model."""
    calls = _start_ready(draft, calls)
    unfinished = [call for call in calls if call.open]
    if any(not isinstance(call.progress, Children) for call in unfinished):
        return ToolExecuting(calls)
    if unfinished:
        return AwaitingSubAgents(calls)
    return _close_round(draft, calls)


def _start_ready(draft: _Draft, calls: tuple[Call, ...]) -> tuple[Call, ...]:
    started: list[Call] = []
    any_open = exclusive_open = False
    for waiting in calls:
        call = waiting
        blocked = {CallKind.DELEGATION: False, CallKind.CONCURRENT: exclusive_open, CallKind.EXCLUSIVE: any_open}[
            call.kind
        ]
        if call.progress == NotStarted(ready=True) and not blocked:
            effect = draft.new_id()
            make = StartChildren if call.kind is CallKind.DELEGATION else RunTool
            draft.do(ReportCall(call.use, CallStatus.IN_PROGRESS), make(effect, call.use))
            call = replace(call, progress=Running(effect))
        if call.open and call.kind is not CallKind.DELEGATION:
            any_open = True
            exclusive_open = exclusive_open or call.kind is CallKind.EXCLUSIVE
        started.append(call)
    return tuple(started)


def _close_round(draft: _Draft, calls: tuple[Call, ...]) -> Phase:
    """One message with every result, in the order of the calls, and what waited to be told."""
    notes = () if _at_limit(draft) else draft.take_notes()
    draft.do(AppendMessage(Message("user", (*_results(calls), *_note_blocks(notes))), _shown(notes)))
    return _next_request(draft)


# -- everything stops --------------------------------------------------------------------------------------------


@_on(Idle, UserCancel, to=(Cancelled, Failed))
def _cancel_unstarted(draft: _Draft, _: Idle, input: UserCancel) -> Phase:
    if not draft.context.is_child:
        raise InvalidTransition("there is no turn to cancel")
    return _end(draft, _cancelled(draft, input.reason, input.limit))


@_on((LlmRequesting, RetryWaiting, Checking), UserCancel, to=(Cancelling,))
def _cancel_request(draft: _Draft, phase: LlmRequesting | RetryWaiting | Checking, input: UserCancel) -> Phase:
    outstanding = frozenset({phase.effect})
    draft.do(Abort(outstanding))
    return Cancelling(input.reason, input.limit, outstanding)


@_on((ToolExecuting, AwaitingSubAgents), UserCancel, to=(Cancelling,))
def _cancel_calls(draft: _Draft, phase: ToolExecuting | AwaitingSubAgents, input: UserCancel) -> Phase:
    outstanding = {
        call.progress.effect for call in phase.calls if isinstance(call.progress, AwaitingApproval | Running)
    }
    if isinstance(phase, ToolExecuting) and phase.deciding is not None:
        outstanding.add(phase.deciding)
    if outstanding:
        draft.do(Abort(frozenset(outstanding)))
    if pending := tuple(agent_id for call in phase.calls for agent_id in _pending(call)):
        draft.do(CancelSubAgents(pending, _cascade(input.reason)))
    return Cancelling(input.reason, input.limit, frozenset(outstanding), phase.calls)


@_on(Cancelling, UserCancel)
def _cancel_again(_draft: _Draft, phase: Cancelling, _: UserCancel) -> Phase:
    return phase


@_on(Cancelling, Stopped, to=(Cancelling, *_STOPPED))
def _stopped(draft: _Draft, phase: Cancelling, input: Stopped) -> Phase:
    if input.partial is not None:
        _expect_request(phase)
        _keep_partial(draft, input.partial)
    if input.output:
        call = _interrupted(draft, _by_effect(phase.calls, Running, input.effect), input.output)
        phase = replace(phase, calls=_put(phase.calls, call))
    return _acknowledge(draft, phase, input.effect)


@_on(Cancelling, ModelReplied, to=_STOPPED)
def _replied_late(draft: _Draft, phase: Cancelling, input: ModelReplied) -> Phase:
    _expect_request(phase)
    _keep_partial(draft, input.reply.message)
    return _acknowledge(draft, phase, input.effect)


@_on(Cancelling, ModelFailed, to=_STOPPED)
def _failed_late(draft: _Draft, phase: Cancelling, input: ModelFailed) -> Phase:
    _expect_request(phase)
    _keep_partial(draft, input.partial)
    return _acknowledge(draft, phase, input.effect)


@_on(Cancelling, RetryDue, to=_STOPPED)
def _due_late(draft: _Draft, phase: Cancelling, input: RetryDue) -> Phase:
    _expect_request(phase)
    return _acknowledge(draft, phase, input.effect)


@_on(Cancelling, AnswerChecked, to=(Cancelled, Failed))
def _checked_late(draft: _Draft, phase: Cancelling, input: AnswerChecked) -> Phase:
    _expect_request(phase)
    return _acknowledge(draft, phase, input.effect)


@_on(Cancelling, CallsDecided, to=_STOPPED)
def _decided_late(draft: _Draft, phase: Cancelling, input: CallsDecided) -> Phase:
    if not phase.calls or any(call.progress != NotStarted() for call in phase.calls):
        raise InvalidTransition("no calls were being decided")
    return _acknowledge(draft, phase, input.effect)


@_on(Cancelling, PermissionAnswered, to=(Cancelling, *_STOPPED))
def _answered_late(draft: _Draft, phase: Cancelling, input: PermissionAnswered) -> Phase:
    call = _by_effect(phase.calls, AwaitingApproval, input.effect)
    calls = _put(phase.calls, _judged(draft, call, input.verdict))
    return _acknowledge(draft, replace(phase, calls=calls), input.effect)


@_on(Cancelling, ToolCompleted, to=(Cancelling, *_STOPPED))
def _completed_late(draft: _Draft, phase: Cancelling, input: ToolCompleted) -> Phase:
    call = _by_effect(phase.calls, Running, input.effect)
    calls = _put(phase.calls, _tool_done(draft, call, input))
    return _acknowledge(draft, replace(phase, calls=calls), input.effect)


@_on(Cancelling, ChildrenStarted, to=(Cancelling, *_STOPPED))
def _spawned_late(draft: _Draft, phase: Cancelling, input: ChildrenStarted) -> Phase:
    call = _opened(draft, phase.calls, _by_effect(phase.calls, Running, input.effect), input)
    if pending := _pending(call):
        draft.do(CancelSubAgents(pending, _cascade(phase.reason)))
    return _acknowledge(draft, replace(phase, calls=_put(phase.calls, call)), input.effect)


@_on(Cancelling, SubAgentResult, to=(Cancelling, *_STOPPED))
def _child_ended_late(draft: _Draft, phase: Cancelling, input: SubAgentResult) -> Phase:
    calls = _put(phase.calls, _collected(draft, phase.calls, input.outcome))
    return _settle(draft, replace(phase, calls=calls))


def _expect_request(phase: Cancelling) -> None:
    """The model, or the wait before it, or the check of its answer was under way; with calls open there is neither."""
    if phase.calls:
        raise InvalidTransition("no model request was under way")


def _acknowledge(draft: _Draft, phase: Cancelling, effect: EffectId) -> Phase:
    if effect not in phase.outstanding:
        raise InvalidTransition(f"effect {effect} is not outstanding")
    return _settle(draft, replace(phase, outstanding=phase.outstanding - {effect}))


def _settle(draft: _Draft, phase: Cancelling) -> Phase:
    """When the last acknowledgement is there, the history is made whole and the run ends."""
    if phase.outstanding or any(isinstance(call.progress, Children) for call in phase.calls):
        return phase
    if phase.calls:
        calls = tuple(_interrupted(draft, call) for call in phase.calls)
        draft.do(AppendMessage(Message("user", _results(calls))))
    if draft.context.is_child:
        return _end(draft, _cancelled(draft, phase.reason, phase.limit))
    if phase.reason is CancelReason.BUDGET:
        draft.do(FinishTurn("max_turn_requests", limit=phase.limit))
    else:
        draft.do(FinishTurn("cancelled", interrupted=phase.reason is CancelReason.SHUTDOWN))
    return Idle()


def _interrupted(draft: _Draft, call: Call, output: str = "") -> Call:
    """A result for a call that has none: what is known of it, and no more. ``output`` is what it had put out."""
    match call.progress:
        case Done():
            return call
        case _ if call.kind is CallKind.DELEGATION:
            text = CANCELLED_WITH_PARENT
        case Running():
            text = "Interrupted: the turn was cancelled while this call ran; it may have taken effect in part."
            if output:
                text = f"{text} Its output until then:\n{output}"
        case AwaitingApproval():
            text = "Not run: interrupted while it waited for the user's approval; nobody denied it."
        case _:
            text = "Not run: interrupted before it started."
    return _done(draft, call, Done(ToolResult(call.use.id, text, is_error=True), CallStatus.CANCELLED))


def _cancelled(draft: _Draft, reason: CancelReason, limit: LimitReached | None) -> Cancelled | Failed:
    partial = draft.state.last_text
    match reason:
        case CancelReason.TIMEOUT:
            return Failed(FailureReason.TIMED_OUT, str(limit or "it ran past its time limit"), partial)
        case CancelReason.BUDGET:
            return Failed(FailureReason.BUDGET_EXCEEDED, str(limit or "its budget is used up"), partial)
        case CancelReason.USER | CancelReason.PARENT | CancelReason.SHUTDOWN:
            return Cancelled(reason, partial)


def _cascade(reason: CancelReason) -> CancelReason:
    return CancelReason.SHUTDOWN if reason is CancelReason.SHUTDOWN else CancelReason.PARENT


# -- small parts -------------------------------------------------------------------------------------------------


def _expect(given: EffectId, wanted: EffectId | None) -> None:
    if given != wanted:
        raise InvalidTransition(f"effect {given} is not outstanding")


def _by_effect(calls: tuple[Call, ...], progress: type[AwaitingApproval] | type[Running], effect: EffectId) -> Call:
    for call in calls:
        if isinstance(call.progress, progress) and call.progress.effect == effect:
            return call
    raise InvalidTransition(f"effect {effect} is not outstanding")


def _put(calls: tuple[Call, ...], changed: Call) -> tuple[Call, ...]:
    return tuple(changed if call.use.id == changed.use.id else call for call in calls)


def _pending(call: Call) -> tuple[str, ...]:
    return call.progress.pending if isinstance(call.progress, Children) else ()


def _results(calls: tuple[Call, ...]) -> tuple[ToolResult, ...]:
    return tuple(call.progress.result for call in calls if isinstance(call.progress, Done))


def _texts(message: Message) -> tuple[Block, ...]:
    return tuple(block for block in message.content if isinstance(block, Text) and block.text.strip())


def _kept(reply: Reply) -> Message:
    """The message without what must not be sent back: empty text, reasoning without a signature, and reasoning that
    leads to nothing (providers refuse a message that ends with it). What a refusal still asked for is not done."""
    message = reply.message
    content = [block for block in message.content if not _worthless(block)]
    if reply.stop_reason is StopReason.REFUSAL:
        content = [block for block in content if not isinstance(block, ToolUse)]
    while content and isinstance(content[-1], Thinking):
        content.pop()
    return replace(message, content=tuple(content))


def _worthless(block: Block) -> bool:
    match block:
        case Text(text):
            return not text.strip()
        case Thinking(signature=None, redacted=None):
            return True
        case _:
            return False


def _keep_partial(draft: _Draft, partial: Message | None) -> None:
    """Text that was shown stays, in the history and on the screen; reasoning and calls that were cut off do not."""
    if partial is None:
        return
    kept = replace(partial, content=_texts(partial))
    if kept.content:
        draft.change(last_text=kept.text.strip())
        draft.do(AppendMessage(kept, kept.text))


def _note_blocks(notes: tuple[Note, ...]) -> tuple[Text, ...]:
    return tuple(Text(note.text) for note in notes)


def _shown(notes: tuple[Note, ...]) -> str:
    return "\n\n".join(note.text for note in notes if note.shown)
