"""Tools that look at the session (``list_agents``, ``get_agent``, ``todo``), counts, metrics, and steering."""

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from deputy_agents.domain.errors import InvalidRequest, UnknownAgent, WrongState
from deputy_agents.domain.event import AgentFinished, MessageAdded, PlanChanged, PlanEntry, SessionStatus
from deputy_agents.domain.message import Message, Reply, StopReason, Text, Usage
from deputy_agents.model.scripted import call, calls, say, use
from deputy_agents.ports.model import ModelRequest
from tests.support.core import BOUND, Cast, Core, Pause, answers, core, delegate, results, silent, small, task_of
from tests.support.delegation import background, define, fan_out


async def asked(pause: Pause) -> None:
    async with asyncio.timeout(BOUND):
        await pause.asked.wait()


def told_json(c: Core) -> dict[str, Any]:
    return json.loads(c.told()[0])


@pytest.mark.requirement("A7")
@pytest.mark.requirement("E2")
@pytest.mark.asyncio
async def test_all_agents_are_listed_with_their_state_finished_ones_included(workspace: Path) -> None:
    used = Reply(Message("assistant", (use("list_dir", path="."),)), StopReason.TOOL_USE, Usage(10, 2))
    children = {"works": [used, say("fine")], "fails": [call("submit_error", error="no such loop")]}
    cast = Cast([fan_out(*children), call("list_agents"), say("ok")], children)
    async with core(workspace, cast) as c:
        await c.turn()
        primary, works, fails = told_json(c)["agents"]
        assert primary == {
            "agent_id": c.session.primary_id,
            "label": "primary",
            "definition": "primary",
            "run": 1,
            "status": "running",
            "tool_calls": 2,
            "input_tokens": 0,
            "output_tokens": 0,
        }
        assert works == {
            "agent_id": c.child("works").info.agent_id,
            "parent_agent_id": c.session.primary_id,
            "label": "works",
            "definition": "general",
            "run": 1,
            "status": "completed",
            "tool_calls": 1,
            "input_tokens": 10,
            "output_tokens": 2,
        }
        assert (fails["status"], fails["failure_reason"], fails["error"]) == (
            "failed",
            "sub_agent_error",
            "no such loop",
        )
        assert {UUID(node.info.agent_id).version for node in c.session.agents()} == {7}


@pytest.mark.asyncio
async def test_a_long_list_keeps_those_that_live_and_the_last_that_ended(workspace: Path) -> None:
    tasks = [f"task {index}" for index in range(120)]
    pause = Pause(say("never"))
    children = {task: [say("x" * 10)] for task in tasks} | {"lives": [pause]}
    lines = [background("lives", kind="code_search"), fan_out(*tasks), call("list_agents"), say("ok")]
    async with core(workspace, Cast(lines, children), settings=small(queue=200, wake_on_task_end=False)) as c:
        await c.turn()
        found = told_json(c)
        labels = [agent["label"] for agent in found["agents"]]
        assert labels == ["primary", "do lives", *tasks[22:]]
        assert found["left_out"] == "the first 22 that have ended"


@pytest.mark.requirement("A7")
@pytest.mark.requirement("E10")
@pytest.mark.asyncio
async def test_a_result_that_was_cut_says_how_to_read_on_and_get_agent_gives_all_of_it_page_by_page(
    workspace: Path,
) -> None:
    whole = "".join(f"line {number}\n" for number in range(7000)).strip()

    def page(offset: int) -> Any:
        def line(request: ModelRequest) -> Reply:
            return call("get_agent", agent_id=c.child("long").info.agent_id, offset=offset, limit=30_000)

        return line

    lines = [delegate("long"), page(0), page(30_000), page(60_000), say("ok")]
    async with core(workspace, Cast(lines, {"long": [say(whole)]})) as c:
        await c.turn()
        answers = [results(request)[0].content for request in c.requests()[1:]]
        cut, *pages = answers
        assert len(cut.encode()) < 17_000
        assert cut.endswith(f"get_agent(agent_id='{c.child('long').info.agent_id}') has all of it]")
        found = [json.loads(answer) for answer in pages]
        assert "".join(one["result"] for one in found) == whole
        assert [one.get("next_offset") for one in found] == [30_000, 60_000, None]
        assert found[0]["length"] == len(whole)
        (finished,) = c.bodies(AgentFinished)
        assert finished.truncated
        assert len(finished.result.encode()) < 17_000


@pytest.mark.requirement("B6")
@pytest.mark.asyncio
async def test_the_messages_of_a_child_are_given_on_request_and_only_then(workspace: Path) -> None:
    def get(request: ModelRequest) -> Reply:
        agent_id = c.child("work").info.agent_id
        return calls([use("get_agent", agent_id=agent_id), use("get_agent", agent_id=agent_id, messages=True)])

    child = [calls([use("list_dir", path=".")], "I look first."), say("Done.")]
    async with core(workspace, Cast([delegate("work"), get, say("ok")], {"work": child})) as c:
        await c.turn()
        bare, full = (json.loads(answer) for answer in c.told())
        assert bare["result"] == "Done."
        assert "messages" not in bare
        assert full["messages"] == ("**user**\n\nwork\n\n**assistant**\n\nI look first.\n\n**assistant**\n\nDone.")


