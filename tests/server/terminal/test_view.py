"""The fold from events to what the demo shows."""

from functools import reduce

import pytest

from deputy_protocol.agent import AgentStatus
from deputy_protocol.event import Event, EventParams
from deputy_protocol.tool import ToolStatus
from deputy_server.terminal.view import Block, Call, Said, View, counts, fold, status_line
from tests.server.terminal import events as make


def folded(*raw: dict[str, object], onto: View | None = None) -> View:
    events: list[Event] = [EventParams.model_validate(event).root for event in raw]
    return reduce(fold, events, onto or View())


def test_a_childs_block_takes_the_place_of_the_tool_call_that_it_came_from() -> None:
    view = folded(
        make.primary(),
        make.call("p", "door-1", "spawn_agent(find callers)"),
        make.call("p", "door-2", "spawn_agent(find tests)"),
        make.started("c2", "find tests", door="door-2"),
        make.started("c1", "find callers", door="door-1"),
    )
    assert [item.label if isinstance(item, Block) else item for item in view.items.values()] == [
        "find callers",
        "find tests",
    ]


def test_children_of_one_call_stand_side_by_side() -> None:
    view = folded(
        make.primary(),
        make.call("p", "door", "spawn_agents(2 tasks)"),
        make.started("c1", "one", door="door"),
        make.started("c2", "two", door="door"),
    )
    assert [block.label for block in view.blocks] == ["one", "two"]


def test_a_block_follows_its_child_from_queue_to_end() -> None:
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
    assert ended == Block(
        agent_id="c",
        run=1,
        label="read it",
        definition="general",
        depth=1,
        status=AgentStatus.FAILED,
        started=make.at(5),
        ended=make.at(9),
        calls=(Call("t1", "read_file(a.py)", ToolStatus.COMPLETED),),
        call_count=1,
        tokens=1200,
        result="partial",
        error="too slow",
        reason=ended.reason,
    )
    assert ended.reason == "timed_out"


def test_why_an_agent_waits_is_known_until_it_gets_on() -> None:
    why = "rate limited, retrying in 4 s (2/8)"
    waiting = folded(
        make.primary(),
        make.started("c", "x"),
        make.status("c", "running", detail=why),
        make.status("p", "running", detail=why),
    )
    assert (waiting.wait, waiting.blocks[0].wait) == (why, why)
    going_on = folded(make.status("c", "running"), make.status("p", "running"), onto=waiting)
    assert (going_on.wait, going_on.blocks[0].wait) == ("", "")


def test_a_search_is_told_by_what_is_sought_where() -> None:
    view = folded(
        make.primary(),
        make.started("c", "x"),
        make.call("c", "1", "[x] grep((?i)(errors|faults) in src)", pattern="(?i)(errors|faults)", path="src"),
        make.call("c", "2", "[x] grep(retry)", pattern="retry", path=".", glob="*.md"),
        make.call("p", "3", "grep(retry)", pattern="retry"),
    )
    titles = [call.title for call in view.blocks[0].calls]
    assert titles == ["grep(errors|faults in src)", "grep(retry in *.md)"]
    assert view.items["3"] == Call("3", "grep(retry)", ToolStatus.IN_PROGRESS)


def test_a_continued_child_gets_a_block_of_its_own() -> None:
    view = folded(
        make.primary(), make.started("c", "x"), make.finished("c", "completed"), make.started("c", "x", run=2)
    )
    assert [(block.run, block.settled) for block in view.blocks] == [(1, True), (2, False)]
    assert counts(view).running == 1


def test_deltas_add_up_and_the_whole_message_replaces_them() -> None:
    parts = folded(make.primary(), make.delta("p", "m", "Hel"), make.delta("p", "m", "lo"))
    assert list(parts.items.values()) == [Said("m", "Hello", whole=False)]
    whole = folded(make.message("p", "m", "Hello there"), onto=parts)
    assert list(whole.items.values()) == [Said("m", "Hello there", whole=True)]


def test_what_children_say_and_what_the_user_said_is_no_item() -> None:
    view = folded(
        make.primary(),
        make.message("p", "u", "a prompt", role="user"),
        make.started("c", "x"),
        make.delta("c", "m", "text of the child"),
    )
    assert [type(item) for item in view.items.values()] == [Block]


def test_an_open_permission_request_marks_the_block_of_the_agent_that_asks_until_it_is_settled() -> None:
    asking = folded(make.primary(), make.started("c", "x"), make.asked("c", "q"))
    assert asking.blocks[0].asking == {"q"}
    assert status_line(asking) == "Agents: 1 primary, 1 running, 0 finished · 1 waiting for you"

    settled = folded(make.resolved("c", "q"), onto=asking)
    assert settled.blocks[0].asking == frozenset()
    assert status_line(settled) == "Agents: 1 primary, 1 running, 0 finished"


def test_a_permission_request_of_the_primary_counts_as_well() -> None:
    assert counts(folded(make.primary(), make.asked("p", "q"))).asking == 1


def test_events_that_change_nothing_give_the_same_view_back() -> None:
    view = folded(make.primary())
    assert folded(make.turn_started(), onto=view) is view


@pytest.mark.parametrize(
    "event", [make.status("x", "running"), make.activity("x", "y", 1), make.update("x", "t", "failed")]
)
def test_an_event_of_an_agent_that_was_never_announced_is_no_harm(event: dict[str, object]) -> None:
    view = folded(make.primary())
    assert folded(event, onto=view) is view
