"""The end of a background process: the agent that started it is notified once, as at the end of a background task."""

import json
from pathlib import Path
from typing import Any

import pytest

from deputy_agents.domain.event import AgentFinished, StatusChanged, TurnFinished, TurnStarted
from deputy_agents.domain.message import Reply, Text
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.settings import Settings
from deputy_agents.model.scripted import call, calls, say, use
from deputy_agents.ports.model import ModelRequest
from deputy_agents.session.process_notices import OUTPUT_CHARS, OUTPUT_LINES
from tests.support.commands import until
from tests.support.core import Cast, Core, Pause, answers, core, delegate, small

pytestmark = [pytest.mark.asyncio, pytest.mark.requirement("X12")]

AWAKE = Settings(permission_mode=PermissionMode.BYPASS)
ASLEEP = small(AWAKE, wake_on_task_end=False)


def started(command: str, **how: object) -> Reply:
    return call("shell", command=command, background=True, **how)


def gated(command: str) -> str:
    """``command``, once the file ``go`` exists."""
    return f"while [ ! -e go ]; do sleep 0.02; done; {command}"


def notices(request: ModelRequest) -> list[dict[str, Any]]:
    """The ends of processes that all messages of a request report."""
    texts = [block.text for message in request.messages for block in message.content if isinstance(block, Text)]
    return [json.loads(text) for text in texts if text.startswith('{"process_id"')]


async def all_ended(c: Core) -> None:
    await until(lambda: all(process.code is not None for process in c.session.background_processes.list()))


def look(c: Core, **how: object) -> Reply:
    [process] = c.session.background_processes.list()
    return call("process", process_id=process.process_id, **how)


@pytest.mark.parametrize(
    ("command", "how", "ends"),
    [
        ("echo one; echo two >&2; exit 3", {}, {"exit_code": 3, "output": "one\ntwo"}),
        ("exit 0", {}, {"exit_code": 0, "output": ""}),
        ("no-such-program", {}, {"exit_code": 127}),
        ("kill -9 $$", {}, {"exit_code": -9, "signal": "SIGKILL"}),
        ("echo up; exec sleep 600", {"timeout": 0.5}, {"cause": "It reached its timeout.", "output": "up"}),
    ],
)
async def test_the_next_request_reports_how_a_process_ended(
    workspace: Path, command: str, how: dict[str, object], ends: dict[str, object]
) -> None:
    cast = Cast([started(command, **how), say("Started."), say("I see."), say("Nothing new.")])
    async with core(workspace, cast, settings=ASLEEP) as c:
        await c.turn()
        await all_ended(c)
        await c.turn("next")
        (notice,) = notices(c.requests()[-1])
        assert notice["command"] == command
        assert notice["status"] == "exited"
        assert {key: notice[key] for key in ends} == ends
        await c.turn("and now")
        assert len(notices(c.requests()[-1])) == 1


async def test_an_end_wakes_the_idle_agent_and_the_user_sees_why(workspace: Path) -> None:
    cast = Cast([started(gated("exit 3")), say("Started."), say("It failed.")])
    async with core(workspace, cast, settings=AWAKE) as c:
        await c.turn()
        assert notices(c.requests()[-1]) == []
        (workspace / "go").touch()
        await c.until(lambda: len(c.bodies(TurnFinished)) == 2)
        assert [turn.origin for turn in c.bodies(TurnStarted)] == ["user", "task_end"]
        assert [notice["exit_code"] for notice in notices(c.requests()[-1])] == [3]
        shown = [status.detail or "" for status in c.bodies(StatusChanged)]
        assert any(detail.startswith("background process ended (exit code 3): while") for detail in shown)


async def test_no_turn_starts_when_the_setting_is_off(workspace: Path) -> None:
    async with core(workspace, Cast([started("exit 3"), say("Started.")]), settings=ASLEEP) as c:
        await c.turn()
        await all_ended(c)
        await c.caught_up()
        assert len(c.bodies(TurnStarted)) == 1
        assert c.session.turns.running is None


async def test_an_end_while_the_agent_works_goes_with_its_next_request(workspace: Path) -> None:
    pause = Pause(call("list_dir", path="."))
    cast = Cast([started(gated("exit 4")), pause, say("I see.")])
    async with core(workspace, cast, settings=AWAKE) as c:
        turn = c.start()
        await pause.asked.wait()
        (workspace / "go").touch()
        await all_ended(c)
        pause.go.set()
        await c.finish(turn)
        last = c.requests()[-1].messages[-1]
        assert [block.type for block in last.content] == ["tool_result", "text"]
        assert [notice["exit_code"] for notice in notices(c.requests()[-1])] == [4]
        assert len(c.bodies(TurnStarted)) == 1


async def test_an_end_during_the_last_words_continues_the_turn(workspace: Path) -> None:
    pause = Pause(say("It runs."))
    cast = Cast([started(gated("exit 5")), pause, say("It has ended.")])
    async with core(workspace, cast, settings=ASLEEP) as c:
        turn = c.start()
        await pause.asked.wait()
        (workspace / "go").touch()
        await all_ended(c)
        pause.go.set()
        await c.finish(turn)
        assert [notice["exit_code"] for notice in notices(c.requests()[-1])] == [5]


