"""The start of a run, replies of the model, and the end of a run."""

from dataclasses import replace

import pytest

from deputy_agents.domain.event import CallStatus
from deputy_agents.domain.message import Message, StopReason, Text, Thinking, ToolResult, ToolUse
from deputy_agents.domain.outcome import (
    Cancelled,
    CancelReason,
    Completed,
    Failed,
    FailureReason,
    LimitReached,
)
from deputy_agents.run.effect import (
    AppendMessage,
    CallAllowed,
    CallsDecided,
    DecideCalls,
    FinishTurn,
    ModelFailed,
    Notice,
    NotifyParent,
    ReportCall,
    RequestModel,
    RetryDue,
    ScheduleRetry,
    Steered,
)
from deputy_agents.run.handlers.draft import UNREAD
from deputy_agents.run.state import (
    Call,
    CallKind,
    Idle,
    LlmRequesting,
    Note,
    RetryWaiting,
    State,
    ToolExecuting,
)
from deputy_agents.run.transition import transition
from tests.support.machine import REPORTS, World, agent, user
from tests.support.steps import (
    assistant,
    calling,
    cancelled,
    child,
    completed,
    fails,
    only,
    primary,
    replies,
    stopped,
    use,
)

# -- the start of a run ------------------------------------------------------------------------------------------


def test_a_prompt_resets_the_counts_and_is_sent_to_the_model() -> None:
    state, effects = transition(State(last_text="old", iterations=3, corrections=2), agent(), user("go"))
    assert state == State(LlmRequesting(1, 1), next_effect=2)
    assert effects == (AppendMessage(Message("user", (Text("go"),)), "go"), RequestModel(1, 1))


def test_notices_between_turns_are_sent_before_the_prompt() -> None:
    world = World().after(Notice("a child has ended")).after(user("go"))
    assert world.history == (Message("user", (Text("a child has ended"), Text("go"))),)
    assert world.effects[0] == AppendMessage(world.history[0], "go")


def test_a_steering_message_left_over_from_a_turn_is_shown_with_the_next_prompt() -> None:
    world = replies(primary(max_iterations=1).after(Steered("and this")), "done").after(user("go"))
    assert world.effects[0] == AppendMessage(Message("user", (Text("and this"), Text("go"))), "and this\n\ngo")


# -- replies of the model ----------------------------------------------------------------------------------------


def test_an_answer_without_calls_ends_the_turn_of_the_primary() -> None:
    world = replies(primary(), "hello")
    assert world.state == State(Idle(), next_effect=2, iterations=1, last_text="hello")
    assert world.effects == (AppendMessage(assistant("hello"), "hello"), FinishTurn("end_turn"))


@pytest.mark.requirement("A4")
def test_an_answer_without_calls_is_the_result_of_a_child() -> None:
    world = replies(child(), "one", "two")
    assert world.state.phase == Completed("one\ntwo")
    assert world.effects[-1] == NotifyParent(Completed("one\ntwo"))


@pytest.mark.requirement("A4")
def test_a_child_that_ends_without_text_answers_with_its_last_text() -> None:
    world = replies(child(), "it is in main.py", use("look1"), stop=StopReason.TOOL_USE)
    world = world.after(CallsDecided(only(world), {"look1": CallAllowed()}))
    assert replies(completed(world, "look1")).state.phase == Completed("it is in main.py")


def test_an_empty_answer_of_a_child_is_a_failure() -> None:
    world = replies(child(), " \n", Thinking("hm", "signed"))
    assert world.state.phase == Failed(FailureReason.RUNTIME_ERROR, "it ended without an answer")
    assert world.history == (Message("user", (Text("go"),)),)


