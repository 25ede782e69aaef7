"""The calls of one reply: decisions, order of execution, results and children."""

import pytest

from deputy_agents.domain.errors import InvalidTransition
from deputy_agents.domain.event import CallStatus
from deputy_agents.domain.message import Image, Message, ToolResult
from deputy_agents.domain.outcome import Cancelled, CancelReason, Completed, Failed, FailureReason
from deputy_agents.run.effect import (
    AppendMessage,
    CallAllowed,
    CallDenied,
    CallNeedsApproval,
    CallsDecided,
    ChildrenStarted,
    Notice,
    PermissionAnswered,
    ReportCall,
    RequestModel,
    RequestPermission,
    RunTool,
    StartChildren,
    Steered,
    ToolCompleted,
)
from deputy_agents.run.state import AwaitingSubAgents, Children, LlmRequesting, NotStarted, Running, ToolExecuting
from tests.support.machine import World
from tests.support.steps import (
    answered,
    calling,
    completed,
    decided,
    delegated,
    effect_for,
    ends,
    only,
    primary,
    progress,
    replies,
    results,
    started,
    use,
)

ASK, ALLOW, DENY = CallNeedsApproval(), CallAllowed(), CallDenied("Denied by the user.")


# -- decided -----------------------------------------------------------------------------------------------------


def test_an_allowed_call_runs() -> None:
    world = calling(primary(), "edit1")
    assert world.effects == (ReportCall(use("edit1"), CallStatus.IN_PROGRESS), RunTool(3, use("edit1")))
    assert progress(world, "edit1") == Running(3)


@pytest.mark.requirement("X13")
def test_a_denied_call_gets_a_result_without_running() -> None:
    world = calling(primary(), "edit1", edit1=DENY)
    result = ToolResult("edit1", "Denied by the user.", is_error=True)
    assert world.effects == (
        ReportCall(use("edit1"), CallStatus.FAILED, "Denied by the user."),
        AppendMessage(Message("user", (result,)), ""),
        RequestModel(3, 1),
    )


def test_all_permission_requests_of_a_reply_are_made_at_once_and_in_order() -> None:
    world = calling(primary(), "edit1", "look2", "edit3", edit1=ASK, edit3=ASK)
    assert [effect for effect in world.effects if isinstance(effect, RequestPermission)] == [
        RequestPermission(3, use("edit1")),
        RequestPermission(4, use("edit3")),
    ]


def test_a_call_runs_after_the_user_allows_it() -> None:
    world = calling(primary(), "edit1", edit1=ASK)
    assert started(world) == []
    assert started(answered(world, "edit1", ALLOW)) == ["edit1"]


def test_a_call_runs_with_the_input_that_the_user_edited() -> None:
    world = answered(calling(primary(), "edit1", edit1=ASK), "edit1", CallAllowed({"path": "other.py"}))
    assert world.effects[-1] == RunTool(4, use("edit1", path="other.py"))


@pytest.mark.requirement("X13")
def test_the_result_of_a_call_is_the_denial_of_the_user() -> None:
    world = answered(calling(primary(), "edit1", edit1=ASK), "edit1", DENY)
    assert results(world) == {"edit1": "Denied by the user."}


@pytest.mark.parametrize("decisions", [{}, {"look1": ALLOW}, {"look1": ALLOW, "look2": ALLOW, "look3": ALLOW}])
def test_decisions_must_match_the_calls(decisions: dict[str, CallAllowed]) -> None:
    world = replies(primary(), use("look1"), use("look2"))
    with pytest.raises(InvalidTransition, match="the decisions do not match the calls"):
        world.after(CallsDecided(only(world), decisions))


def test_calls_are_decided_once() -> None:
    world = calling(primary(), "edit1")
    with pytest.raises(InvalidTransition, match="effect 2 is not outstanding"):
        world.after(CallsDecided(2, {"edit1": ALLOW}))


# -- run ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("C4")
def test_concurrent_calls_run_together() -> None:
    assert started(calling(primary(), "look1", "look2", "peek3")) == ["look1", "look2", "peek3"]


def test_exclusive_calls_run_one_after_another_in_order() -> None:
    world = calling(primary(), "edit1", "write2", "edit3")
    assert started(world) == ["edit1"]
    world = completed(world, "edit1")
    assert started(world) == ["write2"]
    assert started(completed(world, "write2")) == ["edit3"]


