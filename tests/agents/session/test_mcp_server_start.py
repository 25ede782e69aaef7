"""A prompt that waits for MCP servers: the user knows for which, and can cancel it at once."""

import asyncio
from pathlib import Path

import anyio
import pytest

from deputy_agents.domain.event import StatusChanged, TurnFinished, TurnStarted
from deputy_agents.domain.message import Text
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.domain.turn import Turn
from deputy_agents.model.scripted import say
from deputy_agents.session import mcp_servers
from tests.support.core import BOUND, Cast, Core, Person, core
from tests.support.mcp_workspaces import SILENT_SERVER, configure_user_mcp_servers

pytestmark = pytest.mark.asyncio


@pytest.fixture(autouse=True)
def _told_soon_and_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_servers, "SILENCE", 0.01)
    monkeypatch.setattr(mcp_servers, "PATIENCE", 10 * BOUND)


@pytest.fixture
def project(workspace: Path) -> Path:
    configure_user_mcp_servers(workspace.parent / "home", deaf=SILENT_SERVER)
    return workspace


async def waiting(c: Core, tasks: asyncio.TaskGroup, *, queue: bool = False) -> "asyncio.Task[Turn]":
    """A prompt that waits for the server."""
    await c.session.refresh()
    prompt = tasks.create_task(c.session.prompts.accept([Text("go")], queue=queue))
    await c.seen(StatusChanged, lambda status: status.detail == "waiting for the MCP server deaf")
    return prompt


async def test_the_user_is_told_for_which_server_a_prompt_waits_and_cancelling_ends_it_unasked(project: Path) -> None:
    async with core(project, Cast([]), Person()) as c, asyncio.timeout(BOUND), asyncio.TaskGroup() as tasks:
        prompt = await waiting(c, tasks)
        assert not c.session.idle
        assert await c.session.cancel() is True
        assert (await (await prompt).result()).stop_reason == "cancelled"
        assert c.requests() == []
        await c.caught_up()
        assert len(c.bodies(TurnStarted)) == 1
        assert [one.stop_reason for one in c.bodies(TurnFinished)] == ["cancelled"]
        last = c.bodies(StatusChanged)[-1]
        assert (last.status, last.detail) == (AgentStatus.IDLE, None)


async def test_all_prompts_that_wait_are_cancelled_together(project: Path) -> None:
    async with core(project, Cast([]), Person()) as c, asyncio.timeout(BOUND), asyncio.TaskGroup() as tasks:
        first = await waiting(c, tasks)
        second = tasks.create_task(c.session.prompts.accept([Text("and then")], queue=True))
        await asyncio.sleep(0)
        await c.session.cancel()
        turns = [await first, await second]
        assert [(await turn.result()).stop_reason for turn in turns] == ["cancelled", "cancelled"]
        assert c.requests() == []


async def test_a_caller_that_is_cancelled_still_learns_how_its_turn_ended(project: Path) -> None:
    ended: list[str] = []

    async def ask(c: Core, scope: anyio.CancelScope) -> None:
        with scope:
            turn = await c.session.prompts.accept([Text("go")])
            with anyio.CancelScope(shield=True):
                ended.append((await turn.result()).stop_reason)

    async with core(project, Cast([]), Person()) as c, asyncio.timeout(BOUND), asyncio.TaskGroup() as tasks:
        await c.session.refresh()
        scope = anyio.CancelScope()
        tasks.create_task(ask(c, scope))
        await c.seen(StatusChanged, lambda status: status.detail)
        scope.cancel()
        await c.until(lambda: bool(ended))
        assert ended == ["cancelled"]
        assert c.requests() == []


async def test_a_session_that_is_closed_answers_the_prompt_that_waits_as_cancelled(project: Path) -> None:
    async with core(project, Cast([]), Person()) as c, asyncio.timeout(BOUND), asyncio.TaskGroup() as tasks:
        prompt = await waiting(c, tasks)
        await c.runtime.delete(c.session.id)
        assert (await (await prompt).result()).stop_reason == "cancelled"


async def test_a_cancel_between_the_call_of_a_client_and_the_prompt_counts(project: Path) -> None:
    async with core(project, Cast([say("the next one")]), Person()) as c, asyncio.timeout(BOUND):
        since = c.session.prompts.cancels
        await c.session.cancel()
        turn = await c.session.prompts.accept([Text("go")], since=since)
        assert (await turn.result()).stop_reason == "cancelled"
        turn = await c.session.prompts.accept([Text("next")], since=c.session.prompts.cancels)
        assert (await turn.result()).stop_reason == "end_turn"