def test_an_empty_answer_of_the_primary_ends_its_turn_and_leaves_no_message() -> None:
    assert replies(primary()).effects == (FinishTurn("end_turn"),)


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        (StopReason.END_TURN, "end_turn"),
        (StopReason.STOP_SEQUENCE, "end_turn"),
        (StopReason.OTHER, "end_turn"),
        (StopReason.MAX_TOKENS, "max_tokens"),
        (StopReason.CONTEXT_WINDOW, "max_tokens"),
        (StopReason.REFUSAL, "refusal"),
    ],
)
def test_the_stop_reason_of_the_model_ends_the_turn_of_the_primary(stop: StopReason, reason: str) -> None:
    assert replies(primary(), "hello", stop=stop).effects[-1] == FinishTurn(reason)


@pytest.mark.parametrize(
    ("stop", "error"),
    [
        (StopReason.MAX_TOKENS, "its answer was cut off at the token limit of one reply"),
        (StopReason.CONTEXT_WINDOW, "its context window is full"),
        (StopReason.REFUSAL, "the model refused to answer"),
    ],
)
def test_an_incomplete_answer_of_a_child_is_the_partial_result_of_a_failure(stop: StopReason, error: str) -> None:
    assert replies(child(), "so far", stop=stop).state.phase == Failed(FailureReason.MODEL_ERROR, error, "so far")


def test_a_pause_of_the_model_leads_to_the_next_request() -> None:
    world = replies(primary(), "wait", stop=StopReason.PAUSE_TURN)
    continued = AppendMessage(Message("user", (Text("Continue."),)))
    assert world.effects == (AppendMessage(assistant("wait"), "wait"), continued, RequestModel(2, 1))
    assert world.state.phase == LlmRequesting(1, 2)


def test_a_refusal_is_final_and_its_calls_are_dropped() -> None:
    world = replies(primary(), "I will not", Thinking("hm", "signed"), use("edit1"), stop=StopReason.REFUSAL)
    assert world.effects == (AppendMessage(assistant("I will not"), "I will not"), FinishTurn("refusal"))
    world = replies(child(), use("submit_result1", result="found"), stop=StopReason.REFUSAL)
    assert world.state.phase == Failed(FailureReason.MODEL_ERROR, "the model refused to answer")
    assert world.history == (Message("user", (Text("go"),)),)


def test_unsigned_thinking_and_empty_text_are_dropped_and_signed_thinking_is_kept() -> None:
    signed, redacted = Thinking("so", "signed"), Thinking("", redacted="opaque")
    world = replies(primary(), Thinking("hm"), signed, redacted, " ", "hello")
    assert world.history[-1] == assistant(signed, redacted, "hello")


def test_thinking_at_the_end_of_a_message_is_dropped() -> None:
    world = replies(primary(), "hello", Thinking("so", "signed"), "\n")
    assert world.history[-1] == assistant("hello")


def test_calls_go_to_the_gate_together() -> None:
    world = replies(primary(), "I look", use("look1"), use("edit2"), use("ask3"), stop=StopReason.TOOL_USE)
    assert world.effects == (
        AppendMessage(assistant("I look", use("look1"), use("edit2"), use("ask3")), "I look"),
        DecideCalls(2, (use("look1"), use("edit2"), use("ask3"))),
    )
    assert world.state.phase == ToolExecuting(
        (
            Call(use("look1"), CallKind.CONCURRENT),
            Call(use("edit2"), CallKind.EXCLUSIVE),
            Call(use("ask3"), CallKind.DELEGATION),
        ),
        deciding=2,
    )


# -- reports of a child ------------------------------------------------------------------------------------------


def test_submit_result_ends_a_child_with_that_result() -> None:
    report = use("submit_result1", result=" found it ")
    world = replies(child(), report, stop=StopReason.TOOL_USE)
    assert world.state.phase == Completed("found it")
    assert world.effects == (
        AppendMessage(assistant(report), ""),
        ReportCall(report, CallStatus.COMPLETED, "Received."),
        AppendMessage(Message("user", (ToolResult("submit_result1", "Received."),))),
        NotifyParent(Completed("found it")),
    )


def test_submit_error_ends_a_child_as_failed_with_its_last_text() -> None:
    world = replies(child(), "I tried", use("submit_error1", error="no such file"), stop=StopReason.TOOL_USE)
    assert world.state.phase == Failed(FailureReason.SUB_AGENT_ERROR, "no such file", "I tried")