def test_an_exclusive_call_waits_for_earlier_calls_and_blocks_later_ones() -> None:
    world = calling(primary(), "look1", "look2", "edit3", "look4", "look5")
    assert started(world) == ["look1", "look2"]
    world = completed(world, "look2")
    assert started(world) == []
    world = completed(world, "look1")
    assert started(world) == ["edit3"]
    assert started(completed(world, "edit3")) == ["look4", "look5"]


def test_a_call_that_waits_for_the_user_keeps_its_position() -> None:
    world = calling(primary(), "look1", "edit2", "look3", edit2=ASK)
    assert started(world) == ["look1"]
    assert progress(world, "look3") == NotStarted(ready=True)
    assert started(answered(world, "edit2", DENY)) == ["look3"]


def test_delegation_calls_start_at_once_and_block_no_other_call() -> None:
    world = calling(primary(), "edit1", "ask2", "edit3", "ask4")
    assert started(world) == ["edit1", "ask2", "ask4"]
    assert started(completed(world, "edit1")) == ["edit3"]


@pytest.mark.requirement("C4")
@pytest.mark.requirement("X13")
def test_results_are_in_the_order_of_the_calls_whatever_the_order_of_completion() -> None:
    world = delegated(calling(primary(), "ask1", "look2", "look3"), "ask1", "a")
    world = ends(completed(completed(world, "look3", "three"), "look2", "two"), "a", Completed("one"))
    assert results(world) == {"ask1": "one", "look2": "two", "look3": "three"}
    assert list(results(world)) == ["ask1", "look2", "look3"]
    assert isinstance(world.state.phase, LlmRequesting)


def test_the_model_is_not_requested_before_the_last_result() -> None:
    world = completed(calling(primary(), "look1", "look2"), "look1")
    assert world.effects == (ReportCall(use("look1"), CallStatus.COMPLETED, "ok"),)
    assert isinstance(world.state.phase, ToolExecuting)


def test_an_error_and_images_of_a_tool_reach_the_model() -> None:
    world = calling(primary(), "look1", "look2")
    world = completed(world, "look1", "no such file", is_error=True)
    assert world.effects == (ReportCall(use("look1"), CallStatus.FAILED, "no such file"),)
    image = Image("image/png", "AAAA")
    world = world.after(ToolCompleted(effect_for(world, "look2"), "an image", images=(image,)))
    assert world.history[-1].content == (
        ToolResult("look1", "no such file", is_error=True),
        ToolResult("look2", "an image", images=(image,)),
    )


def test_a_tool_completes_once() -> None:
    world = calling(primary(), "look1", "look2")
    effect = effect_for(world, "look1")
    with pytest.raises(InvalidTransition, match=f"effect {effect} is not outstanding"):
        completed(world, "look1").after(ToolCompleted(effect, "again"))


def test_a_permission_request_is_answered_once() -> None:
    world = calling(primary(), "edit1", "edit2", edit1=ASK, edit2=ASK)
    effect = effect_for(world, "edit1")
    with pytest.raises(InvalidTransition, match=f"effect {effect} is not outstanding"):
        answered(world, "edit1", ALLOW).after(PermissionAnswered(effect, DENY))


# -- children ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("A3")
def test_a_delegation_call_starts_its_children_and_waits_for_them() -> None:
    world = calling(primary(), "ask_all1")
    assert world.effects[-1] == StartChildren(3, use("ask_all1"))
    world = delegated(world, "ask_all1", "a", "b", style="aggregate")
    assert world.effects == ()
    assert isinstance(world.state.phase, AwaitingSubAgents)
    assert progress(world, "ask_all1") == Children(("a", "b"), ("a", "b"), style="aggregate")


def test_the_phase_is_awaiting_sub_agents_only_while_all_open_calls_wait_for_children() -> None:
    world = delegated(calling(primary(), "look1", "ask2"), "ask2", "a")
    assert isinstance(world.state.phase, ToolExecuting)
    assert isinstance(completed(world, "look1").state.phase, AwaitingSubAgents)


def test_after_a_denial_only_the_children_are_awaited() -> None:
    world = delegated(calling(primary(), "edit1", "ask2", edit1=ASK), "ask2", "a")
    assert isinstance(answered(world, "edit1", DENY).state.phase, AwaitingSubAgents)