@pytest.mark.parametrize("how", ["one", "all", "stop"])
async def test_an_end_that_the_agent_has_read_is_not_reported_again(workspace: Path, how: str) -> None:
    command = gated("exit 6") if how != "stop" else "sleep 600"

    async def read(request: ModelRequest) -> Reply:
        if how == "stop":
            return look(c, stop=True)
        (workspace / "go").touch()
        await all_ended(c)
        return look(c) if how == "one" else call("process")

    cast = Cast([started(command), read, say("I see."), say("Nothing new.")])
    async with core(workspace, cast, settings=AWAKE) as c:
        await c.turn()
        assert '"exited"' in answers(c.requests()[-1])[0]
        await c.turn("next")
        assert notices(c.requests()[-1]) == []
        assert [turn.origin for turn in c.bodies(TurnStarted)] == ["user", "user"]


async def test_a_process_that_still_ran_when_the_agent_looked_is_reported(workspace: Path) -> None:
    cast = Cast([started(gated("exit 7")), lambda _: look(c), say("It runs."), say("I see.")])
    async with core(workspace, cast, settings=ASLEEP) as c:
        await c.turn()
        assert '"running"' in answers(c.requests()[2])[0]
        (workspace / "go").touch()
        await all_ended(c)
        await c.turn("next")
        assert [notice["exit_code"] for notice in notices(c.requests()[-1])] == [7]


@pytest.mark.parametrize("by", ["process", "session"])
async def test_what_the_user_stops_is_reported_with_the_next_prompt_and_starts_no_turn(
    workspace: Path, by: str
) -> None:
    cast = Cast([started("sleep 600"), say("Started."), say("I see.")])
    async with core(workspace, cast, settings=AWAKE) as c:
        await c.turn()
        [process] = c.session.background_processes.list()
        if by == "session":
            await c.session.cancel()
        else:
            await c.session.background_processes.stop(process.process_id)
        await c.caught_up()
        assert len(c.bodies(TurnStarted)) == 1
        await c.turn("next")
        assert [notice["cause"] for notice in notices(c.requests()[-1])] == ["The user stopped it."]


async def test_several_ends_are_reported_in_one_turn_at_most_once_each(workspace: Path) -> None:
    many = calls([use("shell", command=f"exit {code}", background=True) for code in range(1, 9)])
    async with core(workspace, Cast([many, say("Started."), say("I see.")]), settings=ASLEEP) as c:
        await c.turn()
        await all_ended(c)
        await c.turn("next")
        assert sorted(notice["exit_code"] for notice in notices(c.requests()[-1])) == list(range(1, 9))


async def test_a_child_is_notified_of_its_own_process_and_the_primary_is_not(workspace: Path) -> None:
    pause = Pause(call("list_dir", path="."))
    cast = Cast(
        [delegate("build", mode="default"), say("Done.")],
        {"build": [started(gated("exit 8")), pause, say("It failed.")]},
    )
    async with core(workspace, cast, settings=AWAKE) as c:
        turn = c.start()
        await pause.asked.wait()
        (workspace / "go").touch()
        await all_ended(c)
        pause.go.set()
        await c.finish(turn)
        assert [notice["exit_code"] for notice in notices(c.requests("build")[-1])] == [8]
        assert notices(c.requests()[-1]) == []


async def test_a_process_that_ends_with_its_child_is_reported_to_the_primary(workspace: Path) -> None:
    cast = Cast(
        [delegate("serve", mode="default"), say("Done.")],
        {"serve": [started("echo up; sleep 600"), say("The server runs.")]},
    )
    async with core(workspace, cast, settings=AWAKE) as c:
        await c.turn()
        (notice,) = notices(c.requests()[-1])
        assert notice["sub_agent"] == "serve"
        assert notice["cause"] == "It was stopped because the sub-agent that had started it has ended."
        assert len(c.bodies(TurnStarted)) == 1


async def test_a_child_is_notified_when_the_primary_stops_its_process(workspace: Path) -> None:
    working = Pause(call("list_dir", path="."))

    async def stop(_: ModelRequest) -> Reply:
        await working.asked.wait()
        return look(c, stop=True)

    cast = Cast(
        [call("task", description="serve", prompt="serve", subagent_type="general"), stop, say("Stopped.")],
        {"serve": [started("sleep 600"), working, say("It was stopped.")]},
    )
    async with core(workspace, cast, settings=small(ASLEEP, parallel_writers=True)) as c:
        await c.turn()
        working.go.set()
        await c.seen(AgentFinished)
        assert [notice["cause"] for notice in notices(c.requests("serve")[-1])] == ["Another agent stopped it."]
        assert notices(c.requests()[-1]) == []


@pytest.mark.parametrize(
    ("command", "length"), [(f"seq {OUTPUT_LINES * 50}", 200), (f"printf 'x%.0s' $(seq {OUTPUT_CHARS * 5})", 2100)]
)
async def test_a_notice_has_the_end_of_a_long_output(workspace: Path, command: str, length: int) -> None:
    async with core(workspace, Cast([started(command), say("Started."), say("I see.")]), settings=ASLEEP) as c:
        await c.turn()
        await all_ended(c)
        await c.turn("next")
        (notice,) = notices(c.requests()[-1])
        assert notice["output"].startswith("[…] ")
        assert len(notice["output"]) <= length
        assert notice["output"].endswith(("\n1000", "x"))