@pytest.mark.parametrize(
    ("input", "named"),
    [
        ({"agent_id": "nobody"}, "There is no agent nobody in this session"),
        ({}, "agent_id: "),
        ({"agent_id": "x", "offset": -1}, "offset: "),
        ({"agent_id": "x", "limit": 0}, "limit: "),
        ({"agent_id": "x", "limit": 10**6}, "limit: "),
    ],
)
@pytest.mark.asyncio
async def test_asking_for_what_there_is_not_is_an_error_that_names_it(
    workspace: Path, input: dict[str, object], named: str
) -> None:
    async with core(workspace, Cast([call("get_agent", **input), say("ok")])) as c:
        await c.turn()
        (result,) = results(c.requests()[-1])
        assert result.is_error
        assert named in result.content


@pytest.mark.requirement("X21")
@pytest.mark.asyncio
async def test_the_plan_of_an_agent_is_an_event_of_that_agent_and_the_latest_one_counts(workspace: Path) -> None:
    first = [{"content": "Look", "status": "in_progress", "priority": "high"}, {"content": "Tell"}]
    second = [{"content": "Look", "status": "completed"}]
    children = {"work": [call("todo", entries=second), say("done")]}
    async with core(workspace, Cast([call("todo", entries=first), delegate("work"), say("ok")], children)) as c:
        await c.turn()
        child = c.child("work").info.agent_id
        assert c.bodies(PlanChanged, c.session.primary_id) == [
            PlanChanged((PlanEntry("Look", "in_progress", "high"), PlanEntry("Tell", "pending")))
        ]
        assert c.bodies(PlanChanged, child) == [PlanChanged((PlanEntry("Look", "completed"),))]
        assert c.session.view.plans[child] == (PlanEntry("Look", "completed"),)


@pytest.mark.parametrize("entries", ["Look", [{"content": ""}], [{"content": "x", "status": "done"}], [{}]])
@pytest.mark.asyncio
async def test_a_plan_that_is_none_is_an_error_and_no_event(workspace: Path, entries: object) -> None:
    async with core(workspace, Cast([call("todo", entries=entries), say("ok")])) as c:
        await c.turn()
        (result,) = results(c.requests()[-1])
        assert result.is_error
        assert "entries" in result.content
        assert c.bodies(PlanChanged) == []


# -- counts --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("A9")
@pytest.mark.asyncio
async def test_the_counts_of_children_are_true_at_every_step(workspace: Path) -> None:
    pauses = {name: Pause(say(name)) for name in ("a", "b", "c")}
    write = {"mode": "default"}
    delegation = calls([use("spawn_agent", instructions=name) for name in pauses], "")
    asks = calls([use("spawn_agent", instructions="w", **write)])
    children = {name: [pause] for name, pause in pauses.items()} | {"w": [call("write_file", path="n", content="x")]}
    cast = Cast([delegation, asks, say("ok")], children)
    async with core(workspace, cast, silent(), settings=small(max_parallel_per_parent=2)) as c:
        turn = c.start()
        await asked(pauses["b"])
        await c.seen(SessionStatus, lambda counts: counts == SessionStatus(1, 1, 2, 0, 0))
        pauses["a"].go.set()
        await asked(pauses["c"])
        await c.seen(SessionStatus, lambda counts: counts == SessionStatus(1, 0, 2, 0, 1))
        for pause in pauses.values():
            pause.go.set()
        await c.permission_request()
        await c.seen(SessionStatus, lambda counts: counts == SessionStatus(1, 0, 1, 1, 3))
        async with asyncio.timeout(BOUND):
            await c.session.turns.cancel()
        await c.finish(turn)
        await c.caught_up()
        assert c.session.view.status() == SessionStatus(1, 0, 0, 0, 4)


@pytest.mark.requirement("E18")
@pytest.mark.asyncio
async def test_spawns_endings_by_reason_and_the_queue_are_counted(workspace: Path) -> None:
    children = {
        "works": [say("fine")],
        "fails": [call("submit_error", error="no")],
        "is empty": [say("")],
        "works too": [say("fine")],
        "too many": [say("never asked")],
    }
    cast = Cast([fan_out(*children), say("ok")], children)
    async with core(workspace, cast, settings=small(max_parallel=1, queue=3)) as c:
        await c.turn()
        assert dict(c.runtime.metrics.counters) == {
            "spawns": 5,
            "completed": 2,
            "failures": 3,
            "failures.sub_agent_error": 1,
            "failures.runtime_error": 2,
        }
        measured = c.runtime.metrics.percentiles()
        assert (measured["queue.depth"].count, measured["queue.depth"].p99) == (5, 3)
        assert measured["queue.wait"].count == 3
        assert measured["queue.wait"].p50 >= 0


