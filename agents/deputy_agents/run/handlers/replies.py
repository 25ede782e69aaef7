"""Handlers for prompts, messages to a running agent, replies of the model, and the check of a child's answer."""

from dataclasses import replace

from deputy_agents.domain.event import CallStatus
from deputy_agents.domain.message import Message, StopReason, Text, ToolResult, ToolUse, tool_uses
from deputy_agents.domain.outcome import Completed, Failed, FailureReason
from deputy_agents.run.backoff import max_attempts
from deputy_agents.run.effect import (
    AnswerChecked,
    AppendMessage,
    CheckAnswer,
    FinishTurn,
    ModelFailed,
    ModelReplied,
    Notice,
    ReportCall,
    RetryDue,
    ScheduleRetry,
    Steered,
    UserPrompt,
)
from deputy_agents.run.handlers.calls import decide_calls
from deputy_agents.run.handlers.draft import (
    Draft,
    end_run,
    keep_partial,
    next_request,
    note_blocks,
    request_model,
    require_outstanding,
    shown_text,
)
from deputy_agents.run.history import sendable
from deputy_agents.run.state import Checking, Context, Idle, LlmRequesting, Note, Phase, RetryWaiting

MAX_CORRECTIONS = 2
"""How often a child's answer is sent back for correction."""

CONTINUE = "Continue."
"""The message after a reply that the service has paused."""

_TURN_STOP_REASONS = {
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.CONTEXT_WINDOW: "max_tokens",
    StopReason.REFUSAL: "refusal",
}
_CHILD_ERRORS = {
    StopReason.MAX_TOKENS: "its answer was cut off at the token limit of one reply",
    StopReason.CONTEXT_WINDOW: "its context window is full",
    StopReason.REFUSAL: "the model refused to answer",
}
_REPORT_FIELDS = {"submit_result": "result", "submit_error": "error"}
_RECEIVED_EARLY = "Received, but there is a message for you: read it, act on it, then report again in full."
_NOT_RUN_AFTER_REPORT = "Not run: the sub-agent had already submitted its result."


# -- prompts and messages ----------------------------------------------------------------------------------------


def start_run(draft: Draft, _: Idle, input: UserPrompt) -> Phase:
    draft.update(iterations=0, last_text="", corrections=0)
    notes = draft.take_notes()
    message = replace(input.message, content=(*note_blocks(notes), *input.message.content))
    shown = "\n\n".join(part for part in (shown_text(notes), input.shown) if part)
    draft.add(AppendMessage(message, shown))
    return request_model(draft)


def add_notice(draft: Draft, phase: Phase, input: Notice) -> Phase:
    draft.update(notes=(*draft.state.notes, Note(input.text, about=input.about)))
    return phase


def add_steering(draft: Draft, phase: Phase, input: Steered) -> Phase:
    draft.update(notes=(*draft.state.notes, Note(input.text, shown=True)))
    return phase


# -- replies of the model ----------------------------------------------------------------------------------------


def model_replied(draft: Draft, phase: LlmRequesting, input: ModelReplied) -> Phase:
    require_outstanding(input.effect, phase.effect)
    reply = input.reply
    message = sendable(reply)
    draft.update(iterations=draft.state.iterations + 1, last_text=message.text.strip() or draft.state.last_text)
    if message.content:
        draft.add(AppendMessage(message, message.text))
    if uses := tool_uses(message):
        return _reported(draft, uses) or decide_calls(draft, uses)
    if reply.stop_reason is StopReason.PAUSE_TURN and not draft.state.notes and message.content:
        # Services reject a request that ends with a message of the model.
        draft.add(AppendMessage(Message("user", (Text(CONTINUE),))))
    if reply.stop_reason is StopReason.PAUSE_TURN or draft.must_continue:
        return next_request(draft)
    return _stop(draft, reply.stop_reason)


