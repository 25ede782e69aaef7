"""``spawn_agents``: several children at once, one result with every outcome."""

import asyncio
from pathlib import Path

import pytest

from deputy_agents.domain.event import AgentFinished, AgentStarted, CallStatus, ToolCallUpdated
from deputy_agents.domain.outcome import AgentStatus, FailureReason
from deputy_agents.model.scripted import call, calls, say, use
from tests.support.core import BOUND, Cast, Pause, core, results, small, task_of
from tests.support.delegation import aggregate, failure, fan_out, success


@pytest.mark.requirement("D3")
@pytest.mark.asyncio
async def test_the_outcomes_of_all_tasks_come_back_as_one_json_object_in_the_order_of_the_tasks(
    workspace: Path,
) -> None:
    slow, fast = Pause(say("found it")), Pause(say("nothing"))
    cast = Cast([fan_out("slow", "fast"), say("ok")], {"slow": [slow], "fast": [fast]})
    async with core(workspace, cast) as c:
        turn = c.start()
        async with asyncio.timeout(BOUND):
            await slow.asked.wait()
            await fast.asked.wait()
        fast.go.set()
        await c.seen(AgentFinished)
        slow.go.set()
        await c.finish(turn)
        (result,) = results(c.requests()[-1])
        ids = [c.child(name).info.agent_id for name in ("slow", "fast")]
        assert not result.is_error
        assert result.content == (
            '{"sub_agent_results": ['
            f'{{"agent_id": "{ids[0]}", "task": "slow", "outcome": {{"success": {{"result": "found it"}}}}}}, '
            f'{{"agent_id": "{ids[1]}", "task": "fast", "outcome": {{"success": {{"result": "nothing"}}}}}}]}}'
        )


@pytest.mark.requirement("D10")
@pytest.mark.requirement("D11")
@pytest.mark.asyncio
async def test_each_outcome_is_typed_and_one_failure_does_not_fail_the_others(workspace: Path) -> None:
    cancelled = Pause(say("never"))
    children = {
        "works": [say("fine")],
        "gives up": [calls([use("submit_error", error="no such loop")], "I looked in src.")],
        "breaks": [RuntimeError("an error in the adapter")],
        "says nothing": [say("")],
        "is stopped": [cancelled],
    }
    cast = Cast([fan_out(*children), say("ok")], children)
    async with core(workspace, cast) as c:
        turn = c.start()
        async with asyncio.timeout(BOUND):
            await cancelled.asked.wait()
            assert await c.session.cancel_agent(c.child("is stopped").info.agent_id)
        await c.finish(turn)
        internal = "An internal error ended the model request. The log has the details."
        assert aggregate(c.told()[0]) == [
            success("works", "fine"),
            failure("gives up", "sub_agent_error", "no such loop\n\nI looked in src."),
            failure("breaks", "model_error", internal),
            failure("says nothing", "runtime_error", "it ended without an answer"),
            failure("is stopped", "cancelled", "Sub-agent cancelled by user."),
        ]
        assert c.results_seen(c.session.primary_id).popitem()[1].status is CallStatus.COMPLETED


@pytest.mark.requirement("D10")
@pytest.mark.asyncio
async def test_children_mix_with_other_tools_in_one_turn_and_results_go_back_in_the_order_of_the_calls(
    workspace: Path,
) -> None:
    (workspace / "a.txt").write_text("hello\n")
    reply = calls(
        [
            use("spawn_agents", tasks=[{"task": "one"}, {"task": "two"}]),
            use("read_file", path="a.txt"),
            use("spawn_agent", instructions="three"),
        ]
    )
    children = {name: [Pause(say(name.upper()))] for name in ("one", "two", "three")}
    async with core(workspace, Cast([reply, say("ok")], children)) as c:
        turn = c.start()
        await c.seen(ToolCallUpdated, lambda update: "hello" in (update.content or ""))
        for (pause,) in children.values():
            pause.go.set()
        await c.finish(turn)
        fan, read, one = c.told()
        assert aggregate(fan) == [success("one", "ONE"), success("two", "TWO")]
        assert "hello" in read
        assert one == "THREE"


@pytest.mark.asyncio
async def test_each_task_has_its_own_folder_kind_access_and_context(workspace: Path) -> None:
    (workspace / "src").mkdir()
    tasks = [
        {"task": "here"},
        {"task": "there", "cwd": "src", "context": "Only the parser."},
        {"task": "writes", "mode": "default"},
        {"task": "searches", "subagent_type": "code_search", "mode": "default"},
    ]
    cast = Cast([fan_out(*tasks), say("ok")], {str(task["task"]): [say("done")] for task in tasks})
    async with core(workspace, cast) as c:
        await c.turn()
        folders = {task: c.requests(task)[0].system for task in ("here", "there")}
        assert f"Current folder: {workspace}\n" in folders["here"]
        assert f"Current folder: {workspace / 'src'}\n" in folders["there"]
        assert "Only the parser." in task_of(c.requests("there")[0])
        kinds = {node.info.label: (node.info.definition, node.info.access.value) for node in c.session.agents()[1:]}
        assert kinds == {
            "here": ("general", "read_only"),
            "there": ("general", "read_only"),
            "writes": ("general", "default"),
            "searches": ("code_search", "read_only"),
        }


