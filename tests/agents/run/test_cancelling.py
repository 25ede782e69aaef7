"""Cancels: everything is stopped, each effect and child acknowledges, and every call gets a result."""

import pytest

from deputy_agents.domain.errors import InvalidTransition
from deputy_agents.domain.event import CallStatus
from deputy_agents.domain.message import Message, StopReason, Thinking, ToolResult
from deputy_agents.domain.outcome import Cancelled, CancelReason, Completed, Failed, FailureReason, LimitReached
from deputy_agents.run.effect import (
    Abort,
    AnswerChecked,
    AppendMessage,
    CallAllowed,
    CallDenied,
    CallNeedsApproval,
    CallsDecided,
    CancelSubAgents,
    ChildrenStarted,
    FinishTurn,
    ModelFailed,
    ModelReplied,
    Notice,
    NotifyParent,
    ReportCall,
    RetryDue,
    Steered,
    Stopped,
)
from deputy_agents.run.state import Cancelling, Idle
from tests.support.machine import World, agent, user
from tests.support.steps import (
    answered,
    assistant,
    calling,
    cancelled,
    child,
    completed,
    delegated,
    effect_for,
    ends,
    fails,
    only,
    primary,
    replies,
    reply,
    results,
    stopped,
    use,
)

WITH_PARENT = "Sub-agent cancelled: parent cancelled."
RAN = "Interrupted: the turn was cancelled while this call ran; it may have taken effect in part."
ASKED = "Not run: interrupted while it waited for the user's approval; nobody denied it."
NOT_STARTED = "Not run: interrupted before it started."


# -- in each phase -----------------------------------------------------------------------------------------------


def test_a_model_request_is_aborted_and_its_shown_text_is_kept() -> None:
    world = cancelled(primary())
    assert world.effects == (Abort(frozenset({1})),)
    assert world.state.phase == Cancelling(CancelReason.USER, None, frozenset({1}))
    world = stopped(world, 1, assistant("Hel"))
    assert world.effects == (AppendMessage(assistant("Hel"), "Hel"), FinishTurn("cancelled"))
    assert world.state.phase == Idle()


def test_only_the_text_of_a_stopped_model_request_is_kept() -> None:
    world = stopped(cancelled(primary()), 1, assistant(Thinking("hm", "signed"), "Hel", use("edit1")))
    assert world.history[-1] == assistant("Hel")


def test_the_wait_before_a_retry_is_aborted() -> None:
    world = cancelled(fails(primary(), retryable=True))
    assert world.effects == (Abort(frozenset({2})),)
    assert stopped(world, 2).effects == (FinishTurn("cancelled"),)


def test_the_check_of_an_answer_is_aborted() -> None:
    world = cancelled(replies(child(check_answer=True), "found"))
    assert world.effects == (Abort(frozenset({2})),)
    assert world.state.phase == Cancelling(CancelReason.USER, None, frozenset({2}))
    assert stopped(world, 2).state.phase == Cancelled(CancelReason.USER, "found")


@pytest.mark.requirement("X10")
def test_a_turn_over_budget_ends_with_that_stop_reason() -> None:
    world = stopped(cancelled(calling(primary(), "edit1"), CancelReason.BUDGET), 3)
    assert results(world) == {"edit1": RAN}
    assert world.effects[-1] == FinishTurn("max_turn_requests")


@pytest.mark.requirement("X13")
def test_calls_that_are_being_decided_do_not_run() -> None:
    world = cancelled(replies(primary(), use("look1"), use("edit2")))
    assert world.effects == (Abort(frozenset({2})),)
    assert results(stopped(world, 2)) == {"look1": NOT_STARTED, "edit2": NOT_STARTED}


@pytest.mark.requirement("X13")
def test_the_result_of_each_interrupted_call_states_how_far_it_came() -> None:
    world = calling(primary(), "look1", "look2", "edit3", "write4", "ask5", edit3=CallNeedsApproval())
    world = cancelled(completed(world, "look1", "text"))
    assert world.effects == (Abort(frozenset(world.under_way)),)
    for effect in sorted(world.under_way):
        world = stopped(world, effect)
    assert results(world) == {
        "look1": "text",
        "look2": RAN,
        "edit3": ASKED,
        "write4": NOT_STARTED,
        "ask5": WITH_PARENT,
    }
    assert ReportCall(use("look2"), CallStatus.CANCELLED, RAN) in world.effects
    assert world.effects[-1] == FinishTurn("cancelled")