def model_failed(draft: Draft, phase: LlmRequesting, input: ModelFailed) -> Phase:
    require_outstanding(input.effect, phase.effect)
    if input.retryable and phase.attempt < max_attempts(input.kind, draft.context.attempts):
        effect = draft.new_id()
        attempt = phase.attempt + 1
        draft.add(ScheduleRetry(effect, attempt, input.retry_after, input.kind, input.message))
        return RetryWaiting(attempt, effect)
    keep_partial(draft, input.partial)
    if draft.context.is_child:
        return end_run(draft, Failed(FailureReason.MODEL_ERROR, input.message, draft.state.last_text))
    draft.add(FinishTurn("error", input))
    return Idle()


def retry_due(draft: Draft, phase: RetryWaiting, input: RetryDue) -> Phase:
    require_outstanding(input.effect, phase.effect)
    return request_model(draft, phase.attempt)


def _stop(draft: Draft, reason: StopReason) -> Phase:
    """Ends the turn of the primary or, with its last text as the answer, the run of a child."""
    if not draft.context.is_child:
        draft.add(FinishTurn(_TURN_STOP_REASONS.get(reason, "end_turn")))
        return Idle()
    text = draft.state.last_text
    if error := _CHILD_ERRORS.get(reason):
        return end_run(draft, Failed(FailureReason.MODEL_ERROR, error, text))
    if not text:
        return end_run(draft, Failed(FailureReason.RUNTIME_ERROR, "it ended without an answer"))
    return _answer(draft, text)


# -- the answer of a child ---------------------------------------------------------------------------------------


def answer_checked(draft: Draft, phase: Checking, input: AnswerChecked) -> Phase:
    require_outstanding(input.effect, phase.effect)
    correct = input.correction and draft.state.corrections < MAX_CORRECTIONS and not draft.at_limit
    if correct:
        draft.update(corrections=draft.state.corrections + 1)
        draft.add(AppendMessage(Message("user", (Text(input.correction),)), input.correction))
    if correct or draft.must_continue:
        return next_request(draft)
    text = draft.state.last_text
    return end_run(draft, Completed(f"{text}\n\n{input.warning}" if input.warning else text))


def _answer(draft: Draft, text: str) -> Phase:
    """Completes a child with ``text``, after a check if its context requires one."""
    draft.update(last_text=text)
    if not draft.context.check_answer:
        return next_request(draft) if draft.must_continue else end_run(draft, Completed(text))
    effect = draft.new_id()
    draft.add(CheckAnswer(effect, text))
    return Checking(effect)


def _reported(draft: Draft, uses: tuple[ToolUse, ...]) -> Phase | None:
    """Handles a reply in which a child reports its result or error by a tool; ``None`` for any other reply. The first
    report counts, and no other call of the reply runs."""
    report = next((use for use in uses if _report_text(draft.context, use)), None)
    if report is None:
        return None
    text = _report_text(draft.context, report)
    received = _RECEIVED_EARLY if draft.must_continue else "Received."
    results: list[ToolResult] = []
    for use in uses:
        first = use is report
        result = ToolResult(use.id, received if first else _NOT_RUN_AFTER_REPORT, is_error=not first)
        results.append(result)
        draft.add(ReportCall(use, CallStatus.COMPLETED if first else CallStatus.CANCELLED, result.content))
    draft.add(AppendMessage(Message("user", tuple(results))))
    if report.name == "submit_result":
        return _answer(draft, text)
    if draft.must_continue:
        return next_request(draft)
    return end_run(draft, Failed(FailureReason.SUB_AGENT_ERROR, text, draft.state.last_text))


def _report_text(context: Context, use: ToolUse) -> str:
    """The result or error that ``use`` reports; empty when it is not a valid report."""
    if not context.is_child or use.name not in context.tools or use.name not in _REPORT_FIELDS or use.error:
        return ""
    value = use.input.get(_REPORT_FIELDS[use.name])
    return value.strip() if isinstance(value, str) else ""
