"""The check of a child's answer, and its corrections."""

import pytest

from deputy_agents.domain.errors import InvalidTransition
from deputy_agents.domain.event import CallStatus
from deputy_agents.domain.message import Message, StopReason, Text, ToolResult
from deputy_agents.domain.outcome import Cancelled, CancelReason, Completed, Failed, FailureReason
from deputy_agents.run.effect import (
    AnswerChecked,
    AppendMessage,
    CheckAnswer,
    Notice,
    NotifyParent,
    ReportCall,
    RequestModel,
    Steered,
)
from deputy_agents.run.state import Checking, LlmRequesting, State
from tests.support.machine import World
from tests.support.steps import assistant, cancelled, checked, child, fails, only, replies, stopped, use

CORRECTION = "Name the places."
WARNING = "[warning: no places]"


def answering(*, max_iterations: int = 50) -> World:
    """A child whose first answer is being checked."""
    return replies(child(max_iterations=max_iterations, check_answer=True), "found")


def submitting() -> World:
    """A child whose submitted result is being checked."""
    report = use("submit_result1", result="found")
    return replies(child(check_answer=True), "I think", report, stop=StopReason.TOOL_USE)


@pytest.mark.requirement("C7")
def test_an_answer_is_checked_before_the_child_completes() -> None:
    world = answering()
    assert world.effects == (AppendMessage(assistant("found"), "found"), CheckAnswer(2, "found"))
    assert world.state == State(Checking(2), next_effect=3, iterations=1, last_text="found")
    assert checked(world).effects == (NotifyParent(Completed("found")),)


@pytest.mark.requirement("C7")
def test_an_incomplete_answer_is_sent_back_to_the_same_child() -> None:
    world = checked(answering(), CORRECTION, WARNING)
    assert world.effects == (AppendMessage(Message("user", (Text(CORRECTION),)), CORRECTION), RequestModel(3, 1))
    assert checked(replies(world, "in a.py:1-2")).state.phase == Completed("in a.py:1-2")


@pytest.mark.requirement("C7")
def test_after_two_corrections_the_answer_gets_a_warning() -> None:
    world = answering()
    for answer in ("found again", "found at last"):
        world = replies(checked(world, CORRECTION, WARNING), answer)
    assert checked(world, CORRECTION, WARNING).state.phase == Completed("found at last\n\n[warning: no places]")
    assert [message.role for message in world.history] == ["user", "assistant"] * 3


@pytest.mark.requirement("C7")
def test_a_submitted_result_is_checked_and_sent_back_too() -> None:
    world = submitting()
    assert world.effects[-3:] == (
        ReportCall(use("submit_result1", result="found"), CallStatus.COMPLETED, "Received."),
        AppendMessage(Message("user", (ToolResult("submit_result1", "Received."),))),
        CheckAnswer(2, "found"),
    )
    world = checked(world, CORRECTION, WARNING)
    world = replies(world, use("submit_result2", result="in a.py:1-2"), stop=StopReason.TOOL_USE)
    assert checked(world).state.phase == Completed("in a.py:1-2")


def test_at_the_request_limit_the_answer_gets_a_warning() -> None:
    world = checked(answering(max_iterations=1), CORRECTION, WARNING)
    assert world.effects == (NotifyParent(Completed("found\n\n[warning: no places]")),)


def test_an_empty_correction_keeps_the_previous_answer() -> None:
    world = replies(checked(submitting(), CORRECTION, WARNING))
    assert world.effects == (CheckAnswer(4, "found"),)


@pytest.mark.parametrize("ending", ["failure", "refusal", "submit_error"])
def test_the_answer_of_a_child_that_fails_to_correct_it_is_its_partial_result(ending: str) -> None:
    world = checked(submitting(), CORRECTION)
    match ending:
        case "failure":
            failed = Failed(FailureReason.MODEL_ERROR, "it broke", "found")
            world = fails(world)
        case "refusal":
            failed = Failed(FailureReason.MODEL_ERROR, "the model refused to answer", "found")
            world = replies(world, stop=StopReason.REFUSAL)
        case _:
            failed = Failed(FailureReason.SUB_AGENT_ERROR, "no places", "found")
            world = replies(world, use("submit_error2", error="no places"), stop=StopReason.TOOL_USE)
    assert world.state.phase == failed


# -- notes and cancels meanwhile ---------------------------------------------------------------------------------


@pytest.mark.requirement("X14")
def test_a_child_that_is_steered_during_the_check_continues_although_its_answer_is_valid() -> None:
    world = checked(answering().after(Steered("and this")))
    assert world.effects == (AppendMessage(Message("user", (Text("and this"),)), "and this"), RequestModel(3, 1))
    assert world.state.corrections == 0


@pytest.mark.requirement("X14")
def test_notes_during_the_check_follow_the_correction() -> None:
    world = answering().after(Steered("and this")).after(Notice("a child has ended"))
    world = checked(world, CORRECTION, WARNING)
    assert [message.content for message in world.history[-2:]] == [
        (Text(CORRECTION),),
        (Text("and this"), Text("a child has ended")),
    ]
    assert world.state.phase == LlmRequesting(1, 3)
    assert world.state.notes == ()


@pytest.mark.parametrize(
    ("reason", "ending"),
    [
        (CancelReason.USER, Cancelled(CancelReason.USER, "found")),
        (CancelReason.TIMEOUT, Failed(FailureReason.TIMED_OUT, "it ran past its time limit", "found")),
    ],
)
def test_an_answer_whose_check_is_cancelled_is_the_partial_result(
    reason: CancelReason, ending: Cancelled | Failed
) -> None:
    for world in (answering(), submitting()):
        assert stopped(cancelled(world, reason), 2).state.phase == ending


def test_an_earlier_check_acknowledges_and_the_child_is_still_cancelled() -> None:
    world = cancelled(answering()).after(AnswerChecked(2, CORRECTION, WARNING))
    assert world.effects == (NotifyParent(Cancelled(CancelReason.USER, "found")),)


def test_a_check_with_another_effect_is_rejected() -> None:
    world = answering()
    for wrong in (AnswerChecked(only(world) - 1), AnswerChecked(only(world) + 1)):
        with pytest.raises(InvalidTransition, match="is not outstanding"):
            world.after(wrong)
