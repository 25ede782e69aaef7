"""A child whose answer must name places: looked up, sent back, and in the end believed with a warning."""

import asyncio
from pathlib import Path

import pytest

from deputy_agents.domain.event import AgentFinished, AgentStarted, Location, MessageAdded
from deputy_agents.domain.outcome import CANCELLED_BY_USER, AgentStatus
from deputy_agents.editor.references import CheckedReferences
from deputy_agents.model.scripted import call, say
from deputy_agents.run import answer_check
from tests.support.core import BOUND, Cast, core, delegate

DELEGATION = delegate("find it", require_file_references=True)


@pytest.fixture(autouse=True)
def place(workspace: Path) -> Location:
    file = workspace / "a.py"
    file.write_text("one\ntwo\n")
    return Location(str(file), 1, 2)


@pytest.mark.requirement("C7")
@pytest.mark.requirement("X6")
@pytest.mark.asyncio
async def test_an_answer_that_names_a_real_place_counts_at_once_and_can_be_jumped_to(
    workspace: Path, place: Location
) -> None:
    async with core(workspace, Cast([DELEGATION, say("ok")], {"find it": [say("In a.py:1-2.")]})) as c:
        await c.turn()
        assert c.told() == ["In a.py:1-2."]
        (finished,) = c.bodies(AgentFinished)
        (_, answer) = c.bodies(MessageAdded, c.child("find it").info.agent_id)
        assert (finished.references, answer.references) == ((place,), (place,))


@pytest.mark.requirement("C7")
@pytest.mark.asyncio
async def test_an_answer_without_a_place_goes_back_to_the_same_child_which_may_repair_it(workspace: Path) -> None:
    answers = [say("Somewhere."), say("In a.py:1-9 and b.py:1."), call("submit_result", result="In a.py:2-2.")]
    async with core(workspace, Cast([DELEGATION, say("ok")], {"find it": answers})) as c:
        await c.turn()
        assert c.told() == ["In a.py:2-2."]
        _, first, second = (request.messages[-1].text for request in c.requests("find it"))
        assert first.startswith("Your answer has no valid file reference.")
        assert "a.py:1-9: the file has 2 lines; b.py:1: the file does not exist" in second
        assert len({request.agent_id for request in c.requests("find it")}) == 1
        assert len(c.bodies(AgentStarted)) == 2


@pytest.mark.requirement("C7")
@pytest.mark.asyncio
async def test_a_child_that_never_names_a_place_is_believed_with_a_warning(workspace: Path) -> None:
    answers = [say("Somewhere."), say("I said somewhere."), say("In b.py:1-2.")]
    async with core(workspace, Cast([DELEGATION, say("ok")], {"find it": answers})) as c:
        await c.turn()
        warning = "[warning: the answer has no valid file reference (b.py:1-2: the file does not exist)]"
        assert c.told() == [f"In b.py:1-2.\n\n{warning}"]
        (finished,) = c.bodies(AgentFinished)
        assert (finished.status, finished.references) == (AgentStatus.COMPLETED, ())


@pytest.mark.asyncio
async def test_a_child_can_be_cancelled_while_its_answer_is_checked_and_the_answer_is_kept(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checking = asyncio.Event()

    async def hang(*_: object) -> CheckedReferences:
        checking.set()
        return await asyncio.Event().wait()  # pyright: ignore[reportReturnType]

    answer = call("submit_result", result="In a.py:1-2.")
    async with core(workspace, Cast([DELEGATION, say("ok")], {"find it": [answer]})) as c:
        async with asyncio.timeout(BOUND):
            with monkeypatch.context() as patch:
                patch.setattr(answer_check, "check", hang)
                turn = c.start()
                await checking.wait()
            assert await c.session.cancel_agent(c.child("find it").info.agent_id)
        await c.finish(turn)
        assert c.told() == [CANCELLED_BY_USER]
        (finished,) = c.bodies(AgentFinished)
        assert (finished.status, finished.result) == (AgentStatus.CANCELLED, "In a.py:1-2.")
