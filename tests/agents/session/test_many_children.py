"""Hundreds of children of one parent: caps hold, nothing is lost, and what does not fit is told."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from deputy_agents.domain.event import AgentFinished, AgentStarted, StatusChanged
from deputy_agents.domain.message import Reply, ToolResult
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.model.scripted import Scripted, say
from deputy_agents.ports.model import ModelRequest
from deputy_agents.run.state import Running
from tests.support.core import BOUND, core, small, task_of
from tests.support.delegation import aggregate, background, failure, fan_out, reported_ends, success

MANY = [f"task {number}" for number in range(500)]


async def _turns_until(holds: Callable[[], bool]) -> None:
    """Gives the loop one turn after the other, and looks after each."""
    for _ in itertools.takewhile(lambda _: not holds(), itertools.count()):
        await asyncio.sleep(0)


class Crowd:
    """One call of the primary starts all; each child takes some rounds of the loop and answers with its task."""

    def __init__(self, first: Reply) -> None:
        self.at_once = 0
        self.most = 0
        self._lines = [first]

    async def __call__(self, request: ModelRequest) -> Scripted:
        if request.depth == 0:
            return self._lines.pop() if self._lines else say("ok")
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        for _ in range(3):
            await asyncio.sleep(0)
        self.at_once -= 1
        return say(f"answer to {task_of(request)}")


@pytest.mark.requirement("E5")
@pytest.mark.requirement("E19")
@pytest.mark.requirement("A11")
@pytest.mark.asyncio
async def test_five_hundred_at_once_all_end_eight_at_a_time_and_their_results_keep_their_order(
    workspace: Path,
) -> None:
    crowd = Crowd(fan_out(*MANY))
    async with core(workspace, crowd, settings=small(max_parallel=8, max_parallel_per_parent=8, queue=500)) as c:
        await c.turn()
        assert aggregate(c.told()[0]) == [success(task, f"answer to {task}") for task in MANY]
        assert crowd.most == 8
        await c.caught_up()
        starts = c.bodies(AgentStarted)[1:]
        assert [start.queue_position for start in starts] == [None] * 8 + list(range(1, 493))
        per_agent = Counter(event.agent_id for event in c.events if isinstance(event.body, AgentFinished))
        assert len(per_agent) == 500
        assert set(per_agent.values()) == {1}
        assert (c.runtime.slots.running, c.runtime.slots.queued) == (0, 0)
        assert c.session.view.status().finished == 500


@pytest.mark.requirement("E5")
@pytest.mark.asyncio
async def test_with_the_default_queue_each_task_beyond_it_has_an_error_of_its_own_in_its_place(workspace: Path) -> None:
    async with core(workspace, Crowd(fan_out(*MANY))) as c:
        await c.turn()
        agents = c.session.settings.current.agents
        room = agents.max_parallel_per_parent + agents.queue
        assert room == 72
        full = "8 sub-agents run and 64 wait; the queue is full"
        assert aggregate(c.told()[0]) == [
            *(success(task, f"answer to {task}") for task in MANY[:room]),
            *(failure(task, "runtime_error", full) for task in MANY[room:]),
        ]
        await c.caught_up()
        assert c.runtime.metrics.counters["failures.runtime_error"] == 500 - room


@pytest.mark.requirement("E5")
@pytest.mark.asyncio
async def test_places_in_the_queue_are_consecutive_and_are_told_as_they_change(workspace: Path) -> None:
    gate = asyncio.Event()
    turn_of: list[str] = []

    async def script(request: ModelRequest) -> Reply:
        if request.depth == 0:
            return say("ok") if len(request.messages) > 1 else fan_out("a", "b", "c", "d")
        turn_of.append(task_of(request))
        if len(turn_of) == 2:
            await gate.wait()
        return say("done")

    async with core(workspace, script, settings=small(max_parallel=1)) as c:
        turn = c.start()
        await c.seen(StatusChanged, lambda status: status.queue_position == 1)
        await c.seen(StatusChanged, lambda status: status.queue_position == 2)
        places = {node.info.label: node.queue_position for node in c.session.agents()[1:]}
        assert places == {"a": None, "b": None, "c": 1, "d": 2}
        gate.set()
        await c.finish(turn)
        assert turn_of == ["a", "b", "c", "d"]


@pytest.mark.requirement("E19")
@pytest.mark.parametrize("delegation", ["spawn_agents", "task"])
@pytest.mark.asyncio
async def test_sixty_four_that_end_in_the_same_moment_are_all_told(workspace: Path, delegation: str) -> None:
    tasks = MANY[:64]
    gate = asyncio.Event()
    asked: set[str] = set()
    all_asked = asyncio.Event()

    async def script(request: ModelRequest) -> Reply:
        if request.depth == 0:
            first = fan_out(*tasks) if delegation == "spawn_agents" else background(*tasks, kind="code_search")
            return say("ok") if len(request.messages) > 1 else first
        asked.add(request.agent_id)
        if len(asked) == 64:
            all_asked.set()
        await gate.wait()
        return say(f"answer to {task_of(request)}")

    settings = small(max_parallel=64, max_parallel_per_parent=64)
    async with core(workspace, script, settings=settings) as c:
        turn = c.start()
        async with asyncio.timeout(BOUND):
            await all_asked.wait()
        gate.set()
        await c.finish(turn)
        await c.seen(AgentFinished, lambda _: len(c.bodies(AgentFinished)) == 64)
        if delegation == "spawn_agents":
            assert aggregate(c.told()[0]) == [success(task, f"answer to {task}") for task in tasks]
        else:
            turns = c.session.turns
            await c.seen(StatusChanged, lambda _: turns.running is None and len(reported_ends(c.requests()[-1])) == 64)
            told = sorted(end["summary"] for end in reported_ends(c.requests()[-1]))
            assert told == sorted(f"answer to {task}" for task in tasks)
        assert {node.status for node in c.session.agents()[1:]} == {AgentStatus.COMPLETED}
        assert c.runtime.slots.running == 0


@pytest.mark.requirement("E19")
@pytest.mark.asyncio
async def test_while_hundreds_start_and_stop_everybody_else_has_a_turn_after_a_few_of_them(workspace: Path) -> None:
    asked: list[str] = []

    async def script(request: ModelRequest) -> Reply:
        if request.depth == 0:
            return fan_out(*MANY)
        asked.append(task_of(request))
        await asyncio.Event().wait()
        return say("never")

    settings = small(max_parallel=8, max_parallel_per_parent=8, queue=500)
    async with core(workspace, script, settings=settings) as c:
        children = c.session.supervisor.running
        steps: list[int] = []

        async def watch() -> None:
            while True:
                before = len(children)
                await asyncio.sleep(0)
                steps.append(len(children) - before)

        watching = asyncio.create_task(watch())
        turn = c.start()
        async with asyncio.timeout(BOUND):
            await _turns_until(lambda: len(asked) == 8)
            await c.session.turns.cancel()
        watching.cancel()
        assert (await c.finish(turn)).stop_reason == "cancelled"
        assert sum(step for step in steps if step > 0) == 500
        assert max(steps) <= 2
        assert min(steps) >= -64
        assert asked == MANY[:8], "none of those that wait starts because others are stopped"
        await c.caught_up()
        told = [e for e in c.events if e.agent_id != c.session.primary_id and isinstance(e.body, StatusChanged)]
        assert [event for event in told if event.body == StatusChanged(AgentStatus.RUNNING)] == []


@pytest.mark.asyncio
async def test_a_turn_that_is_cancelled_while_hundreds_are_accepted_starts_no_more_of_them(workspace: Path) -> None:
    async def script(request: ModelRequest) -> Reply:
        assert request.depth == 0, "no child runs"
        return fan_out(*MANY) if len(request.messages) == 1 else say("ok")

    async with core(workspace, script, settings=small(queue=500)) as c:
        children = c.session.supervisor.running
        turn = c.start()
        async with asyncio.timeout(BOUND):
            await _turns_until(lambda: len(children) == 20)
            await c.session.turns.cancel()
        assert (await c.finish(turn)).stop_reason == "cancelled"
        await c.caught_up()
        started, ended = c.bodies(AgentStarted)[1:], c.bodies(AgentFinished)
        assert 20 <= len(started) == len(ended) < 500
        assert {end.status for end in ended} == {AgentStatus.CANCELLED}
        assert (c.runtime.slots.running, c.runtime.slots.queued) == (0, 0)
        await c.turn("go on")


@pytest.mark.asyncio
async def test_a_turn_that_is_cancelled_before_the_first_is_accepted_starts_nobody(workspace: Path) -> None:
    async def script(request: ModelRequest) -> Reply:
        assert request.depth == 0, "no child runs"
        return fan_out(*MANY) if len(request.messages) == 1 else say("ok")

    async with core(workspace, script, settings=small(queue=500)) as c:
        turn = c.start()
        primary = c.session.supervisor.drivers[c.session.primary_id]
        async with asyncio.timeout(BOUND):
            await _turns_until(
                lambda: any(isinstance(call.progress, Running) for call in getattr(primary.state.phase, "calls", ()))
            )
            await c.session.turns.cancel()
        assert (await c.finish(turn)).stop_reason == "cancelled"
        assert len(c.session.agents()) == 1
        await c.turn("go on")
        (result,) = [b for m in c.requests()[-1].messages for b in m.content if isinstance(b, ToolResult)]
        assert result.content == "Sub-agent cancelled: parent cancelled."