@pytest.mark.asyncio
async def test_an_agent_reads_the_messages_of_those_below_it_and_of_nobody_else(workspace: Path) -> None:
    define(workspace, "lead", ["tools: [get_agent, spawn_agent]"])
    read: dict[str, list[str]] = {}

    def script(request: ModelRequest) -> Reply:
        ids = {node.info.label: node.info.agent_id for node in c.session.agents()}
        task = "primary" if request.depth == 0 else task_of(request)
        if len(request.messages) == 1 and task == "primary":
            return fan_out({"task": "lead it", "subagent_type": "lead", "mode": "default"})
        if len(request.messages) == 1 and task == "lead it":
            return delegate("dig")
        if len(request.messages) == (1 if task == "dig" else 3):
            return calls([use("get_agent", agent_id=each, messages=True) for each in ids.values()])
        read[task] = [
            label for label, answer in zip(ids, answers(request), strict=True) if not answer.startswith("messages: ")
        ]
        return say("done")

    async with core(workspace, script, settings=small(max_depth=2)) as c:
        await c.turn()
        assert read == {"dig": [], "lead it": ["dig"], "primary": ["lead it", "dig"]}


# -- steering ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("X14")
@pytest.mark.asyncio
async def test_a_running_child_reads_what_it_is_told_after_its_next_tool_results(workspace: Path) -> None:
    working = Pause(call("list_dir", path="."))
    cast = Cast([delegate("work"), say("ok")], {"work": [working, say("as you say")]})
    async with core(workspace, cast) as c:
        turn = c.start()
        await asked(working)
        child = c.child("work").info.agent_id
        c.session.steer(child, "Only in src, please.")
        working.go.set()
        await c.finish(turn)
        *_, last = c.requests("work")[-1].messages
        assert [block.type for block in last.content] == ["tool_result", "text"]
        assert last.content[1] == Text("Only in src, please.")
        shown = [(message.role, message.text) for message in c.bodies(MessageAdded, child)]
        assert ("user", "Only in src, please.") in shown
        assert "Only in src" not in repr(c.requests()[-1].messages), "it is between the user and the child"


@pytest.mark.asyncio
async def test_a_child_that_was_about_to_end_hears_it_before_it_does(workspace: Path) -> None:
    ending = Pause(say("done"))
    cast = Cast([delegate("work"), say("ok")], {"work": [ending, say("done as you say")]})
    async with core(workspace, cast) as c:
        turn = c.start()
        await asked(ending)
        c.session.steer(c.child("work").info.agent_id, "Wait.")
        ending.go.set()
        await c.finish(turn)
        assert c.told() == ["done as you say"]


@pytest.mark.requirement("X14")
@pytest.mark.asyncio
async def test_a_child_that_submits_its_result_hears_first_what_it_was_told(workspace: Path) -> None:
    submits = Pause(call("submit_result", result="half"))
    cast = Cast([delegate("work"), say("ok")], {"work": [submits, call("submit_result", result="all of it")]})
    async with core(workspace, cast) as c:
        turn = c.start()
        await asked(submits)
        c.session.steer(c.child("work").info.agent_id, "The other half too.")
        submits.go.set()
        await c.finish(turn)
        assert c.told() == ["all of it"]
        assert c.requests("work")[-1].messages[-1].content == (Text("The other half too."),)


@pytest.mark.asyncio
async def test_people_see_that_a_child_ended_before_it_read_what_it_was_told(workspace: Path) -> None:
    working = Pause(say("never"))
    async with core(workspace, Cast([delegate("work"), say("ok")], {"work": [working]})) as c:
        turn = c.start()
        await asked(working)
        child = c.child("work").info.agent_id
        c.session.steer(child, "Only in src.")
        assert await c.session.cancel_agent(child)
        await c.finish(turn)
        assert c.bodies(MessageAdded, child)[-1].text == "Only in src.\n\n(Not read: the agent ended first.)"


@pytest.mark.asyncio
async def test_an_agent_that_waits_for_children_hears_it_when_they_end(workspace: Path) -> None:
    child = Pause(say("found"))
    async with core(workspace, Cast([delegate("work"), say("ok")], {"work": [child]})) as c:
        turn = c.start()
        await asked(child)
        c.session.steer(c.session.primary_id, "Hurry.")
        child.go.set()
        await c.finish(turn)
        assert c.requests()[-1].messages[-1].content[1] == Text("Hurry.")


@pytest.mark.asyncio
async def test_who_has_ended_is_idle_or_is_unknown_cannot_be_steered(workspace: Path) -> None:
    async with core(workspace, Cast([delegate("work"), say("ok")], {"work": [say("done")]})) as c:
        await c.turn()
        with pytest.raises(WrongState, match="is not running"):
            c.session.steer(c.child("work").info.agent_id, "x")
        with pytest.raises(WrongState, match="is not running"):
            c.session.steer(c.session.primary_id, "x")
        with pytest.raises(UnknownAgent):
            c.session.steer("nobody", "x")
        with pytest.raises(InvalidRequest, match="empty"):
            c.session.steer(c.session.primary_id, "  ")
