"""Handlers for the tool calls of one reply: decisions, permission requests, results, and children."""

from dataclasses import replace

from deputy_agents.domain.errors import InvalidTransition
from deputy_agents.domain.event import CallStatus
from deputy_agents.domain.message import Message, ToolResult, ToolUse
from deputy_agents.domain.outcome import Outcome
from deputy_agents.run.effect import (
    AppendMessage,
    CallAllowed,
    CallDecision,
    CallDenied,
    CallNeedsApproval,
    CallsDecided,
    ChildrenStarted,
    DecideCalls,
    PermissionAnswered,
    ReportCall,
    RequestPermission,
    RunTool,
    StartChildren,
    SubAgentResult,
    ToolCompleted,
)
from deputy_agents.run.handlers.draft import Draft, next_request, note_blocks, require_outstanding, shown_text
from deputy_agents.run.result import delegation_result
from deputy_agents.run.state import (
    AwaitingApproval,
    AwaitingSubAgents,
    Call,
    CallKind,
    Children,
    Done,
    EffectId,
    NotStarted,
    Phase,
    Running,
    ToolExecuting,
)

# -- handlers ----------------------------------------------------------------------------------------------------


def calls_decided(draft: Draft, phase: ToolExecuting, input: CallsDecided) -> Phase:
    require_outstanding(input.effect, phase.deciding)
    if set(input.decisions) != {call.use.id for call in phase.calls}:
        raise InvalidTransition("the decisions do not match the calls of the reply")
    return _advance(draft, tuple(apply_decision(draft, call, input.decisions[call.use.id]) for call in phase.calls))


def permission_answered(draft: Draft, phase: ToolExecuting, input: PermissionAnswered) -> Phase:
    call = call_with_effect(phase.calls, AwaitingApproval, input.effect)
    return _advance(draft, with_call(phase.calls, apply_decision(draft, call, input.decision)))


def tool_completed(draft: Draft, phase: ToolExecuting, input: ToolCompleted) -> Phase:
    call = call_with_effect(phase.calls, Running, input.effect)
    return _advance(draft, with_call(phase.calls, apply_result(draft, call, input)))


def children_started(draft: Draft, phase: ToolExecuting, input: ChildrenStarted) -> Phase:
    call = call_with_effect(phase.calls, Running, input.effect)
    return _advance(draft, with_call(phase.calls, apply_children(draft, phase.calls, call, input)))


def child_ended(draft: Draft, phase: ToolExecuting | AwaitingSubAgents, input: SubAgentResult) -> Phase:
    return _advance(draft, with_call(phase.calls, apply_outcome(draft, phase.calls, input.outcome)))


# -- a round of calls --------------------------------------------------------------------------------------------


def decide_calls(draft: Draft, uses: tuple[ToolUse, ...]) -> ToolExecuting:
    """Begins a round: the gate decides every call of the reply before any runs."""
    effect = draft.new_id()
    draft.add(DecideCalls(effect, uses))
    return ToolExecuting(tuple(Call(use, draft.context.kind_of(use.name)) for use in uses), effect)


def _advance(draft: Draft, calls: tuple[Call, ...]) -> Phase:
    """Starts every call that may start now. When all calls are done, appends their results and requests the model."""
    calls = _start_ready(draft, calls)
    unfinished = [call for call in calls if call.open]
    if any(not isinstance(call.progress, Children) for call in unfinished):
        return ToolExecuting(calls)
    if unfinished:
        return AwaitingSubAgents(calls)
    notes = () if draft.at_limit else draft.take_notes()
    draft.add(AppendMessage(Message("user", (*results_of(calls), *note_blocks(notes))), shown_text(notes)))
    return next_request(draft)


def _start_ready(draft: Draft, calls: tuple[Call, ...]) -> tuple[Call, ...]:
    """Starts the allowed calls that no earlier open call blocks, as :class:`CallKind` describes."""
    started: list[Call] = []
    any_open = exclusive_open = False
    for waiting in calls:
        call = waiting
        blocked = {CallKind.DELEGATION: False, CallKind.CONCURRENT: exclusive_open, CallKind.EXCLUSIVE: any_open}[
            call.kind
        ]
        if call.progress == NotStarted(ready=True) and not blocked:
            effect = draft.new_id()
            start = StartChildren if call.kind is CallKind.DELEGATION else RunTool
            draft.add(ReportCall(call.use, CallStatus.IN_PROGRESS), start(effect, call.use))
            call = replace(call, progress=Running(effect))
        if call.open and call.kind is not CallKind.DELEGATION:
            any_open = True
            exclusive_open = exclusive_open or call.kind is CallKind.EXCLUSIVE
        started.append(call)
    return tuple(started)


