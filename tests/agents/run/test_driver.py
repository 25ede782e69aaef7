"""The driver: late answers, published calls, and model requests."""

import asyncio
import logging
from pathlib import Path

import pytest

from deputy_agents.definition.loader import built_in
from deputy_agents.domain.access import Access
from deputy_agents.domain.event import Activity, CallStatus, ToolCallStarted, ToolCallUpdated, ToolKind
from deputy_agents.domain.message import Text
from deputy_agents.domain.outcome import CancelReason, Completed
from deputy_agents.domain.settings import Root, Settings
from deputy_agents.model.scripted import call, calls, say, use
from deputy_agents.run.driver import Driver
from deputy_agents.run.effect import Stopped, ToolCompleted, UserCancel
from deputy_agents.run.system_prompt import system_prompt
from tests.support.core import BOUND, Cast, Pause, Person, core, delegate


@pytest.fixture
def drivers(monkeypatch: pytest.MonkeyPatch) -> list[Driver]:
    """Every driver in the order of creation; the primary's is the first."""
    created: list[Driver] = []
    init = Driver.__init__

    def recorded(self: Driver, *args: object, **kwargs: object) -> None:
        init(self, *args, **kwargs)  # pyright: ignore[reportArgumentType]
        created.append(self)

    monkeypatch.setattr(Driver, "__init__", recorded)
    return created


@pytest.mark.requirement("E6")
@pytest.mark.asyncio
async def test_late_answers_are_logged_and_change_nothing(
    workspace: Path, drivers: list[Driver], caplog: pytest.LogCaptureFixture
) -> None:
    pause = Pause(say("1"))
    async with core(workspace, Cast([delegate("one"), say("ok")], {"one": [pause]})) as c:
        turn = c.start()
        async with asyncio.timeout(BOUND):
            await pause.asked.wait()
        child = drivers[1]
        before = child.state
        child.feed(Stopped(999))
        child.feed(ToolCompleted(999, "late"))
        assert child.state == before
        pause.go.set()
        await c.finish(turn)
        ended = child.state
        assert ended.phase == Completed("1")
        child.feed(UserCancel(CancelReason.USER))
        child.feed(Stopped(1))
        assert child.state == ended
        assert c.told() == ["1"]
    late = [record.getMessage() for record in caplog.records if "came late" in record.message]
    assert [line.rsplit(": ", 1)[1] for line in late] == [
        "Stopped of effect 999 came late",
        "ToolCompleted of effect 999 came late",
        "UserCancel of effect None came late",
        "Stopped of effect 1 came late",
    ]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


@pytest.mark.asyncio
async def test_an_illegal_input_is_logged_and_changes_nothing(workspace: Path, drivers: list[Driver]) -> None:
    async with core(workspace, Cast([say("ok")])) as c:
        drivers[0].feed(UserCancel(CancelReason.USER))
        assert (await c.turn()).stop_reason == "end_turn"


@pytest.mark.asyncio
async def test_a_call_is_published_from_pending_to_completed_with_locations_and_result(workspace: Path) -> None:
    write = call("write_file", path="n.txt", content="one\n")
    async with core(workspace, Cast([write, say("ok")]), Person()) as c:
        await c.turn()
        (started,) = c.bodies(ToolCallStarted)
        updates = c.bodies(ToolCallUpdated)
        file = str(workspace / "n.txt")
        assert (started.kind, started.status, started.title) == (
            ToolKind.EDIT,
            CallStatus.PENDING,
            "write_file(n.txt)",
        )
        assert [place.path for place in started.locations] == [file]
        assert [update.status for update in updates] == [CallStatus.IN_PROGRESS, CallStatus.COMPLETED]
        assert updates[-1].content == "Created n.txt: line 1."
        assert [(place.path, place.start, place.end) for place in updates[-1].locations or ()] == [(file, 1, 1)]


@pytest.mark.asyncio
async def test_a_report_of_a_child_is_published_like_any_call_and_calls_beside_it_do_not_run(workspace: Path) -> None:
    reply = calls([use("submit_result", result="42"), use("list_dir", path="."), use("submit_error", error="no")])
    async with core(workspace, Cast([delegate("one"), say("ok")], {"one": [reply]})) as c:
        await c.turn()
        assert c.told() == ["42"]
        child = c.child("one").info.agent_id
        assert [body.tool for body in c.bodies(ToolCallStarted, child)] == ["submit_result", "list_dir", "submit_error"]
        statuses = [body.status for body in c.bodies(ToolCallUpdated, child)]
        assert statuses == [CallStatus.COMPLETED, CallStatus.CANCELLED, CallStatus.CANCELLED]
        assert c.child("one").tool_call_count == 3


@pytest.mark.asyncio
async def test_activity_describes_the_current_call_and_counts_calls(workspace: Path) -> None:
    pause = Pause(say("ok"))
    async with core(workspace, Cast([call("grep", pattern="a\nb \x1b[1mc"), pause])) as c:
        turn = c.start()
        activity = await c.seen(Activity)
        assert activity == Activity("grep a b c", 1)
        assert c.session.agents()[0].activity == "grep a b c"
        pause.go.set()
        await c.finish(turn)
        assert c.session.agents()[0].activity is None


@pytest.mark.asyncio
async def test_a_request_names_its_agent_and_differs_between_rounds_only_in_its_messages(workspace: Path) -> None:
    cast = Cast([call("list_dir", path="."), delegate("one"), say("ok")], {"one": [say("1")]})
    async with core(workspace, cast, settings=Settings(model="some-model", max_tokens=99)) as c:
        await c.turn()
        first, second, third = c.requests()
        assert (first.model, first.max_tokens, first.session_id) == ("some-model", 99, c.session.id)
        assert (first.agent_id, first.depth) == (c.session.primary_id, 0)
        assert (first.system, first.tools) == (second.system, second.tools) == (third.system, third.tools)
        assert second.messages[: len(first.messages)] == first.messages
        (childs,) = c.requests("one")
        assert (childs.model, childs.agent_id, childs.depth) == ("some-model", c.child("one").info.agent_id, 1)
        assert len({message.id for message in third.messages}) == len(third.messages)


def test_the_system_prompt_lists_the_folders_and_the_access_of_an_agent(workspace: Path) -> None:
    general = built_in()["general"]

    def prompt(access: Access) -> str:
        further = [Root(workspace.parent / "library"), Root(workspace.parent / "notes", writable=True)]
        return system_prompt(general, workspace, [workspace], further, access, is_child=True)

    assert prompt(Access.READ_ONLY).startswith(general.prompt)
    assert f"Workspace root: {workspace}" in prompt(Access.READ_ONLY)
    assert f"Additional folder (read-only): {workspace.parent}/library" in prompt(Access.READ_ONLY)
    assert f"Additional folder: {workspace.parent}/notes" in prompt(Access.READ_ONLY)
    assert "change nothing" in prompt(Access.READ_ONLY)
    assert "propose edits" in prompt(Access.DEFAULT)


@pytest.mark.asyncio
async def test_a_prompt_may_have_several_blocks_and_blank_ones_are_left_out(workspace: Path) -> None:
    async with core(workspace, Cast([say("ok")])) as c:
        turn = c.session.turns.accept([Text("one"), Text("  "), Text("two")])
        await c.finish(turn)
        assert c.requests()[0].messages[0].content == (Text("one"), Text("two"))