@pytest.mark.requirement("D2")
def test_children_end_one_by_one_and_the_last_one_completes_the_call() -> None:
    world = delegated(calling(primary(), "ask_all1"), "ask_all1", "a", "b", style="aggregate")
    world = ends(world, "b", Completed("two"))
    children = progress(world, "ask_all1")
    assert isinstance(children, Children)
    assert (children.pending, [outcome.agent_id for outcome in children.completed]) == (("a",), ["b"])
    world = ends(world, "a", Failed(FailureReason.TIMED_OUT, "too long"))
    assert isinstance(world.state.phase, LlmRequesting)
    assert list(results(world)) == ["ask_all1"]


@pytest.mark.requirement("C2")
def test_the_history_of_the_parent_contains_only_the_result_of_a_child() -> None:
    world = ends(delegated(calling(primary(), "ask1"), "ask1", "a"), "a", Completed("found"))
    assert world.history[-1] == Message("user", (ToolResult("ask1", "found"),))


def test_a_failed_child_leaves_the_others_running() -> None:
    world = delegated(delegated(calling(primary(), "ask1", "ask2"), "ask1", "a"), "ask2", "b")
    world = ends(world, "a", Failed(FailureReason.MODEL_ERROR, "it broke"))
    assert isinstance(world.state.phase, AwaitingSubAgents)
    assert world.children == {"b"}
    assert results(ends(world, "b")) == {"ask1": "Sub-agent failed (model_error): it broke", "ask2": "found"}


@pytest.mark.requirement("C5")
def test_a_child_that_the_user_cancels_leaves_the_others_running() -> None:
    world = delegated(delegated(calling(primary(), "ask1", "ask2"), "ask1", "a"), "ask2", "b")
    world = ends(world, "a", Cancelled(CancelReason.USER))
    assert world.effects == (ReportCall(use("ask1"), CallStatus.CANCELLED, "Sub-agent cancelled by user."),)
    assert world.children == {"b"}


def test_a_delegation_call_that_does_not_wait_gets_its_result_at_once() -> None:
    world = calling(primary(), "ask1")
    world = world.after(ChildrenStarted(only(world), "ask1", ("a",), immediate="Started."))
    assert results(world) == {"ask1": "Started."}
    assert isinstance(world.state.phase, LlmRequesting)


def test_a_delegation_call_that_cannot_start_its_children_gets_the_error() -> None:
    world = completed(calling(primary(), "ask1"), "ask1", "The queue is full.", is_error=True)
    assert world.history[-1] == Message("user", (ToolResult("ask1", "The queue is full.", is_error=True),))


def starting(world: World, call: str, tool_use_id: str, *agent_ids: str) -> ChildrenStarted:
    return ChildrenStarted(effect_for(world, call), tool_use_id, agent_ids)


@pytest.mark.requirement("D2")
def test_a_delegation_call_accepts_only_its_own_children() -> None:
    world = delegated(calling(primary(), "ask1", "ask2", "look3"), "ask1", "a")
    for wrong in (
        starting(world, "ask2", "ask1", "b"),
        starting(world, "ask2", "ask2"),
        starting(world, "ask2", "ask2", "b", "b"),
        starting(world, "ask2", "ask2", "a"),
        starting(world, "ask2", "ask2", "b", "c"),
        starting(world, "look3", "look3", "b"),
    ):
        with pytest.raises(InvalidTransition):
            world.after(wrong)


@pytest.mark.requirement("D2")
@pytest.mark.parametrize("unknown", ["a", "nobody"], ids=["ended", "unknown"])
def test_the_result_of_a_child_that_no_call_waits_for_is_rejected(unknown: str) -> None:
    world = ends(delegated(calling(primary(), "ask_all1"), "ask_all1", "a", "b", style="aggregate"), "a")
    with pytest.raises(InvalidTransition, match=f"no call waits for agent {unknown}"):
        ends(world, unknown)


def test_notes_are_accepted_while_children_run() -> None:
    world = delegated(calling(primary(), "ask1"), "ask1", "a").after(Notice("ended")).after(Steered("and this"))
    assert isinstance(world.state.phase, AwaitingSubAgents)
    assert [note.text for note in world.state.notes] == ["ended", "and this"]


def test_at_the_limit_the_last_child_ends_the_turn() -> None:
    world = ends(delegated(calling(primary(max_iterations=1), "ask1"), "ask1", "a"), "a")
    assert world.at_rest


def test_no_call_runs_before_the_gate_has_decided() -> None:
    world = replies(primary(), use("look1"), use("ask2"))
    assert started(world) == []
    assert started(decided(world)) == ["look1", "ask2"]