@pytest.mark.requirement("X13")
def test_the_first_report_counts_and_no_call_beside_it_runs() -> None:
    calls = use("look1"), use("submit_error2", error="lost"), use("submit_result3", result="found")
    world = replies(child(), *calls, stop=StopReason.TOOL_USE)
    assert world.state.phase == Failed(FailureReason.SUB_AGENT_ERROR, "lost")
    not_run = "Not run: the sub-agent had already submitted its result."
    assert world.history[-1] == Message(
        "user",
        (
            ToolResult("look1", not_run, is_error=True),
            ToolResult("submit_error2", "Received."),
            ToolResult("submit_result3", not_run, is_error=True),
        ),
    )


@pytest.mark.parametrize(
    "report", [use("submit_result1"), use("submit_result1", result=" "), use("submit_error1", error=1)]
)
def test_an_empty_report_goes_to_the_gate_like_any_call(report: ToolUse) -> None:
    world = replies(child(), report, stop=StopReason.TOOL_USE)
    assert isinstance(world.state.phase, ToolExecuting)


@pytest.mark.parametrize("offered", [frozenset[str](), REPORTS], ids=["not offered", "offered"])
def test_the_primary_cannot_report(offered: frozenset[str]) -> None:
    world = World(replace(agent(), tools=offered)).after(user("go"))
    world = replies(world, use("submit_result1", result="found"), stop=StopReason.TOOL_USE)
    assert isinstance(world.state.phase, ToolExecuting)


# -- failed requests ---------------------------------------------------------------------------------------------


def test_a_retryable_failure_is_retried_after_a_wait() -> None:
    world = primary()
    failed = ModelFailed(
        only(world), "rate_limited", "too fast", retryable=True, retry_after=4, partial=assistant("Hel")
    )
    world = world.after(failed)
    assert world.effects == (ScheduleRetry(2, 2, 4, "rate_limited", "too fast"),)
    assert world.state.phase == RetryWaiting(2, 2)
    world = world.after(RetryDue(2))
    assert world.effects == (RequestModel(3, 2),)
    assert world.state.phase == LlmRequesting(2, 3)


def test_the_last_attempt_is_not_retried() -> None:
    world = fails(primary(attempts=2), retryable=True)
    world = fails(world.after(RetryDue(only(world))), retryable=True)
    assert world.state.phase == Idle()


def test_a_later_request_has_all_its_attempts() -> None:
    world = fails(primary(attempts=2), retryable=True)
    world = completed(calling(world.after(RetryDue(only(world))), "look1"), "look1")
    assert world.state.phase == LlmRequesting(1, only(world))


def test_an_error_of_the_primary_ends_the_turn_and_not_the_session() -> None:
    world = fails(primary(), partial=assistant("Hel"))
    failure = ModelFailed(1, "server", "it broke", partial=assistant("Hel"))
    assert world.effects == (AppendMessage(assistant("Hel"), "Hel"), FinishTurn("error", failure))
    assert world.after(user("again")).state.phase == LlmRequesting(1, 2)


def test_an_error_of_a_child_ends_it_with_model_error_and_its_last_text() -> None:
    world = fails(child(), partial=assistant("Hel"))
    assert world.state.phase == Failed(FailureReason.MODEL_ERROR, "it broke", "Hel")
    assert world.effects[-1] == NotifyParent(Failed(FailureReason.MODEL_ERROR, "it broke", "Hel"))


def test_only_the_text_of_a_reply_that_was_cut_off_is_kept() -> None:
    world = fails(primary(), partial=assistant(Thinking("hm", "signed"), " ", "Hel", use("look1")))
    assert world.history[-1] == assistant("Hel")


# -- the request limit -------------------------------------------------------------------------------------------


