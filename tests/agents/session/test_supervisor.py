"""Limits on children: time, places, queue; and how their parent hears of them."""

import asyncio
from pathlib import Path

import pytest

from deputy_agents.domain.event import AgentFinished, AgentStarted, StatusChanged
from deputy_agents.domain.message import Reply
from deputy_agents.domain.outcome import AgentStatus, FailureReason
from deputy_agents.domain.settings import Settings
from deputy_agents.model.scripted import Script, call, calls, say, use
from deputy_agents.ports.model import ModelRequest, TextPart
from tests.support.core import ALLOW, BOUND, Cast, Pause, core, delegate, results, silent, small
from tests.support.deadlines import ManualDeadline


class Deadlines:
    """Makes :class:`StoppedDeadline` instead of ``Deadline``, and keeps them in order."""

    def __init__(self) -> None:
        self.made: list[StoppedDeadline] = []

    def __call__(self, seconds: float) -> "StoppedDeadline":
        self.made.append(StoppedDeadline(seconds))
        return self.made[-1]


class StoppedDeadline(ManualDeadline):
    """Passes only when a test says so; ``running`` is whether the time counts now."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.running = False

    def run(self) -> None:
        self.running = True

    def pause(self) -> None:
        self.running = False


@pytest.fixture
def deadlines(monkeypatch: pytest.MonkeyPatch) -> Deadlines:
    made = Deadlines()
    monkeypatch.setattr("deputy_agents.session.supervisor.Deadline", made)
    return made


async def asked(pause: Pause) -> None:
    async with asyncio.timeout(BOUND):
        await pause.asked.wait()


# -- time ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("D7")
@pytest.mark.asyncio
async def test_a_child_past_its_time_limit_fails_with_what_it_had(workspace: Path, deadlines: Deadlines) -> None:
    pause = Pause(say("never"), [TextPart("Found a.py so far")])
    cast = Cast([delegate("slow", timeout=5), say("ok")], {"slow": [pause]})
    async with core(workspace, cast) as c:
        turn = c.start()
        await asked(pause)
        await c.session.log.flush()
        deadlines.made[0].expire()
        await c.finish(turn)
        assert c.told() == [
            "Sub-agent failed (timed_out): it ran past its time limit of 5 s\n\nFound a.py so far",
        ]
        (finished,) = c.bodies(AgentFinished)
        assert (finished.status, finished.failure_reason) == (AgentStatus.FAILED, FailureReason.TIMED_OUT)
        assert pause.over.is_set()


@pytest.mark.asyncio
async def test_a_real_time_limit_ends_a_child(workspace: Path) -> None:
    cast = Cast([delegate("slow", timeout=0.01), say("ok")], {"slow": [Pause(say("never"))]})
    async with core(workspace, cast) as c:
        await c.turn()
        assert c.child("slow").failure_reason is FailureReason.TIMED_OUT


@pytest.mark.asyncio
async def test_the_time_limit_is_that_of_the_call_else_of_the_settings(workspace: Path, deadlines: Deadlines) -> None:
    reply = calls([use("spawn_agent", instructions="a", timeout=7), use("spawn_agent", instructions="b")])
    cast = Cast([reply, say("ok")], {"a": [say("1")], "b": [say("2")]})
    async with core(workspace, cast, settings=small(timeout=90)) as c:
        await c.turn()
        assert [deadline.seconds for deadline in deadlines.made] == [7, 90]
        assert not any(deadline.running for deadline in deadlines.made)


@pytest.mark.asyncio
async def test_waiting_for_the_user_does_not_count_as_running_time(workspace: Path, deadlines: Deadlines) -> None:
    pause = Pause(say("done"))
    write = call("write_file", path="n", content="x")
    cast = Cast([delegate("edits", mode="default"), say("ok")], {"edits": [write, pause]})
    async with core(workspace, cast, silent()) as c:
        turn = c.start()
        permission_request = await c.permission_request()
        (deadline,) = deadlines.made
        assert not deadline.running
        c.session.inbox.answer(permission_request.request_id, ALLOW)
        await asked(pause)
        assert deadline.running
        pause.go.set()
        await c.finish(turn)
        assert not deadline.running


@pytest.mark.asyncio
async def test_waiting_in_the_queue_does_not_count_as_running_time(workspace: Path, deadlines: Deadlines) -> None:
    first, second = Pause(say("1")), Pause(say("2"))
    cast = Cast([delegate("first", "second"), say("ok")], {"first": [first], "second": [second]})
    async with core(workspace, cast, settings=small(max_parallel=1)) as c:
        turn = c.start()
        await asked(first)
        assert [deadline.running for deadline in deadlines.made] == [True, False]
        first.go.set()
        await asked(second)
        assert [deadline.running for deadline in deadlines.made] == [False, True]
        second.go.set()
        await c.finish(turn)


# -- places --------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_children_beyond_the_cap_wait_their_turn_and_show_their_place(workspace: Path) -> None:
    pauses = {name: Pause(say(name)) for name in ("a", "b", "c", "d")}
    cast = Cast([delegate(*pauses), say("ok")], {name: [pause] for name, pause in pauses.items()})
    async with core(workspace, cast, settings=small(max_parallel_per_parent=2)) as c:
        turn = c.start()
        await asked(pauses["a"])
        await asked(pauses["b"])
        places = {node.info.label: (node.status, node.queue_position) for node in c.session.agents()[1:]}
        running, pending = AgentStatus.RUNNING, AgentStatus.PENDING
        assert places == {"a": (running, None), "b": (running, None), "c": (pending, 1), "d": (pending, 2)}
        pauses["b"].go.set()
        await asked(pauses["c"])
        await c.seen(StatusChanged, lambda told: told.queue_position == 1)
        assert c.child("d").queue_position == 1
        for pause in pauses.values():
            pause.go.set()
        await c.finish(turn)
        assert c.told() == ["a", "b", "c", "d"]
        starts = [(body.info.label, body.status, body.queue_position) for body in c.bodies(AgentStarted)[1:]]
        assert starts == [("a", running, None), ("b", running, None), ("c", pending, 1), ("d", pending, 2)]


@pytest.mark.asyncio
async def test_a_start_is_told_at_once_though_new_places_in_the_queue_are_told_later(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deputy_agents.session.queue_positions.POSITIONS_EVERY", 3600)
    tasks = ("a", "b", "c", "d")
    cast = Cast([delegate(*tasks), say("ok")], {task: [say(task)] for task in tasks})
    async with core(workspace, cast, settings=small(max_parallel=1)) as c:
        await c.turn()
        await c.caught_up()
        told = {task: c.bodies(StatusChanged, c.child(task).info.agent_id) for task in tasks}
        assert told == {"a": [], **{task: [StatusChanged(AgentStatus.RUNNING)] for task in tasks[1:]}}


@pytest.mark.asyncio
async def test_a_delegation_tool_that_finds_the_queue_full_starts_nobody_and_says_so(workspace: Path) -> None:
    pauses = {name: Pause(say(name)) for name in ("a", "b")}
    lines = {name: [pause] for name, pause in pauses.items()}
    cast = Cast([delegate("a", "b", "c"), say("ok")], {**lines, "c": [say("c")]})
    async with core(workspace, cast, settings=small(max_parallel=1, queue=1)) as c:
        turn = c.start()
        await asked(pauses["a"])
        for pause in pauses.values():
            pause.go.set()
        await c.finish(turn)
        refused = results(c.requests()[-1])[2]
        assert refused.is_error
        assert refused.content == "No sub-agent was started: 1 sub-agents run and 1 wait; the queue is full"
        assert len(c.session.agents()) == 3


@pytest.mark.asyncio
async def test_writers_of_one_parent_run_one_at_a_time_beside_its_readers(workspace: Path) -> None:
    pauses = {name: Pause(say(name)) for name in ("w1", "w2", "r1")}
    delegations = [
        use("spawn_agent", instructions=name, mode="default" if name[0] == "w" else "read_only") for name in pauses
    ]
    cast = Cast([calls(delegations), say("ok")], {name: [pause] for name, pause in pauses.items()})
    async with core(workspace, cast) as c:
        turn = c.start()
        await asked(pauses["w1"])
        await asked(pauses["r1"])
        assert (c.child("w2").status, c.child("w2").queue_position) == (AgentStatus.PENDING, 1)
        pauses["w1"].go.set()
        await asked(pauses["w2"])
        for pause in pauses.values():
            pause.go.set()
        await c.finish(turn)
        assert c.told() == ["w1", "w2", "r1"]


@pytest.mark.asyncio
async def test_a_child_that_waits_for_the_user_lets_another_run(workspace: Path) -> None:
    reader = Pause(say("read"))
    write = call("write_file", path="n", content="x")
    delegations = [use("spawn_agent", instructions="writes", mode="default"), use("spawn_agent", instructions="reads")]
    cast = Cast([calls(delegations), say("ok")], {"writes": [write, say("written")], "reads": [reader]})
    async with core(workspace, cast, silent(), settings=small(max_parallel=1)) as c:
        turn = c.start()
        permission_request = await c.permission_request()
        await asked(reader)
        c.session.inbox.answer(permission_request.request_id, ALLOW)
        await c.seen(StatusChanged)
        assert not (workspace / "n").exists()  # its place is taken until the reader ends
        reader.go.set()
        await c.finish(turn)
        assert c.told() == ["written", "read"]
        assert c.runtime.slots.running == 0


@pytest.mark.asyncio
async def test_slots_are_shared_by_all_sessions_of_a_process(workspace: Path) -> None:
    first, second = Pause(say("1")), Pause(say("2"))
    cast = Cast([delegate("first"), say("ok")], {"first": [first], "second": [second]})
    async with core(workspace, cast, settings=small(max_parallel=1)) as c:
        other = await c.runtime.new_session(c.session.settings.client, cwd=workspace, roots=[workspace])
        turn = c.start()
        await asked(first)
        cast.primary = [delegate("second"), say("ok")]
        elsewhere = other.turns.accept(c.requests()[0].messages[0].content)
        async for event in other.log.subscribe(0):
            if isinstance(event.body, AgentStarted) and event.body.info.depth == 1:
                assert event.body.status is AgentStatus.PENDING
                break
        first.go.set()
        await asked(second)
        second.go.set()
        await c.finish(turn)
        await c.finish(elsewhere)


@pytest.mark.asyncio
async def test_a_burst_of_completions_loses_and_mixes_up_nothing(workspace: Path) -> None:
    tasks = [f"task {number}" for number in range(60)]
    gate = asyncio.Event()

    def line(task: str) -> Script:
        async def reply(request: ModelRequest) -> Reply:
            await gate.wait()
            return say(f"answer to {task}")

        return reply

    cast = Cast([delegate(*tasks), say("ok")], {task: [line(task)] for task in tasks})
    async with core(workspace, cast) as c:
        turn = c.start()
        await c.child_started(tasks[-1])
        gate.set()
        await c.finish(turn)
        assert c.told() == [f"answer to {task}" for task in tasks]
        assert len(c.bodies(AgentFinished)) == 60
        assert (c.runtime.slots.running, c.runtime.slots.queued) == (0, 0)


# -- deeper trees --------------------------------------------------------------------------------------------------


GENERAL = """\
---
name: general
description: Has children of its own.
tools: list_dir, write_file, spawn_agent
---
Do the task.
"""


@pytest.fixture
def nesting(workspace: Path) -> Settings:
    """Children may spawn children of their own."""
    file = workspace / ".deputy" / "agents" / "general.md"
    file.parent.mkdir(parents=True)
    file.write_text(GENERAL)
    return small(max_depth=2, max_parallel=1)


@pytest.mark.asyncio
async def test_a_parent_that_waits_holds_no_slot_and_reclaims_one(workspace: Path, nesting: Settings) -> None:
    middle = [delegate("leaf"), say("m")]
    cast = Cast([delegate("middle", mode="default"), say("ok")], {"middle": middle, "leaf": [say("l")]})
    async with core(workspace, cast, settings=nesting) as c:
        await c.turn()
        assert c.told() == ["m"]
        leaf = c.child("leaf").info
        assert (leaf.depth, leaf.parent_id) == (2, c.child("middle").info.agent_id)
        assert "spawn_agent" not in {tool.name for tool in c.requests("leaf")[0].tools}


@pytest.mark.asyncio
async def test_cancelling_an_agent_ends_all_below_it_first(workspace: Path, nesting: Settings) -> None:
    pause = Pause(say("never"))
    cast = Cast([delegate("middle", mode="default"), say("ok")], {"middle": [delegate("leaf")], "leaf": [pause]})
    async with core(workspace, cast, settings=nesting) as c:
        turn = c.start()
        await asked(pause)
        async with asyncio.timeout(BOUND):
            assert await c.session.cancel_agent(c.child("middle").info.agent_id)
        await c.finish(turn)
        ends = [(body.status, body.error) for body in c.bodies(AgentFinished)]
        assert ends == [
            (AgentStatus.CANCELLED, "Sub-agent cancelled: parent cancelled."),
            (AgentStatus.CANCELLED, "Sub-agent cancelled by user."),
        ]


@pytest.mark.requirement("C8")
@pytest.mark.asyncio
async def test_a_child_that_only_reads_has_no_children_whatever_its_definition_lists(
    workspace: Path, nesting: Settings
) -> None:
    cast = Cast([delegate("reads"), say("ok")], {"reads": [delegate("leaf"), say("I cannot.")]})
    async with core(workspace, cast, settings=nesting) as c:
        await c.turn()
        offered = {tool.name for tool in c.requests("reads")[0].tools}
        assert offered == {"list_dir", "submit_result", "submit_error"}
        assert [result.is_error for result in results(c.requests("reads")[-1])] == [True]
        assert [node.info.label for node in c.session.agents()] == ["primary", "reads"]


@pytest.mark.asyncio
async def test_a_permission_request_of_a_grandchild_names_its_ancestors(workspace: Path, nesting: Settings) -> None:
    leaf = [call("write_file", path="n", content="x"), say("done")]
    middle = [delegate("leaf", mode="default"), say("m")]
    cast = Cast([delegate("middle", mode="default"), say("ok")], {"middle": middle, "leaf": leaf})
    async with core(workspace, cast, silent(), settings=nesting) as c:
        turn = c.start()
        permission_request = await c.permission_request()
        c.session.inbox.answer(permission_request.request_id, ALLOW)
        await c.finish(turn)
        assert [label for _, label in permission_request.agent.ancestry] == ["primary", "middle"]
        assert (workspace / "n").read_text() == "x"