@pytest.mark.requirement("E3")
@pytest.mark.parametrize("kind", ["no_such_agent", "primary", ""])
@pytest.mark.asyncio
async def test_a_kind_that_is_no_sub_agent_starts_nobody_and_the_error_lists_those_that_exist(
    workspace: Path, kind: str
) -> None:
    cast = Cast([fan_out("fine", {"task": "odd", "subagent_type": kind}), say("ok")])
    async with core(workspace, cast) as c:
        await c.turn()
        (result,) = results(c.requests()[-1])
        assert result.is_error
        assert f"there is no sub-agent definition {kind!r}" in result.content
        assert "code_review, code_search, general, planner" in result.content
        assert len(c.session.agents()) == 1


@pytest.mark.parametrize(
    ("input", "named"),
    [
        ({"tasks": []}, "tasks: "),
        ({}, "tasks: "),
        ({"tasks": [{"task": "fine"}, {"task": " "}]}, "tasks.1.task: must not be blank"),
        ({"tasks": ["fine"]}, "tasks.0: must be an object"),
        ({"tasks": [{"task": "x", "timeout": -1}]}, "tasks.0.timeout: "),
        ({"tasks": [{"task": "x", "timeout": 0}]}, "tasks.0.timeout: "),
        ({"tasks": [{"task": "x", "mode": "root"}]}, "tasks.0.mode: "),
        ({"tasks": [{"task": "x", "folder": "src"}]}, "tasks.0.folder: "),
        ({"tasks": [{"task": "x", "cwd": ".."}]}, ".. is outside the workspace"),
        ({"tasks": [{"task": "fine"}, {"task": "x", "cwd": "/etc"}]}, "/etc is outside the workspace"),
        ({"tasks": [{"task": "x", "cwd": "a.txt"}]}, "cwd: a.txt is not a folder"),
        ({"tasks": [{"task": "x", "cwd": "nowhere"}]}, "cwd: nowhere is not a folder"),
        ({"tasks": [{"task": "x", "cwd": "way_out"}]}, "way_out is outside the workspace"),
    ],
)
@pytest.mark.asyncio
async def test_tasks_that_do_not_fit_start_nobody_and_the_error_names_the_place(
    workspace: Path, input: dict[str, object], named: str
) -> None:
    (workspace / "a.txt").write_text("x")
    (workspace / "way_out").symlink_to(workspace.parent)
    async with core(workspace, Cast([call("spawn_agents", **input), say("ok")])) as c:
        await c.turn()
        (result,) = results(c.requests()[-1])
        assert result.is_error
        assert named in result.content
        assert len(c.session.agents()) == 1
        assert c.bodies(ToolCallUpdated)[-1].status is CallStatus.FAILED


@pytest.mark.requirement("A11")
@pytest.mark.asyncio
async def test_tasks_beyond_the_queue_fail_one_by_one_and_the_others_run(workspace: Path) -> None:
    names = ["a", "b", "c", "d"]
    pauses = {name: Pause(say(name.upper())) for name in names}
    cast = Cast([fan_out(*names), say("ok")], {name: [pause] for name, pause in pauses.items()})
    async with core(workspace, cast, settings=small(max_parallel=1, queue=1)) as c:
        turn = c.start()
        for pause in pauses.values():
            pause.go.set()
        await c.finish(turn)
        full = "1 sub-agents run and 1 wait; the queue is full"
        assert aggregate(c.told()[0]) == [
            success("a", "A"),
            success("b", "B"),
            failure("c", "runtime_error", full),
            failure("d", "runtime_error", full),
        ]
        refused = c.child("d")
        assert (refused.status, refused.failure_reason, refused.error) == (
            AgentStatus.FAILED,
            FailureReason.RUNTIME_ERROR,
            full,
        )
        assert len(c.bodies(AgentStarted, refused.info.agent_id)) == 1
        assert len(c.bodies(AgentFinished, refused.info.agent_id)) == 1
        assert c.requests("d") == []


@pytest.mark.asyncio
async def test_a_cancelled_turn_cancels_all_its_children_and_the_delegation_tool_reads_that_its_turn_was(
    workspace: Path,
) -> None:
    pauses = [Pause(say("never")) for _ in range(3)]
    children = {f"task {index}": [pause] for index, pause in enumerate(pauses)}
    async with core(workspace, Cast([fan_out(*children), say("later")], children)) as c:
        turn = c.start()
        async with asyncio.timeout(BOUND):
            for pause in pauses:
                await pause.asked.wait()
            await c.session.turns.cancel()
        assert (await c.finish(turn)).stop_reason == "cancelled"
        await c.turn("go on")
        history = c.requests()[-1].messages
        (result,) = [block for block in history[2].content if block.type == "tool_result"]
        assert aggregate(result.content) == [
            failure(task, "cancelled", "Sub-agent cancelled: parent cancelled.") for task in children
        ]
        assert c.runtime.slots.running == 0
