"""Prompts: one turn at a time, a bounded queue behind it, and what a session tells of itself."""

import asyncio
from pathlib import Path

import pytest

from deputy_agents.domain.errors import Overloaded, WrongState
from deputy_agents.domain.event import PromptQueue, SessionChanged, StatusChanged, TurnFinished, TurnStarted
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.domain.settings import Limits, Settings
from deputy_agents.model.scripted import call, say
from tests.support.core import BOUND, Cast, Core, Pause, core, task_of


async def first_turn(c: Core, pause: Pause) -> None:
    c.start("first")
    async with asyncio.timeout(BOUND):
        await pause.asked.wait()


def prompts_of(c: Core) -> list[str]:
    """What the last request of the model holds of the user's, in order."""
    return [
        block.text for m in c.requests()[-1].messages if m.role == "user" for block in m.content if block.type == "text"
    ]


@pytest.mark.asyncio
async def test_a_prompt_during_a_turn_is_rejected_unless_it_may_wait(workspace: Path) -> None:
    pause = Pause(say("1"))
    async with core(workspace, Cast([pause])) as c:
        await first_turn(c, pause)
        assert c.session.turns.running is not None
        with pytest.raises(WrongState, match="queue: true"):
            c.start("second")
        pause.go.set()


@pytest.mark.requirement("X22")
@pytest.mark.asyncio
async def test_queued_prompts_are_shown_and_run_in_order_each_as_a_turn_of_its_own(workspace: Path) -> None:
    pause = Pause(say("1"))
    async with core(workspace, Cast([pause, say("2"), say("3")])) as c:
        await first_turn(c, pause)
        second, third = c.start("second", queue=True), c.start("third", queue=True)
        pause.go.set()
        await c.finish(third)
        assert second.outcome is not None
        await c.caught_up()
        queues = [[prompt.text for prompt in body.entries] for body in c.bodies(PromptQueue)]
        assert queues[-1] == []
        assert ["third"] in queues
        assert prompts_of(c) == ["first", "second", "third"]
        turns = [body.turn_id for body in c.bodies(TurnStarted)]
        assert turns[1:] == [second.turn_id, third.turn_id]
        assert [body.turn_id for body in c.bodies(TurnFinished)] == turns


@pytest.mark.requirement("X22")
@pytest.mark.asyncio
async def test_a_queued_prompt_can_be_withdrawn_once(workspace: Path) -> None:
    pause = Pause(say("1"))
    async with core(workspace, Cast([pause, say("3")])) as c:
        await first_turn(c, pause)
        second, third = c.start("second", queue=True), c.start("third", queue=True)
        assert c.session.turns.withdraw(second.turn_id) is True
        assert c.session.turns.withdraw(second.turn_id) is False
        assert c.session.turns.withdraw("unknown") is False
        assert (await c.finish(second)).stop_reason == "cancelled"
        pause.go.set()
        assert (await c.finish(third)).stop_reason == "end_turn"
        assert c.session.turns.withdraw(third.turn_id) is False
        assert prompts_of(c) == ["first", "third"]


@pytest.mark.asyncio
async def test_nobody_overtakes_a_queued_prompt(workspace: Path) -> None:
    """Whoever prompts at the very moment in which a turn ends comes behind those that wait already."""
    pause = Pause(say("1"))
    async with core(workspace, Cast([pause, say("2"), say("3")])) as c:
        await first_turn(c, pause)
        c.start("waits", queue=True)

        async def prompt_when_the_first_turn_ends() -> None:
            async for event in c.session.log.subscribe():
                if isinstance(event.body, TurnFinished):
                    await c.start("comes late", queue=True).result()
                    return

        late = asyncio.create_task(prompt_when_the_first_turn_ends())
        await asyncio.sleep(0)
        pause.go.set()
        async with asyncio.timeout(BOUND):
            await late
        assert prompts_of(c) == ["first", "waits", "comes late"]


@pytest.mark.asyncio
async def test_the_prompt_queue_is_bounded(workspace: Path) -> None:
    pause = Pause(say("1"))
    async with core(workspace, Cast([pause]), settings=Settings(limits=Limits(prompt_queue=2))) as c:
        await first_turn(c, pause)
        for text in ("a", "b"):
            c.start(text, queue=True)
        with pytest.raises(Overloaded):
            c.start("c", queue=True)


@pytest.mark.asyncio
async def test_all_events_of_a_turn_are_published_before_its_result(workspace: Path) -> None:
    async with core(workspace, Cast([say("1")])) as c:
        turn = c.start()
        await turn.result()
        bodies = [event.body for event in await c.store.events(c.session.id)]
        assert isinstance(bodies[-2], TurnFinished)
        assert bodies[-1] == StatusChanged(AgentStatus.IDLE)
        assert c.session.log.last_seq == len(bodies)


@pytest.mark.asyncio
async def test_a_session_is_named_after_its_first_prompt_only(workspace: Path) -> None:
    async with core(workspace, Cast([say("1"), say("2")])) as c:
        await c.turn("Find   the\nretry loop")
        await c.turn("Something else")
        assert c.session.record.title == "Find the retry loop"
        await c.caught_up()
        assert len(c.bodies(SessionChanged)) == 1
        assert task_of(c.requests()[0]) == "Find   the\nretry loop"


@pytest.mark.asyncio
async def test_a_turn_ends_at_its_limit_of_model_requests(workspace: Path) -> None:
    looks = [call("list_dir", path="."), call("list_dir", path=".")]
    async with core(workspace, Cast([*looks, say("ok")]), settings=Settings(limits=Limits(turn_iterations=2))) as c:
        assert (await c.turn()).stop_reason == "max_turn_requests"
        assert (await c.turn("go on")).stop_reason == "end_turn"