@pytest.mark.requirement("D6")
def test_every_awaited_child_is_cancelled_and_after_the_last_one_the_parent_is_idle() -> None:
    world = delegated(calling(primary(), "ask_all1"), "ask_all1", "a", "b", style="aggregate")
    world = cancelled(world)
    assert world.effects == (CancelSubAgents(("a", "b"), CancelReason.PARENT),)
    world = ends(world, "b", Cancelled(CancelReason.PARENT))
    assert isinstance(world.state.phase, Cancelling)
    world = ends(world, "a", Cancelled(CancelReason.PARENT))
    assert world.state.phase == Idle()
    assert world.effects[-1] == FinishTurn("cancelled")


@pytest.mark.requirement("D6")
def test_the_result_of_a_delegation_call_names_the_cancelled_parent() -> None:
    world = cancelled(delegated(calling(primary(), "ask1"), "ask1", "a"))
    world = ends(world, "a", Cancelled(CancelReason.PARENT))
    assert world.history[-1] == Message("user", (ToolResult("ask1", WITH_PARENT, is_error=True),))


def test_only_children_that_still_run_are_cancelled() -> None:
    world = ends(delegated(calling(primary(), "ask_all1"), "ask_all1", "a", "b", style="aggregate"), "a")
    assert cancelled(world).effects == (CancelSubAgents(("b",), CancelReason.PARENT),)


def test_tools_and_children_stop_together() -> None:
    world = delegated(calling(primary(), "edit1", "ask2"), "ask2", "a")
    world = cancelled(world)
    assert world.effects == (Abort(frozenset({3})), CancelSubAgents(("a",), CancelReason.PARENT))
    world = stopped(world, 3)
    assert isinstance(world.state.phase, Cancelling)
    assert ends(world, "a", Cancelled(CancelReason.PARENT)).state.phase == Idle()


def test_children_are_shut_down_with_their_parent() -> None:
    world = cancelled(delegated(calling(primary(), "ask1"), "ask1", "a"), CancelReason.SHUTDOWN)
    assert world.effects == (CancelSubAgents(("a",), CancelReason.SHUTDOWN),)


def test_the_primary_has_nothing_to_cancel_between_turns() -> None:
    with pytest.raises(InvalidTransition, match="no turn to cancel"):
        cancelled(World())


def test_the_next_turn_starts_with_a_complete_history() -> None:
    world = stopped(cancelled(calling(primary(), "edit1")), 3).after(user("again"))
    assert [message.role for message in world.history] == ["user", "assistant", "user", "user"]


# -- a child -----------------------------------------------------------------------------------------------------


def test_a_child_can_be_cancelled_before_it_starts() -> None:
    world = cancelled(World(agent(child=True)))
    assert world.state.phase == Cancelled(CancelReason.USER)
    assert world.effects == (NotifyParent(Cancelled(CancelReason.USER)),)


@pytest.mark.parametrize("reason", [CancelReason.USER, CancelReason.PARENT, CancelReason.SHUTDOWN])
def test_the_ending_of_a_cancelled_child_has_the_reason_and_its_last_text(reason: CancelReason) -> None:
    world = stopped(cancelled(child(), reason), 1, assistant("Hel"))
    assert world.state.phase == Cancelled(reason, "Hel")
    assert world.effects[-1] == NotifyParent(Cancelled(reason, "Hel"))


@pytest.mark.parametrize(
    ("reason", "limit", "ending"),
    [
        (CancelReason.TIMEOUT, None, Failed(FailureReason.TIMED_OUT, "it ran past its time limit")),
        (CancelReason.TIMEOUT, LimitReached("after 3 s"), Failed(FailureReason.TIMED_OUT, "after 3 s")),
        (CancelReason.BUDGET, None, Failed(FailureReason.BUDGET_EXCEEDED, "its budget is used up")),
        (CancelReason.BUDGET, LimitReached("1 token", "t"), Failed(FailureReason.BUDGET_EXCEEDED, "1 token (t)")),
    ],
)
def test_a_child_that_exceeds_a_limit_fails(reason: CancelReason, limit: LimitReached | None, ending: Failed) -> None:
    assert stopped(cancelled(child(), reason, limit), 1).state.phase == ending
    assert cancelled(World(agent(child=True)), reason, limit).state.phase == ending


