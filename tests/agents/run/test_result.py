"""The exact tool results that the outcomes of sub-agents become."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.event import CallStatus
from deputy_agents.domain.message import ToolResult
from deputy_agents.domain.outcome import Cancelled, CancelReason, Completed, Ending, Failed, FailureReason, Outcome
from deputy_agents.domain.result_style import ResultStyle, Template
from deputy_agents.run.result import CUT, aggregate, delegation_result, fair_length
from deputy_agents.run.state import Children, Done

LIMIT = 1000
USER = Cancelled(CancelReason.USER, "so far")


def bare(ending: Ending, style: ResultStyle = "bare") -> Done:
    return delegation_result("call", Children(("a",), (), (Outcome("a", ending, "its task"),), style), LIMIT)


@pytest.mark.requirement("C1")
def test_a_bare_result_is_the_answer_alone() -> None:
    assert bare(Completed("found\nit")) == Done(ToolResult("call", "found\nit"), CallStatus.COMPLETED)


@pytest.mark.parametrize("reason", FailureReason)
def test_a_bare_failure_names_its_reason(reason: FailureReason) -> None:
    text = f"Sub-agent failed ({reason.value}): it broke"
    assert bare(Failed(reason, "it broke")) == Done(ToolResult("call", text, is_error=True), CallStatus.FAILED)


def test_the_partial_result_of_a_failed_child_follows_after_a_blank_line() -> None:
    text = "Sub-agent failed (timed_out): too long\n\nso far"
    assert bare(Failed(FailureReason.TIMED_OUT, "too long", "so far")).result.content == text


@pytest.mark.requirement("C5")
def test_the_result_of_a_child_that_the_user_cancelled_is_exactly_one_sentence() -> None:
    result = ToolResult("call", "Sub-agent cancelled by user.", is_error=True)
    assert bare(USER) == Done(result, CallStatus.CANCELLED)


@pytest.mark.parametrize("by", [by for by in CancelReason if by is not CancelReason.USER])
def test_the_result_of_a_child_cancelled_with_its_parent_names_the_parent(by: CancelReason) -> None:
    result = ToolResult("call", "Sub-agent cancelled: parent cancelled.", is_error=True)
    assert bare(Cancelled(by, "so far")) == Done(result, CallStatus.CANCELLED)


@pytest.mark.requirement("B1")
def test_a_template_puts_the_answer_in_its_place() -> None:
    style = Template('{"by": "{agent_id}", "found": "{result}"}')
    text = '{"by": "a", "found": "all {result}s"}'
    assert bare(Completed("all {result}s"), style) == Done(ToolResult("call", text), CallStatus.COMPLETED)


@pytest.mark.parametrize("ending", [USER, Failed(FailureReason.TIMED_OUT, "too long", "so far")])
def test_a_template_is_not_used_for_a_failure(ending: Ending) -> None:
    assert bare(ending, Template("Found: {result}")) == bare(ending)


def test_an_aggregate_lists_every_child_in_the_order_of_the_tasks_with_a_typed_outcome() -> None:
    failed = Failed(FailureReason.SUB_AGENT_ERROR, "no such file", "so far")
    completed = (
        Outcome("c", USER, "third"),
        Outcome("a", Completed("gefunden ✓"), "first"),
        Outcome("b", failed, "second"),
    )
    done = delegation_result("call", Children(("a", "b", "c"), (), completed, "aggregate"), LIMIT)
    assert json.loads(done.result.content) == {
        "sub_agent_results": [
            {"agent_id": "a", "task": "first", "outcome": {"success": {"result": "gefunden ✓"}}},
            {
                "agent_id": "b",
                "task": "second",
                "outcome": {"failure": {"error": "no such file\n\nso far", "error_kind": "sub_agent_error"}},
            },
            {
                "agent_id": "c",
                "task": "third",
                "outcome": {"failure": {"error": "Sub-agent cancelled by user.", "error_kind": "cancelled"}},
            },
        ]
    }
    assert (done.result.tool_use_id, done.result.is_error, done.status) == ("call", False, CallStatus.COMPLETED)


def test_an_aggregate_keeps_non_ascii_text_readable() -> None:
    text = '{"sub_agent_results": [{"agent_id": "a", "task": "süß", "outcome": {"success": {"result": "ja"}}}]}'
    assert aggregate([Outcome("a", Completed("ja"), "süß")], LIMIT) == text


def test_an_aggregate_that_is_too_long_cuts_the_longest_texts_and_names_the_tool_to_read_on() -> None:
    outcomes = [
        Outcome("a", Completed("x" * 500), "its task"),
        Outcome("b", Failed(FailureReason.TIMED_OUT, "too long", "ß" * 200), "t" * 300),
        Outcome("c", Completed("short"), "another"),
    ]
    entries = json.loads(aggregate(outcomes, 360))["sub_agent_results"]
    assert [entry["task"] for entry in entries] == ["its task", "t" * 113 + "…", "another"]
    assert entries[0]["outcome"] == {"success": {"result": "x" * 113 + f"\n{CUT}"}}
    partial = "ß" * ((113 - len("too long\n\n")) // 2)
    assert entries[1]["outcome"]["failure"]["error"] == f"too long\n\n{partial}\n{CUT}"
    assert entries[2]["outcome"] == {"success": {"result": "short"}}


@given(st.lists(st.integers(0, 50), max_size=8), st.integers(0, 200))
def test_a_fair_length_uses_the_limit_and_never_more(sizes: list[int], limit: int) -> None:
    def cut_to(length: int) -> int:
        return sum(min(size, length) for size in sizes)

    length = fair_length(sizes, limit)
    assert cut_to(length) <= limit or length == 0
    assert cut_to(length) == sum(sizes) or cut_to(length + 1) > limit
