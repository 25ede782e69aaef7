"""Handlers for cancels, and for every input that arrives while an agent is being cancelled.

A cancel aborts all outstanding effects and children. Each acknowledges, by :class:`Stopped` or by the answer that was
already on its way; after the last one, open calls get a result and the turn or run ends.
"""

from dataclasses import replace

from deputy_agents.domain.errors import InvalidTransition
from deputy_agents.domain.event import CallStatus
from deputy_agents.domain.message import Message, ToolResult
from deputy_agents.domain.outcome import (
    CANCELLED_WITH_PARENT,
    Cancelled,
    CancelReason,
    Failed,
    FailureReason,
    LimitReached,
)
from deputy_agents.run.effect import (
    Abort,
    AnswerChecked,
    AppendMessage,
    CallsDecided,
    CancelSubAgents,
    ChildrenStarted,
    FinishTurn,
    ModelFailed,
    ModelReplied,
    PermissionAnswered,
    RetryDue,
    Stopped,
    SubAgentResult,
    ToolCompleted,
    UserCancel,
)
from deputy_agents.run.handlers.calls import (
    apply_children,
    apply_decision,
    apply_outcome,
    apply_result,
    call_with_effect,
    finish_call,
    pending_children,
    results_of,
    with_call,
)
from deputy_agents.run.handlers.draft import Draft, end_run, keep_partial
from deputy_agents.run.state import (
    AwaitingApproval,
    AwaitingSubAgents,
    Call,
    CallKind,
    Cancelling,
    Checking,
    Children,
    Done,
    EffectId,
    Idle,
    LlmRequesting,
    NotStarted,
    Phase,
    RetryWaiting,
    Running,
    ToolExecuting,
)

# -- a cancel ----------------------------------------------------------------------------------------------------


def cancel_unstarted(draft: Draft, _: Idle, input: UserCancel) -> Phase:
    if not draft.context.is_child:
        raise InvalidTransition("there is no turn to cancel")
    return end_run(draft, _ending(draft, input.reason, input.limit))


def cancel_request(draft: Draft, phase: LlmRequesting | RetryWaiting | Checking, input: UserCancel) -> Phase:
    outstanding = frozenset({phase.effect})
    draft.add(Abort(outstanding))
    return Cancelling(input.reason, input.limit, outstanding)


def cancel_calls(draft: Draft, phase: ToolExecuting | AwaitingSubAgents, input: UserCancel) -> Phase:
    outstanding = {
        call.progress.effect for call in phase.calls if isinstance(call.progress, AwaitingApproval | Running)
    }
    if isinstance(phase, ToolExecuting) and phase.deciding is not None:
        outstanding.add(phase.deciding)
    if outstanding:
        draft.add(Abort(frozenset(outstanding)))
    if pending := tuple(agent_id for call in phase.calls for agent_id in pending_children(call)):
        draft.add(CancelSubAgents(pending, _reason_for_children(input.reason)))
    return Cancelling(input.reason, input.limit, frozenset(outstanding), phase.calls)


def cancel_again(_draft: Draft, phase: Cancelling, _: UserCancel) -> Phase:
    return phase


# -- acknowledgements --------------------------------------------------------------------------------------------


def stopped(draft: Draft, phase: Cancelling, input: Stopped) -> Phase:
    if input.partial is not None:
        _require_no_calls(phase)
        keep_partial(draft, input.partial)
    if input.output:
        call = _interrupted(draft, call_with_effect(phase.calls, Running, input.effect), input.output)
        phase = replace(phase, calls=with_call(phase.calls, call))
    return _acknowledge(draft, phase, input.effect)


def model_replied(draft: Draft, phase: Cancelling, input: ModelReplied) -> Phase:
    _require_no_calls(phase)
    keep_partial(draft, input.reply.message)
    return _acknowledge(draft, phase, input.effect)


def model_failed(draft: Draft, phase: Cancelling, input: ModelFailed) -> Phase:
    _require_no_calls(phase)
    keep_partial(draft, input.partial)
    return _acknowledge(draft, phase, input.effect)


def retry_due(draft: Draft, phase: Cancelling, input: RetryDue) -> Phase:
    _require_no_calls(phase)
    return _acknowledge(draft, phase, input.effect)