def test_a_child_that_times_out_keeps_its_last_text() -> None:
    world = replies(child(), "I look", use("look1"), stop=StopReason.TOOL_USE)
    world = stopped(cancelled(world, CancelReason.TIMEOUT), 2)
    assert world.state.phase == Failed(FailureReason.TIMED_OUT, "it ran past its time limit", "I look")


# -- while it stops ----------------------------------------------------------------------------------------------


def test_a_second_cancel_changes_nothing() -> None:
    world = cancelled(calling(primary(), "edit1"))
    again = cancelled(world, CancelReason.SHUTDOWN)
    assert again.state == world.state
    assert again.effects == ()


def test_notes_during_a_cancel_wait_for_the_next_prompt() -> None:
    world = cancelled(primary()).after(Notice("ended")).after(Steered("and this"))
    world = stopped(world, 1)
    assert [note.text for note in world.state.notes] == ["ended", "and this"]


def test_an_earlier_reply_acknowledges_and_its_calls_do_not_run() -> None:
    world = cancelled(primary()).after(ModelReplied(1, reply("hello", use("edit1"))))
    assert world.effects == (AppendMessage(assistant("hello"), "hello"), FinishTurn("cancelled"))


def test_an_earlier_failure_acknowledges() -> None:
    world = cancelled(primary()).after(ModelFailed(1, "server", "it broke", retryable=True, partial=assistant("Hel")))
    assert world.effects == (AppendMessage(assistant("Hel"), "Hel"), FinishTurn("cancelled"))


def test_an_earlier_retry_acknowledges() -> None:
    assert cancelled(fails(primary(), retryable=True)).after(RetryDue(2)).effects == (FinishTurn("cancelled"),)


def test_an_earlier_decision_acknowledges_and_nothing_runs() -> None:
    world = cancelled(replies(primary(), use("edit1"))).after(CallsDecided(2, {"edit1": CallAllowed()}))
    assert results(world) == {"edit1": NOT_STARTED}


@pytest.mark.parametrize(
    ("decision", "result"), [(CallAllowed(), NOT_STARTED), (CallDenied("Denied by the user."), "Denied by the user.")]
)
def test_an_earlier_permission_answer_counts_and_nothing_runs(decision: CallAllowed | CallDenied, result: str) -> None:
    world = cancelled(calling(primary(), "edit1", edit1=CallNeedsApproval()))
    assert results(answered(world, "edit1", decision)) == {"edit1": result}


def test_an_earlier_tool_result_acknowledges_and_is_kept() -> None:
    world = completed(cancelled(calling(primary(), "edit1")), "edit1", "edited")
    assert world.history[-1] == Message("user", (ToolResult("edit1", "edited"),))
    assert world.state.phase == Idle()


@pytest.mark.requirement("D6")
def test_a_child_that_ends_by_itself_acknowledges_and_its_result_is_kept() -> None:
    world = ends(cancelled(delegated(calling(primary(), "ask1"), "ask1", "a")), "a", Completed("found"))
    assert results(world) == {"ask1": "found"}


def test_children_that_start_late_are_cancelled_and_awaited() -> None:
    world = delegated(cancelled(calling(primary(), "ask1")), "ask1", "a")
    assert world.effects == (CancelSubAgents(("a",), CancelReason.PARENT),)
    assert isinstance(world.state.phase, Cancelling)
    assert ends(world, "a", Cancelled(CancelReason.PARENT)).state.phase == Idle()


def test_background_children_that_start_late_are_not_awaited() -> None:
    world = cancelled(calling(primary(), "ask1"))
    world = world.after(ChildrenStarted(effect_for(world, "ask1"), "ask1", ("a",), immediate="Started."))
    assert results(world) == {"ask1": "Started."}


def test_an_effect_acknowledges_once() -> None:
    world = stopped(cancelled(calling(primary(), "look1", "look2")), 3)
    with pytest.raises(InvalidTransition, match="effect 3 is not outstanding"):
        stopped(world, 3)


def test_an_acknowledgement_of_another_effect_is_rejected() -> None:
    world = cancelled(calling(primary(), "edit1"))
    for wrong in (
        Stopped(3, assistant("Hel")),
        ModelReplied(3, reply("hello")),
        ModelFailed(3, "server", "it broke"),
        RetryDue(3),
        AnswerChecked(3),
        CallsDecided(3, {"edit1": CallAllowed()}),
        ChildrenStarted(3, "edit1", ("a",)),
        Stopped(only(world) + 1),
    ):
        with pytest.raises(InvalidTransition):
            world.after(wrong)
