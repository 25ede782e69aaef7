"""``task``: a child in the background, its end told once, and further runs of it."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from deputy_agents.domain.event import (
    AgentFinished,
    AgentStarted,
    CallStatus,
    ToolCallUpdated,
    TurnFinished,
    TurnStarted,
)
from deputy_agents.domain.message import Text
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.domain.settings import Settings
from deputy_agents.model.scripted import call, calls, say, use
from deputy_agents.project.facts import TITLE
from tests.support.core import BOUND, Cast, Core, Pause, core, delegate, results, small, task_of
from tests.support.delegation import accepted, background, background_use, define, reported_ends

ASLEEP = small(wake_on_task_end=False)


async def asked(pause: Pause) -> None:
    async with asyncio.timeout(BOUND):
        await pause.asked.wait()


async def turns_over(c: Core, count: int) -> None:
    """Returns when that many turns have ended."""
    await c.seen(TurnFinished, lambda _: len(c.bodies(TurnFinished)) >= count)
    await c.caught_up()


def first_id(c: Core) -> str:
    """The id that the first call of ``task`` answered."""
    return str(accepted(c.requests()[1])[0]["task_id"])


# -- acceptance and end --------------------------------------------------------------------------------------------


@pytest.mark.requirement("E1")
@pytest.mark.requirement("E12")
@pytest.mark.asyncio
async def test_the_call_answers_at_once_and_the_end_wakes_the_idle_parent_with_a_turn_of_its_own(
    workspace: Path,
) -> None:
    pause = Pause(say("All green."))
    cast = Cast([background("run checks"), say("Started."), say("They pass.")], {"run checks": [pause]})
    async with core(workspace, cast) as c:
        await c.turn()
        (answer,) = accepted(c.requests()[1])
        child = c.child("do run checks")
        assert answer == {
            "task_id": child.info.agent_id,
            "status": "running",
            "message": "The task is running. You will get a message when it ends.",
        }
        assert (child.status, c.session.turns.running) == (AgentStatus.RUNNING, None)
        (update,) = [body for body in c.bodies(ToolCallUpdated) if body.status is CallStatus.COMPLETED]
        assert update.content == json.dumps(answer)

        pause.go.set()
        await turns_over(c, 2)
        assert [turn.origin for turn in c.bodies(TurnStarted)] == ["user", "task_end"]
        (told,) = c.requests()[-1].messages[-1].content
        assert isinstance(told, Text)
        assert json.loads(told.text) == {
            "task_id": child.info.agent_id,
            "status": "completed",
            "summary": "All green.",
        }
        assert len(reported_ends(c.requests()[-1])) == 1


@pytest.mark.requirement("E12")
@pytest.mark.asyncio
async def test_an_end_while_the_parent_works_is_told_with_its_next_tool_results(workspace: Path) -> None:
    child, parent = Pause(say("found")), Pause(call("list_dir", path="."))
    cast = Cast([background("look"), parent, say("ok")], {"look": [child]})
    async with core(workspace, cast) as c:
        turn = c.start()
        await asked(parent)
        child.go.set()
        await c.seen(AgentFinished)
        parent.go.set()
        await c.finish(turn)
        last = c.requests()[-1].messages[-1]
        assert [block.type for block in last.content] == ["tool_result", "text"]
        assert [end["summary"] for end in reported_ends(c.requests()[-1])] == ["found"]
        assert len(c.bodies(TurnStarted)) == 1


@pytest.mark.requirement("E12")
@pytest.mark.asyncio
async def test_an_end_during_the_parents_last_words_is_told_before_its_turn_ends(workspace: Path) -> None:
    child, parent = Pause(say("found")), Pause(say("I wait."))
    cast = Cast([background("look"), parent, say("It is found.")], {"look": [child]})
    async with core(workspace, cast) as c:
        turn = c.start()
        await asked(parent)
        child.go.set()
        await c.seen(AgentFinished)
        parent.go.set()
        await c.finish(turn)
        assert [end["summary"] for end in reported_ends(c.requests()[-1])] == ["found"]
        assert len(c.bodies(TurnStarted)) == 1


@pytest.mark.asyncio
async def test_without_waking_an_end_is_told_before_the_next_prompt(workspace: Path) -> None:
    child = Pause(say("found"))
    cast = Cast([background("look"), say("Started."), say("Yes.")], {"look": [child]})
    async with core(workspace, cast, settings=ASLEEP) as c:
        await c.turn()
        child.go.set()
        await c.seen(AgentFinished)
        await c.caught_up()
        assert c.session.turns.running is None
        await c.turn("Is it done?")
        end, prompt = c.requests()[-1].messages[-1].content
        assert isinstance(end, Text)
        assert json.loads(end.text)["summary"] == "found"
        assert prompt == Text("Is it done?")
        assert len(c.bodies(TurnStarted)) == 2


@pytest.mark.asyncio
async def test_a_failed_and_a_cancelled_one_are_told_with_their_error_and_what_they_had_found(workspace: Path) -> None:
    cancelled = Pause(say("never"))
    children = {
        "gives up": [calls([use("submit_error", error="no tests here")], "I looked.")],
        "is stopped": [call("list_dir", path="."), cancelled],
    }
    lines = [background(*children), say("Started."), say("One failed."), say("One is stopped.")]
    async with core(workspace, Cast(lines, children)) as c:
        await c.turn()
        await asked(cancelled)
        await turns_over(c, 2)
        async with asyncio.timeout(BOUND):
            await c.session.cancel_agent(c.child("do is stopped").info.agent_id)
        await turns_over(c, 3)
        ends = [{name: end[name] for name in end if name != "task_id"} for end in reported_ends(c.requests()[-1])]
        assert ends == [
            {"status": "failed", "summary": "I looked.", "error": "sub_agent_error: no tests here"},
            {"status": "cancelled", "summary": "", "error": "Sub-agent cancelled by user."},
        ]


@pytest.mark.asyncio
async def test_a_child_that_finds_no_place_is_queued_and_its_answer_says_where(workspace: Path) -> None:
    first, second = Pause(say("1")), Pause(say("2"))
    cast = Cast([background("first", "second"), say("Started.")], {"first": [first], "second": [second]})
    async with core(workspace, cast, settings=small(max_parallel=1, wake_on_task_end=False)) as c:
        await c.turn()
        assert [(answer["status"], answer["message"]) for answer in accepted(c.requests()[1])] == [
            ("running", "The task is running. You will get a message when it ends."),
            ("queued", "The task is number 1 in the queue. You will get a message when it ends."),
        ]
        starts = [(start.status, start.queue_position) for start in c.bodies(AgentStarted)[1:]]
        assert starts == [(AgentStatus.RUNNING, None), (AgentStatus.PENDING, 1)]
        assert c.child("do second").status is AgentStatus.PENDING
        first.go.set()
        await asked(second)
        assert c.child("do second").status is AgentStatus.RUNNING
        second.go.set()
        await c.seen(AgentFinished, lambda end: end.result == "2")


@pytest.mark.asyncio
async def test_a_full_queue_is_a_tool_error_and_starts_nobody(workspace: Path) -> None:
    pause = Pause(say("1"))
    cast = Cast([background("first", "second"), say("Started.")], {"first": [pause]})
    async with core(workspace, cast, settings=small(max_parallel=1, queue=0, wake_on_task_end=False)) as c:
        await c.turn()
        _, refused = results(c.requests()[1])
        assert (refused.is_error, refused.content) == (
            True,
            "No sub-agent was started: 1 sub-agents run and 0 wait; the queue is full",
        )
        assert len(c.session.agents()) == 2


@pytest.mark.asyncio
async def test_a_prompt_during_a_woken_turn_waits_for_its_end(workspace: Path) -> None:
    child, woken = Pause(say("found")), Pause(say("It is found."))
    cast = Cast([background("look"), say("Started."), woken, say("Hello.")], {"look": [child]})
    async with core(workspace, cast) as c:
        await c.turn()
        child.go.set()
        await asked(woken)
        prompt = c.start("Hello?")
        assert len(c.requests()) == 3
        woken.go.set()
        assert (await c.finish(prompt)).stop_reason == "end_turn"
        assert c.requests()[-1].messages[-1].content == (Text("Hello?"),)
        assert [turn.origin for turn in c.bodies(TurnStarted)] == ["user", "task_end", "user"]


@pytest.mark.asyncio
async def test_two_that_end_together_are_each_told_once(workspace: Path) -> None:
    pauses = {name: Pause(say(name.upper())) for name in ("a", "b")}
    cast = Cast(
        [background(*pauses, kind="code_search"), say("Started."), say("one"), say("two")],
        {n: [p] for n, p in pauses.items()},
    )
    async with core(workspace, cast) as c:
        await c.turn()
        for pause in pauses.values():
            await asked(pause)
        for pause in pauses.values():
            pause.go.set()
        turns = c.session.turns
        await c.seen(TurnFinished, lambda _: len(reported_ends(c.requests()[-1])) == 2 and turns.running is None)
        assert sorted(end["summary"] for end in reported_ends(c.requests()[-1])) == ["A", "B"]


# -- ending ----------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_cancelling_the_turn_leaves_background_children_running_and_cancelling_the_session_does_not(
    workspace: Path,
) -> None:
    child, parent = Pause(say("never")), Pause(say("never"))
    cast = Cast([background("look"), parent], {"look": [child]})
    async with core(workspace, cast) as c:
        turn = c.start()
        await asked(parent)
        await asked(child)
        async with asyncio.timeout(BOUND):
            await c.session.turns.cancel()
        assert (await c.finish(turn)).stop_reason == "cancelled"
        assert c.child("do look").status is AgentStatus.RUNNING
        async with asyncio.timeout(BOUND):
            assert await c.session.cancel()
        assert c.child("do look").status is AgentStatus.CANCELLED
        assert c.child("do look").error == "Sub-agent cancelled: parent cancelled."
        await c.caught_up()
        assert c.session.turns.running is None
        assert len(c.bodies(TurnStarted)) == 1, "a cancelled session is not woken by what was cancelled with it"


@pytest.mark.asyncio
async def test_a_child_that_ends_first_cancels_its_own_background_children(workspace: Path) -> None:
    define(workspace, "lead", ["tools: [list_dir, task]"])
    grandchild = Pause(say("never"))
    delegation = use("spawn_agents", tasks=[{"task": "lead it", "subagent_type": "lead", "mode": "default"}])
    wait = Pause(say("I do not wait."))
    cast = Cast([calls([delegation]), say("ok")], {"lead it": [background("dig"), wait], "dig": [grandchild]})
    async with core(workspace, cast, settings=small(max_depth=2)) as c:
        turn = c.start()
        await asked(wait)
        await asked(grandchild)
        wait.go.set()
        await c.finish(turn)
        assert "I do not wait." in c.told()[0]
        ends = [(event.agent_id, event.body.status) for event in c.events if isinstance(event.body, AgentFinished)]
        assert ends == [
            (c.child("do dig").info.agent_id, AgentStatus.CANCELLED),
            (c.child("lead it").info.agent_id, AgentStatus.COMPLETED),
        ]


# -- further runs --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("E1")
@pytest.mark.asyncio
async def test_with_a_task_id_the_same_child_goes_on_with_all_that_it_knows(workspace: Path) -> None:
    child = [say("It is in a.py."), Pause(say("Line 3."))]

    def again(request: object) -> object:
        return calls([background_use("Which line?", task_id=first_id(c))])

    lines = [background("Find it."), say("Started."), again, say("Asked again."), say("Thanks.")]
    async with core(workspace, Cast(lines, {"Find it.": child}), settings=ASLEEP) as c:  # pyright: ignore[reportArgumentType]
        await c.turn()
        await c.seen(AgentFinished)
        await c.turn("Which line?")
        (second,) = accepted(c.requests()[-1])
        assert (second["task_id"], second["status"]) == (first_id(c), "running")
        pause = child[1]
        assert isinstance(pause, Pause)
        await asked(pause)
        node = c.child("do Find it.")
        assert (node.run, node.status) == (2, AgentStatus.RUNNING)
        assert task_of(c.requests("Find it.")[-1]) == "Find it."
        task, facts, *rest = (text for message in c.requests("Find it.")[-1].messages for text in message.content)
        assert isinstance(facts, Text)
        assert facts.text.startswith(TITLE)
        assert [task, *rest] == [Text("Find it."), Text("It is in a.py."), Text("Which line?")]
        pause.go.set()
        await c.seen(AgentFinished, lambda end: end.result == "Line 3.")
        events = [event for event in c.durable() if event.agent_id == node.info.agent_id]
        assert [event.run for event in events if isinstance(event.body, AgentStarted)] == [1, 2]
        assert [event.run for event in events if isinstance(event.body, AgentFinished)] == [1, 2]
        second_run = [event.agent_seq for event in events if event.run == 2]
        assert second_run == list(range(1, len(second_run) + 1))
        await c.turn("And?")
        assert [end["summary"] for end in reported_ends(c.requests()[-1])] == ["It is in a.py.", "Line 3."]


@pytest.mark.requirement("E1")
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("running", "is still running; wait for the notice that it has ended"),
        ("unknown", "there is no task 0190-nobody to resume here"),
        ("other kind", "is a general, not a code_search"),
    ],
)
@pytest.mark.asyncio
async def test_what_cannot_be_continued_is_a_tool_error_and_changes_nothing(
    workspace: Path, what: str, message: str
) -> None:
    pause = Pause(say("found"))

    def again(request: object) -> object:
        kind = "code_search" if what == "other kind" else "general"
        task_id = "0190-nobody" if what == "unknown" else first_id(c)
        return calls([background_use("More.", kind, task_id=task_id)])

    lines = [background("look"), say("Started."), again, say("ok"), say("ok")]
    async with core(workspace, Cast(lines, {"look": [pause]}), settings=ASLEEP) as c:  # pyright: ignore[reportArgumentType]
        await c.turn()
        await asked(pause)
        if what == "other kind":
            pause.go.set()
            await c.seen(AgentFinished)
        await c.turn("more")
        (result,) = results(c.requests()[-1])
        assert result.is_error
        assert message in result.content
        assert (c.child("do look").run, len(c.session.agents())) == (1, 2)
        pause.go.set()


@pytest.mark.asyncio
async def test_a_run_that_finds_no_place_leaves_the_child_as_it_was(workspace: Path) -> None:
    pause = Pause(say("never"))

    def again(request: object) -> object:
        return calls([background_use("busy"), background_use("More.", task_id=first_id(c))])

    lines = [background("look"), say("Started."), again, say("ok")]
    settings = small(max_parallel=1, queue=0, wake_on_task_end=False)
    cast = Cast(lines, {"look": [say("found")], "busy": [pause]})  # pyright: ignore[reportArgumentType]
    async with core(workspace, cast, settings=settings) as c:
        await c.turn()
        await c.seen(AgentFinished)
        before = c.child("do look")
        await c.turn("more")
        _, refused = results(c.requests()[-1])
        assert "the queue is full" in refused.content
        assert c.child("do look") == before
        assert len([event for event in c.bodies(AgentStarted) if event.info == before.info]) == 1


@pytest.mark.asyncio
async def test_a_child_of_another_parent_cannot_be_continued(workspace: Path) -> None:
    define(workspace, "lead", ["tools: [list_dir, task]"])

    def steal(request: object) -> object:
        return calls([background_use("More.", task_id=first_id(c))])

    delegation = use("spawn_agents", tasks=[{"task": "lead it", "subagent_type": "lead", "mode": "default"}])
    lines = [background("look"), say("Started."), calls([delegation]), say("ok")]
    children = {"look": [say("found")], "lead it": [steal, say("I cannot.")]}
    settings = replace(small(max_depth=2), agents=replace(ASLEEP.agents, max_depth=2))
    async with core(workspace, Cast(lines, children), settings=settings) as c:  # pyright: ignore[reportArgumentType]
        await c.turn()
        await c.seen(AgentFinished)
        await c.turn("steal it")
        (result,) = results(c.requests("lead it")[-1])
        assert result.is_error
        assert "there is no task" in result.content


@pytest.mark.parametrize("missing", ["description", "prompt", "subagent_type"])
@pytest.mark.asyncio
async def test_a_field_that_is_missing_is_named(workspace: Path, missing: str) -> None:
    fields: dict[str, object] = {"description": "d", "prompt": "p", "subagent_type": "general"}
    del fields[missing]
    async with core(workspace, Cast([call("task", **fields), say("ok")]), settings=Settings()) as c:
        await c.turn()
        (result,) = results(c.requests()[-1])
        assert result.is_error
        assert f"{missing}: " in result.content
        assert len(c.session.agents()) == 1


@pytest.mark.asyncio
async def test_a_waiting_delegation_tool_beside_a_background_one_waits_for_its_own_child_alone(workspace: Path) -> None:
    pause = Pause(say("late"))
    reply = calls(
        [background_use("slow"), *[block for block in delegate("fast").message.content if block.type == "tool_use"]]
    )
    cast = Cast([reply, say("ok")], {"slow": [pause], "fast": [say("fast answer")]})
    async with core(workspace, cast, settings=ASLEEP) as c:
        await c.turn()
        assert c.told()[1] == "fast answer"
        assert c.child("do slow").status is AgentStatus.RUNNING
        pause.go.set()
        await c.seen(AgentFinished, lambda end: end.result == "late")
