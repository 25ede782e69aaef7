"""The fold from events to the view of a terminal."""

from functools import reduce

import pytest

from deputy_protocol.agent import AgentStatus
from deputy_protocol.event import Event, EventParams
from deputy_protocol.tool import ToolStatus
from deputy_server.terminal.view import (
    AgentBlock,
    MessageItem,
    ToolCallItem,
    View,
    context_gauge,
    counts,
    fold,
    status_line,
)
from tests.server.terminal import events as make


def folded(*raw: dict[str, object], onto: View | None = None) -> View:
    events: list[Event] = [EventParams.model_validate(event).root for event in raw]
    return reduce(fold, events, onto or View())


def test_block_replaces_the_delegation_tool_call() -> None:
    view = folded(
        make.primary(),
        make.call("p", "call-1", "spawn_agent(find callers)"),
        make.call("p", "call-2", "spawn_agent(find tests)"),
        make.started("c2", "find tests", call="call-2"),
        make.started("c1", "find callers", call="call-1"),
    )
    assert [item.label if isinstance(item, AgentBlock) else item for item in view.items.values()] == [
        "find callers",
        "find tests",
    ]


def test_all_sub_agents_of_one_call_have_blocks() -> None:
    view = folded(
        make.primary(),
        make.call("p", "call", "spawn_agents(2 tasks)"),
        make.started("c1", "one", call="call"),
        make.started("c2", "two", call="call"),
    )
    assert [block.label for block in view.blocks] == ["one", "two"]


def test_block_follows_its_agent_from_queue_to_end() -> None:
    started = folded(make.primary(), make.started("c", "read it", status="pending", queue=2))
    (queued,) = started.blocks
    assert (queued.status, queued.queue_position) == (AgentStatus.PENDING, 2)

    (running,) = folded(make.status("c", "running", at=5), onto=started).blocks
    assert (running.status, running.queue_position, running.started) == (AgentStatus.RUNNING, None, make.at(5))

    (ended,) = folded(
        make.status("c", "running", at=5),
        make.activity("c", "reading", 1),
        make.call("c", "t1", "[read it] read_file(a.py)"),
        make.update("c", "t1", "completed"),
        make.finished("c", "failed", at=9, reason="timed_out", error="too slow", calls=1, tokens=1200),
        onto=started,
    ).blocks
    assert ended == AgentBlock(
        agent_id="c",
        run=1,
        label="read it",
        definition="general",
        depth=1,
        status=AgentStatus.FAILED,
        started=make.at(5),
        ended=make.at(9),
        calls=(ToolCallItem("t1", "read_file(a.py)", ToolStatus.COMPLETED),),
        call_count=1,
        tokens=1200,
        result="partial",
        error="too slow",
        reason=ended.reason,
    )
    assert ended.reason == "timed_out"


def test_reason_for_waiting_is_cleared_when_the_agent_continues() -> None:
    why = "rate limited, retrying in 4 s (2/8)"
    waiting = folded(
        make.primary(),
        make.started("c", "x"),
        make.status("c", "running", detail=why),
        make.status("p", "running", detail=why),
    )
    assert (waiting.waiting_for, waiting.blocks[0].waiting_for) == (why, why)
    continued = folded(make.status("c", "running"), make.status("p", "running"), onto=waiting)
    assert (continued.waiting_for, continued.blocks[0].waiting_for) == ("", "")


def test_title_of_a_search_has_its_pattern_and_places() -> None:
    view = folded(
        make.primary(),
        make.started("c", "x"),
        make.call("c", "1", "[x] grep((?i)(errors|faults) in src)", pattern="(?i)(errors|faults)", path="src"),
        make.call("c", "2", "[x] grep(retry)", pattern="retry", path=".", glob="*.md"),
        make.call("p", "3", "grep(retry)", pattern="retry"),
    )
    titles = [call.title for call in view.blocks[0].calls]
    assert titles == ["grep(errors|faults in src)", "grep(retry in *.md)"]
    assert view.items["3"] == ToolCallItem("3", "grep(retry)", ToolStatus.IN_PROGRESS)


def test_resumed_sub_agent_gets_a_new_block() -> None:
    view = folded(
        make.primary(), make.started("c", "x"), make.finished("c", "completed"), make.started("c", "x", run=2)
    )
    assert [(block.run, block.finished) for block in view.blocks] == [(1, True), (2, False)]
    assert counts(view).running == 1


def test_complete_message_replaces_its_deltas() -> None:
    parts = folded(make.primary(), make.delta("p", "m", "Hel"), make.delta("p", "m", "lo"))
    assert list(parts.items.values()) == [MessageItem("m", "Hello", complete=False)]
    complete = folded(make.message("p", "m", "Hello there"), onto=parts)
    assert list(complete.items.values()) == [MessageItem("m", "Hello there", complete=True)]


def test_messages_of_sub_agents_and_of_the_user_are_not_items() -> None:
    view = folded(
        make.primary(),
        make.message("p", "u", "a prompt", role="user"),
        make.started("c", "x"),
        make.delta("c", "m", "text of the child"),
    )
    assert [type(item) for item in view.items.values()] == [AgentBlock]


def test_open_permission_request_marks_the_block_until_it_is_settled() -> None:
    open_request = folded(make.primary(), make.started("c", "x"), make.permission_requested("c", "q"))
    assert open_request.blocks[0].permission_requests == {"q"}
    assert status_line(open_request) == "Agents: 1 primary, 1 running, 0 finished · 1 waiting for you"

    settled = folded(make.permission_resolved("c", "q"), onto=open_request)
    assert settled.blocks[0].permission_requests == frozenset()
    assert status_line(settled) == "Agents: 1 primary, 1 running, 0 finished"


def test_permission_request_of_the_primary_agent_is_counted() -> None:
    assert counts(folded(make.primary(), make.permission_requested("p", "q"))).permission_requests == 1


def test_event_that_changes_nothing_returns_the_same_view() -> None:
    view = folded(make.primary())
    assert folded(make.turn_started(), onto=view) is view


@pytest.mark.parametrize(
    "event", [make.status("x", "running"), make.activity("x", "y", 1), make.update("x", "t", "failed")]
)
def test_event_of_an_unknown_agent_is_ignored(event: dict[str, object]) -> None:
    view = folded(make.primary())
    assert folded(event, onto=view) is view


@pytest.mark.requirement("M7")
@pytest.mark.parametrize(("used", "shown"), [(0, ""), (999, ""), (1000, "context 1 %"), (84_000, "context 84 %")])
def test_gauge_shows_how_full_the_context_window_is(used: int, shown: str) -> None:
    view = folded(make.primary(), make.usage("p", context={"used": used, "window": 100_000}))
    assert context_gauge(view) == shown
    assert context_gauge(folded(make.usage("p"), onto=view)) == shown