def answer_checked(draft: Draft, phase: Cancelling, input: AnswerChecked) -> Phase:
    _require_no_calls(phase)
    return _acknowledge(draft, phase, input.effect)


def calls_decided(draft: Draft, phase: Cancelling, input: CallsDecided) -> Phase:
    if not phase.calls or any(call.progress != NotStarted() for call in phase.calls):
        raise InvalidTransition("no calls were being decided")
    return _acknowledge(draft, phase, input.effect)


def permission_answered(draft: Draft, phase: Cancelling, input: PermissionAnswered) -> Phase:
    call = call_with_effect(phase.calls, AwaitingApproval, input.effect)
    calls = with_call(phase.calls, apply_decision(draft, call, input.decision))
    return _acknowledge(draft, replace(phase, calls=calls), input.effect)


def tool_completed(draft: Draft, phase: Cancelling, input: ToolCompleted) -> Phase:
    call = call_with_effect(phase.calls, Running, input.effect)
    calls = with_call(phase.calls, apply_result(draft, call, input))
    return _acknowledge(draft, replace(phase, calls=calls), input.effect)


def children_started(draft: Draft, phase: Cancelling, input: ChildrenStarted) -> Phase:
    call = apply_children(draft, phase.calls, call_with_effect(phase.calls, Running, input.effect), input)
    if pending := pending_children(call):
        draft.add(CancelSubAgents(pending, _reason_for_children(phase.reason)))
    return _acknowledge(draft, replace(phase, calls=with_call(phase.calls, call)), input.effect)


def child_ended(draft: Draft, phase: Cancelling, input: SubAgentResult) -> Phase:
    calls = with_call(phase.calls, apply_outcome(draft, phase.calls, input.outcome))
    return _end_when_stopped(draft, replace(phase, calls=calls))


def _require_no_calls(phase: Cancelling) -> None:
    """A model request, the wait before one, or the check of an answer is outstanding only while no call is open."""
    if phase.calls:
        raise InvalidTransition("no model request was under way")


def _acknowledge(draft: Draft, phase: Cancelling, effect: EffectId) -> Phase:
    if effect not in phase.outstanding:
        raise InvalidTransition(f"effect {effect} is not outstanding")
    return _end_when_stopped(draft, replace(phase, outstanding=phase.outstanding - {effect}))


# -- the end -----------------------------------------------------------------------------------------------------


def _end_when_stopped(draft: Draft, phase: Cancelling) -> Phase:
    """After the last acknowledgement: gives every open call a result, and ends the turn or run."""
    if phase.outstanding or any(isinstance(call.progress, Children) for call in phase.calls):
        return phase
    if phase.calls:
        calls = tuple(_interrupted(draft, call) for call in phase.calls)
        draft.add(AppendMessage(Message("user", results_of(calls))))
    if draft.context.is_child:
        return end_run(draft, _ending(draft, phase.reason, phase.limit))
    if phase.reason is CancelReason.BUDGET:
        draft.add(FinishTurn("max_turn_requests", limit=phase.limit))
    else:
        draft.add(FinishTurn("cancelled", interrupted=phase.reason is CancelReason.SHUTDOWN))
    return Idle()


def _interrupted(draft: Draft, call: Call, output: str = "") -> Call:
    """``call`` with a result that states how far it came; ``output`` is what it had printed."""
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
    return finish_call(draft, call, Done(ToolResult(call.use.id, text, is_error=True), CallStatus.CANCELLED))


def _ending(draft: Draft, reason: CancelReason, limit: LimitReached | None) -> Cancelled | Failed:
    partial = draft.state.last_text
    match reason:
        case CancelReason.TIMEOUT:
            return Failed(FailureReason.TIMED_OUT, str(limit or "it ran past its time limit"), partial)
        case CancelReason.BUDGET:
            return Failed(FailureReason.BUDGET_EXCEEDED, str(limit or "its budget is used up"), partial)
        case CancelReason.USER | CancelReason.PARENT | CancelReason.SHUTDOWN:
            return Cancelled(reason, partial)


def _reason_for_children(reason: CancelReason) -> CancelReason:
    return CancelReason.SHUTDOWN if reason is CancelReason.SHUTDOWN else CancelReason.PARENT
