"""What both front ends for editors promise, over their own protocols: one suite for the two."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.server.contract.fronts import Ending, Front, Shown, acp, language_server
from tests.support.messages_api import MessagesApi, Script, messages_api
from tests.support.model_replies import Json, Play, call, calls, failing, say
from tests.support.shared_server import is_child, last_text, spawning

pytestmark = pytest.mark.asyncio

Open: TypeAlias = Callable[..., AbstractAsyncContextManager[Front]]


@pytest.fixture(params=[language_server, acp], ids=["lsp", "acp"])
def opened(request: pytest.FixtureRequest, workspace: Path) -> Open:
    """Starts one of the front ends in ``workspace``, in front of a model, with more variables where there are any."""

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


async def test_a_prompt_is_answered_with_text_and_an_end_and_shown_again_by_another_process(
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
async def test_a_childs_permission_request_names_it_and_only_a_yes_lets_it_happen(
    opened: Open, workspace: Path, answer: str, written: bool
) -> None:
    async with messages_api(writing("a.txt")) as api, opened(api) as front:
        front.answer = answer
        session = await front.open(workspace)
        assert await front.say(session, "go") == Ending("end_turn")
        assert front.permission_requests == ["[write it] write_file(a.txt)"]
        assert (workspace / "a.txt").exists() == written


async def test_a_cancelled_turn_ends_with_its_children_and_permission_requests_and_the_next_one_works(
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


async def test_a_child_is_cancelled_alone(opened: Open, workspace: Path) -> None:
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


async def test_a_failure_of_the_model_says_what_to_do_and_the_session_goes_on(opened: Open, workspace: Path) -> None:
    async with messages_api(lambda _b, _n: failing(401, "authentication_error")) as api, opened(api) as front:
        session = await front.open(workspace)
        failed = await front.say(session, "go")
        assert failed.code == -32006
        assert failed.action
        api.script = lambda _body, _n: say("the key is right now")
        assert await front.say(session, "again") == Ending("end_turn")


async def test_a_prompt_whose_hook_sends_the_agent_back_is_answered_after_what_it_did_then(
    opened: Open, workspace: Path, tmp_path: Path
) -> None:
    own_hook(tmp_path / "own", "echo '2 tests fail'; exit 2")

    def script(body: Json, _: int) -> Play:
        return say("mended" if "2 tests fail" in last_text(body) else "done")

    async with messages_api(script) as api, opened(api, HOME=str(tmp_path / "own")) as front:
        session = await front.open(workspace)
        assert await front.say(session, "go") == Ending("end_turn")
        assert ("assistant", "mended") in front.shown(session).said
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