@pytest.mark.requirement("X13")
def test_at_the_limit_calls_get_their_results_before_the_turn_ends() -> None:
    world = completed(calling(primary(max_iterations=1), "look1"), "look1", "text")
    assert world.history[-1] == Message("user", (ToolResult("look1", "text"),))
    limit = LimitReached("it reached its limit of 1 model requests for one prompt", "limits.turnIterations")
    assert world.effects[-1] == FinishTurn("max_turn_requests", limit=limit)
    assert world.state.phase == Idle()


def test_a_child_at_its_limit_fails_with_its_last_text() -> None:
    world = replies(child(max_iterations=1), "I look", use("look1"), stop=StopReason.TOOL_USE)
    world = completed(world.after(CallsDecided(only(world), {"look1": CallAllowed()})), "look1")
    assert world.state.phase == Failed(
        FailureReason.BUDGET_EXCEEDED, "it reached its limit of 1 model requests", "I look"
    )


def test_an_answer_at_the_limit_counts_and_waiting_notes_are_shown_as_unread() -> None:
    world = replies(child(max_iterations=1).after(Steered("and this")), "found")
    unread = AppendMessage(Message("user", (Text("and this"),)), f"and this\n\n{UNREAD}")
    assert world.effects == (AppendMessage(assistant("found"), "found"), unread, NotifyParent(Completed("found")))


# -- notes -------------------------------------------------------------------------------------------------------


def test_a_steering_message_goes_with_the_next_results_and_is_shown() -> None:
    world = calling(child(), "look1").after(Steered("and this"))
    assert world.state.notes == (Note("and this", shown=True),)
    world = completed(world, "look1")
    message = Message("user", (ToolResult("look1", "ok"), Text("and this")))
    assert AppendMessage(message, "and this") in world.effects
    assert world.state.notes == ()


def test_the_end_of_a_background_child_goes_with_the_next_results_and_is_not_shown() -> None:
    world = completed(calling(primary(), "look1").after(Notice("a child has ended")), "look1")
    assert AppendMessage(Message("user", (ToolResult("look1", "ok"), Text("a child has ended"))), "") in world.effects


def test_a_note_during_the_last_reply_starts_another_request() -> None:
    world = replies(primary().after(Steered("and this")), "hello")
    assert world.effects == (
        AppendMessage(assistant("hello"), "hello"),
        AppendMessage(Message("user", (Text("and this"),)), "and this"),
        RequestModel(2, 1),
    )


def test_at_the_limit_a_note_waits_for_the_next_prompt() -> None:
    world = completed(calling(primary(max_iterations=1), "look1").after(Notice("ended")), "look1")
    assert world.history[-1] == Message("user", (ToolResult("look1", "ok"),))
    assert world.after(user("go on")).history[-1] == Message("user", (Text("ended"), Text("go on")))


@pytest.mark.requirement("X14")
@pytest.mark.parametrize("report", ["submit_result", "submit_error"])
def test_a_child_that_reports_its_end_first_receives_waiting_notes(report: str) -> None:
    given = use(f"{report}1", result="found") if report == "submit_result" else use(f"{report}1", error="lost")
    world = replies(child().after(Steered("and this")), given, stop=StopReason.TOOL_USE)
    text = "Received, but there is a message for you: read it, act on it, then report again in full."
    received = ToolResult(f"{report}1", text)
    assert world.history[-2:] == (Message("user", (received,)), Message("user", (Text("and this"),)))
    assert world.effects[-1] == RequestModel(2, 1)
    assert replies(world, "found that too").state.phase == Completed("found that too")


def test_a_submitted_result_counts_when_the_next_reply_is_empty() -> None:
    report = use("submit_result1", result="found")
    world = replies(child().after(Steered("and this")), report, stop=StopReason.TOOL_USE)
    assert replies(world).state.phase == Completed("found")


def test_notes_that_a_stopped_child_has_not_read_are_shown_as_unread() -> None:
    world = stopped(cancelled(child().after(Steered("and this"))), 1)
    unread = AppendMessage(Message("user", (Text("and this"),)), f"and this\n\n{UNREAD}")
    assert world.effects == (unread, NotifyParent(Cancelled(CancelReason.USER)))