# -- progress of one call ----------------------------------------------------------------------------------------


def apply_decision(draft: Draft, call: Call, decision: CallDecision) -> Call:
    match decision:
        case CallAllowed(edited, notes):
            draft.update(notes=(*draft.state.notes, *notes))
            use = call.use if edited is None else replace(call.use, input=edited)
            return replace(call, use=use, progress=NotStarted(ready=True))
        case CallNeedsApproval():
            effect = draft.new_id()
            draft.add(RequestPermission(effect, call.use))
            return replace(call, progress=AwaitingApproval(effect))
        case CallDenied(text):
            return finish_call(draft, call, Done(ToolResult(call.use.id, text, is_error=True), CallStatus.FAILED))


def apply_result(draft: Draft, call: Call, input: ToolCompleted) -> Call:
    if input.reports:
        draft.update(notes=tuple(note for note in draft.state.notes if note.about not in input.reports))
    result = ToolResult(call.use.id, input.content, input.is_error, input.images)
    return finish_call(draft, call, Done(result, CallStatus.FAILED if input.is_error else CallStatus.COMPLETED))


def apply_children(draft: Draft, calls: tuple[Call, ...], call: Call, input: ChildrenStarted) -> Call:
    """``call`` now waits for its children; with an immediate result it is done."""
    if call.kind is not CallKind.DELEGATION or input.tool_use_id != call.use.id:
        raise InvalidTransition(f"the children of {input.tool_use_id} do not belong to {call.use.id}")
    if input.immediate is not None:
        return finish_call(draft, call, Done(ToolResult(call.use.id, input.immediate), CallStatus.COMPLETED))
    ids = input.agent_ids
    awaited = {agent_id for other in calls if isinstance(other.progress, Children) for agent_id in other.progress.order}
    if not ids or len(set(ids)) < len(ids) or awaited & set(ids):
        raise InvalidTransition("a delegation call needs at least one child, and each child belongs to one call")
    if input.style != "aggregate" and len(ids) > 1:
        raise InvalidTransition("the result of several children must be an aggregate")
    return replace(call, progress=Children(ids, ids, style=input.style))


def apply_outcome(draft: Draft, calls: tuple[Call, ...], outcome: Outcome) -> Call:
    """The call that waits for this child, with its outcome; done when it was the last one."""
    for call in calls:
        if isinstance(progress := call.progress, Children) and outcome.agent_id in progress.pending:
            pending = tuple(agent_id for agent_id in progress.pending if agent_id != outcome.agent_id)
            progress = replace(progress, pending=pending, completed=(*progress.completed, outcome))
            if pending:
                return replace(call, progress=progress)
            return finish_call(draft, call, delegation_result(call.use.id, progress, draft.context.aggregate_bytes))
    raise InvalidTransition(f"no call waits for agent {outcome.agent_id}")


def finish_call(draft: Draft, call: Call, done: Done) -> Call:
    draft.add(ReportCall(call.use, done.status, done.result.content))
    return replace(call, progress=done)


# -- lookups -----------------------------------------------------------------------------------------------------


def call_with_effect(
    calls: tuple[Call, ...], progress: type[AwaitingApproval] | type[Running], effect: EffectId
) -> Call:
    for call in calls:
        if isinstance(call.progress, progress) and call.progress.effect == effect:
            return call
    raise InvalidTransition(f"effect {effect} is not outstanding")


def with_call(calls: tuple[Call, ...], changed: Call) -> tuple[Call, ...]:
    """``calls`` with ``changed`` in place of the call of the same id."""
    return tuple(changed if call.use.id == changed.use.id else call for call in calls)


def pending_children(call: Call) -> tuple[str, ...]:
    return call.progress.pending if isinstance(call.progress, Children) else ()


def results_of(calls: tuple[Call, ...]) -> tuple[ToolResult, ...]:
    return tuple(call.progress.result for call in calls if isinstance(call.progress, Done))
