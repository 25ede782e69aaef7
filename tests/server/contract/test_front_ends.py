"""Behaviour that both front ends for editors share, tested over their own protocols."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.server.contract.front_ends import Ending, Front, Shown, acp, language_server
from tests.support.messages_api import MessagesApi, Script, messages_api
from tests.support.model_replies import Json, Play, call, calls, failing, say
from tests.support.shared_server import is_child, last_text, spawning

pytestmark = pytest.mark.asyncio

Open: TypeAlias = Callable[..., AbstractAsyncContextManager[Front]]


@pytest.fixture(params=[language_server, acp], ids=["lsp", "acp"])
def opened(request: pytest.FixtureRequest, workspace: Path) -> Open:
    """Start one of the front ends in ``workspace`` with a model and additional environment variables."""

    @asynccontextmanager
    async def start(api: MessagesApi, **more: str) -> AsyncGenerator[Front]:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.url, "DEPUTY_MODEL": "m", **more}
        async with request.param(env, workspace) as front:
            yield front
        assert api.violations == []

    return start


def own_hook(home: Path, run: str) -> None:
    """The user has a hook at the end of turns."""
    own = home / ".deputy/settings.json"
    own.parent.mkdir(parents=True)
    own.write_text(json.dumps({"hooks": [{"on": "turn_end", "run": run}]}))


def writing(path: str) -> Script:
    def child(body: Json, _: int) -> Play:
        return calls(call("write_file", path=path, content="new\n")) if len(body["messages"]) == 1 else say("I wrote.")

    return spawning("write it", child=child, mode="default")


async def test_a_prompt_gets_text_and_a_stop_reason_and_is_loaded_by_another_process(
    opened: Open, workspace: Path
) -> None:
    async with messages_api(writing("a.txt")) as api:
        async with opened(api) as front:
            session = await front.open(workspace)
            assert await front.say(session, "go") == Ending("end_turn")
            live = front.shown(session)
        assert live == Shown(
            said=(("assistant", "I wrote."), ("assistant", "done"), ("user", "go"), ("user", "write it")),
            calls=(("spawn_agent", "completed"), ("write_file", "completed")),
            children=(("write it", "completed"),),
        )
        async with opened(api) as front:
            await front.load(session, workspace)
            assert front.shown(session) == live
            assert front.permission_requests == []
            assert await front.say(session, "again") == Ending("end_turn")


@pytest.mark.parametrize(("answer", "written"), [("allow_once", True), ("reject_once", False)])
async def test_a_permission_request_names_its_sub_agent_and_only_approval_runs_the_call(
    opened: Open, workspace: Path, answer: str, written: bool
) -> None:
    async with messages_api(writing("a.txt")) as api, opened(api) as front:
        front.answer = answer
        session = await front.open(workspace)
        assert await front.say(session, "go") == Ending("end_turn")
        assert front.permission_requests == ["[write it] write_file(a.txt)"]
        assert (workspace / "a.txt").exists() == written


async def test_cancelling_a_turn_ends_its_sub_agents_and_requests_and_the_next_turn_works(
    opened: Open, workspace: Path
) -> None:
    async with messages_api(writing("a.txt")) as api, opened(api) as front:
        front.answer = ""
        session = await front.open(workspace)
        prompt = front.start(session, "go")
        await front.asked()
        await front.cancel(session)
        assert await front.end_of(prompt) == Ending("cancelled")
        await front.withdrawn()
        assert front.shown(session).children == (("write it", "cancelled"),)
        assert not (workspace / "a.txt").exists()
        api.script = lambda _body, _n: say("here again")
        assert await front.say(session, "again") == Ending("end_turn")


async def test_a_sub_agent_is_cancelled_alone(opened: Open, workspace: Path) -> None:
    gate = asyncio.Event()

    def child(body: Json, _: int) -> Play:
        return say(f"late: {last_text(body)}", gate=gate)

    async with messages_api(spawning("first", "second", child=child)) as api, opened(api) as front:
        session = await front.open(workspace)
        prompt = front.start(session, "go")
        await api.until(lambda: len([body for body in api.bodies if is_child(body)]) == 2)
        await front.cancel_child(session, "first")
        gate.set()
        assert await front.end_of(prompt) == Ending("end_turn")
        assert front.shown(session).children == (("first", "cancelled"), ("second", "completed"))
        results = [str(block["content"]) for block in api.bodies[-1]["messages"][-1]["content"]]
        assert results == ["Sub-agent cancelled by user.", "late: second"]


async def test_a_model_failure_has_an_action_and_the_session_continues(opened: Open, workspace: Path) -> None:
    async with messages_api(lambda _b, _n: failing(401, "authentication_error")) as api, opened(api) as front:
        session = await front.open(workspace)
        failed = await front.say(session, "go")
        assert failed.code == -32006
        assert failed.action
        api.script = lambda _body, _n: say("the key is right now")
        assert await front.say(session, "again") == Ending("end_turn")


async def test_a_prompt_is_answered_after_the_turn_that_its_hook_appended(
    opened: Open, workspace: Path, tmp_path: Path
) -> None:
    own_hook(tmp_path / "own", "echo '2 tests fail'; exit 2")

    def script(body: Json, _: int) -> Play:
        return say("fixed" if "2 tests fail" in last_text(body) else "done")

    async with messages_api(script) as api, opened(api, HOME=str(tmp_path / "own")) as front:
        session = await front.open(workspace)
        assert await front.say(session, "go") == Ending("end_turn")
        assert ("assistant", "fixed") in front.shown(session).said
        assert len(api.bodies) == 2


async def test_hooks_at_the_end_of_a_turn_are_cancelled_with_it(opened: Open, workspace: Path, tmp_path: Path) -> None:
    own_hook(tmp_path / "own", "touch begun; sleep 615; exit 2")
    async with messages_api(lambda _b, _n: say("done")) as api, opened(api, HOME=str(tmp_path / "own")) as front:
        session = await front.open(workspace)
        prompt = front.start(session, "go")
        while not (workspace / "begun").exists():  # noqa: ASYNC110 - a hook has no other way to tell
            await asyncio.sleep(0.02)
        await front.cancel(session)
        assert await front.end_of(prompt) == Ending("end_turn")
        assert len(api.bodies) == 1
