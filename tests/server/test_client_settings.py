"""Two clients with different settings on one server: neither gets the power of the other.

Each test has a generous client, which trusts everything, and a careful one. What the generous one allows must never
hold in a session of the careful one, whoever connected, changed settings or disconnected in between.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest
import pytest_asyncio

from tests.support.messages_api import MessagesApi, Script, messages_api
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import RpcClient, Unanswered
from tests.support.sockets import Server, listening

pytestmark = pytest.mark.asyncio(loop_scope="module")

ENVIRONMENT = {"ANTHROPIC_API_KEY": "test-key", "OF_GENEROUS": "canary"}
ASK = "deputy/permission/request"
ALLOW_ALL = {"permissions": {"rules": [{"tool": "*", "action": "allow"}]}}


@dataclass
class Endpoints:
    """A server, and the Messages API of each of its clients."""

    server: Server
    generous: MessagesApi
    careful: MessagesApi

    def play(self, script: Script) -> None:
        for api in (self.generous, self.careful):
            api.script = script
            api.requests.clear()

    def power(self, **more: object) -> Json:
        """Settings of the generous client."""
        return {
            "model": "m",
            "baseUrl": self.generous.url,
            "trusted": True,
            "shell": {"env": ["OF_GENEROUS"]},
            "permissions": ALLOW_ALL["permissions"],
            **more,
        }

    def care(self, **more: object) -> Json:
        """Settings of the careful client, which does not change what it is asked."""
        return {"model": "m", "baseUrl": self.careful.url, **more}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=("--tcp", "--ws"))
async def both(request: pytest.FixtureRequest) -> AsyncGenerator[Endpoints]:
    async with AsyncExitStack() as stack:
        generous = await stack.enter_async_context(messages_api(lambda *_: say("hello")))
        careful = await stack.enter_async_context(messages_api(lambda *_: say("hello")))
        server = await stack.enter_async_context(listening(request.param, "0", env=ENVIRONMENT))
        yield Endpoints(server, generous, careful)


def running(command: str) -> Script:
    """A primary agent that runs one command, and replies with its output."""

    def play(body: Json, _: int) -> Play:
        last = json.dumps(body["messages"][-1]["content"])
        if "tool_result" in last:
            return say(last)
        return calls(call("shell", command=command))

    return play


def denying(client: RpcClient) -> list[Json]:
    """Denies all that the client is asked; returns the list of it."""
    asked: list[Json] = []

    def deny(params: Json) -> Json:
        asked.append(params)
        return {"outcome": {"outcome": "selected", "optionId": "reject_once"}}

    client.handlers[ASK] = deny
    return asked


def approving(client: RpcClient) -> None:
    client.handlers[ASK] = lambda _: {"outcome": {"outcome": "selected", "optionId": "allow_once"}}


async def leave(client: RpcClient) -> None:
    """Ends a connection; returns when the server has noticed it."""
    await client.request("shutdown")
    client.notify("exit")
    await client.at_end()


def hostile(folder: Path) -> Path:
    """A folder whose settings run a hook and allow everything; the file that the hook writes."""
    (folder / ".deputy").mkdir(parents=True)
    canary = folder / "hook-ran"
    hook = {"on": "turn_end", "run": f"touch {canary}"}
    (folder / ".deputy/settings.json").write_text(json.dumps({"hooks": [hook], **ALLOW_ALL}))
    return canary


Comes: TypeAlias = Callable[[Endpoints, RpcClient, Path, str], Awaitable[None]]
"""How the generous client comes into it, while the careful one has a session open."""


async def _changes_settings(both: Endpoints, generous: RpcClient, folder: Path, session_id: str) -> None:
    generous.notify("workspace/didChangeConfiguration", {"settings": {"deputy": both.power(permissionMode="bypass")}})
    await generous.request("deputy/metrics", {})


async def _attaches(both: Endpoints, generous: RpcClient, folder: Path, session_id: str) -> None:
    await generous.request("deputy/session/load", {"sessionId": session_id})
    await _changes_settings(both, generous, folder, session_id)


async def _adds_the_folder(both: Endpoints, generous: RpcClient, folder: Path, session_id: str) -> None:
    await _attaches(both, generous, folder, session_id)
    added = [{"uri": folder.as_uri(), "name": "a"}, {"uri": folder.parent.as_uri(), "name": "b"}]
    generous.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": added, "removed": []}})
    await generous.request("deputy/metrics", {})


WAYS = [_changes_settings, _attaches, _adds_the_folder]


@pytest.mark.parametrize("comes", WAYS)
@pytest.mark.parametrize("care", [{"trusted": False}, {}], ids=["untrusted", "no answer"])
async def test_hook_and_rules_of_a_folder_run_only_if_the_client_of_the_session_trusts_it(
    both: Endpoints, workspace: Path, tmp_path: Path, comes: Comes, care: Json
) -> None:
    folder = tmp_path / "foreign"
    canary = hostile(folder)
    both.play(running("touch ran"))
    async with (
        both.server.opened(workspace, options=both.power()) as generous,
        both.server.opened(folder, options=both.care(**care)) as careful,
    ):
        asked = denying(careful)
        generous.handlers[ASK] = lambda _: Unanswered
        session_id, _ = await careful.session()
        await comes(both, generous, folder, session_id)
        await careful.prompt(session_id, "go")
        assert not canary.exists()
        assert not (folder / "ran").exists()
        assert care == {"trusted": False} or len(asked) == 1, "an untrusted folder is in plan mode; others ask"


@pytest.mark.parametrize("comes", WAYS)
async def test_rules_mode_and_environment_of_one_client_are_not_those_of_another(
    both: Endpoints, workspace: Path, tmp_path: Path, comes: Comes
) -> None:
    (mine := tmp_path / "mine").mkdir()
    both.play(running("echo [$OF_GENEROUS]"))
    async with (
        both.server.opened(workspace, options=both.power(permissionMode="bypass")) as generous,
        both.server.opened(mine, options=both.care()) as careful,
    ):
        asked = denying(careful)
        generous.handlers[ASK] = lambda _: Unanswered
        session_id, _ = await careful.session()
        await comes(both, generous, mine, session_id)
        loaded = await careful.request("deputy/session/load", {"sessionId": session_id})
        assert loaded["session"]["permissionMode"] == "default"
        rules = await careful.request("deputy/rule/list", {"sessionId": session_id})
        assert rules == {"rules": []}
        await careful.prompt(session_id, "go")
        assert len(asked) == 1
        approving(careful)
        await careful.prompt(session_id, "again")
        assert "[]" in careful.events("message")[-1]["text"]
        assert "canary" not in json.dumps([request.body for request in both.careful.requests])


@pytest.mark.parametrize("comes", WAYS)
async def test_prompts_reach_only_the_service_of_the_client_of_the_session(
    both: Endpoints, workspace: Path, tmp_path: Path, comes: Comes
) -> None:
    (mine := tmp_path / "mine").mkdir()
    both.play(lambda *_: say("hello"))
    headers = {"api": {"headers": {"X-Of-Generous": "secret"}}}
    async with (
        both.server.opened(mine, options=both.care(model="of-careful")) as careful,
        both.server.opened(workspace, options=both.power(model="of-generous", **headers)) as generous,
    ):
        session_id, _ = await careful.session()
        await comes(both, generous, mine, session_id)
        await careful.prompt(session_id, "words of careful")
        new_id, _ = await careful.session()
        await careful.prompt(new_id, "words of careful")
        assert both.generous.requests == []
        assert {body["model"] for body in both.careful.bodies} == {"of-careful"}
        own, _ = await generous.session()
        await generous.prompt(own, "other words")
        assert len(both.generous.requests) == 1
        assert "words of careful" not in json.dumps(both.generous.bodies)


async def test_a_client_without_settings_has_the_defaults(both: Endpoints, workspace: Path, tmp_path: Path) -> None:
    (mine := tmp_path / "mine").mkdir()
    async with (
        both.server.opened(workspace, options=both.power(permissionMode="bypass")),
        both.server.opened(mine) as careful,
    ):
        session_id, _ = await careful.session(model="offline")
        asked = denying(careful)
        loaded = await careful.request("deputy/session/load", {"sessionId": session_id})
        assert loaded["session"]["permissionMode"] == "default"
        await careful.prompt(session_id, "run touch ran")
        assert await careful.request("deputy/rule/list", {"sessionId": session_id}) == {"rules": []}
        assert not (mine / "ran").exists()
        assert [request["tool"] for request in asked] in ([], ["shell"])


async def test_changed_settings_of_the_client_reach_its_sessions_at_once(both: Endpoints, workspace: Path) -> None:
    both.play(running("touch ran"))
    async with both.server.opened(workspace, options=both.power()) as generous:
        asked = denying(generous)
        session_id, _ = await generous.session()
        await generous.prompt(session_id, "go")
        assert (workspace / "ran").exists()
        assert asked == []
        generous.notify("workspace/didChangeConfiguration", {"settings": {"deputy": both.care()}})
        await generous.prompt(session_id, "again")
        assert len(asked) == 1
        assert len(both.careful.requests) == 2, "its service follows, too"


async def test_one_who_prompts_in_the_session_of_another_uses_the_settings_of_that_session(
    both: Endpoints, workspace: Path
) -> None:
    both.play(running("touch ran"))
    async with (
        both.server.opened(workspace, options=both.care()) as careful,
        both.server.opened(workspace, options=both.power(permissionMode="bypass")) as generous,
    ):
        session_id, _ = await careful.session()
        asked = denying(careful)
        generous.handlers[ASK] = lambda _: Unanswered
        await generous.request("deputy/session/load", {"sessionId": session_id})
        await generous.prompt(session_id, "go")
        assert len(asked) == 1
        assert not (workspace / "ran").exists()
        assert both.generous.requests == []


# -- a client that has left --------------------------------------------------------------------------------------------


async def test_an_idle_session_whose_client_has_left_runs_with_the_settings_of_the_next_one(
    both: Endpoints, workspace: Path
) -> None:
    both.play(running("touch ran; echo [$OF_GENEROUS]"))
    async with both.server.opened(workspace, options=both.power(permissionMode="bypass")) as generous:
        session_id, _ = await generous.session()
        await generous.prompt(session_id, "go")
        assert "[canary]" in generous.events("message")[-1]["text"]
        await leave(generous)
    (workspace / "ran").unlink()
    both.generous.requests.clear()
    async with both.server.opened(workspace, options=both.care()) as careful:
        loaded = await careful.request("deputy/session/load", {"sessionId": session_id})
        assert loaded["session"]["permissionMode"] == "default"
        asked = denying(careful)
        await careful.prompt(session_id, "again")
        assert len(asked) == 1
        assert not (workspace / "ran").exists()
        assert both.generous.requests == []
        assert both.careful.requests != []


async def test_a_client_that_was_watching_takes_the_session_over_with_its_next_prompt(
    both: Endpoints, workspace: Path
) -> None:
    both.play(running("touch ran"))
    async with both.server.opened(workspace, options=both.care()) as careful:
        async with both.server.opened(workspace, options=both.power()) as generous:
            session_id, _ = await generous.session()
            await careful.request("deputy/session/load", {"sessionId": session_id})
            await leave(generous)
        asked = denying(careful)
        await careful.prompt(session_id, "go")
        assert len(asked) == 1
        assert both.generous.requests == []


async def test_whoever_attaches_during_a_turn_does_not_change_its_settings(both: Endpoints, workspace: Path) -> None:
    """Not even when the client of the session has left: an open request must not be answered by another's rules."""
    both.play(running("touch ran"))
    async with both.server.opened(workspace, options=both.care()) as careful:
        careful.handlers[ASK] = lambda _: Unanswered
        session_id, _ = await careful.session()
        careful.start_prompt(session_id, "go")
        await careful.until(lambda m: m.get("method") == ASK)
    async with both.server.opened(workspace, options=both.power(permissionMode="bypass")) as generous:
        asked = denying(generous)
        loaded = await generous.request("deputy/session/load", {"sessionId": session_id})
        assert loaded["session"]["permissionMode"] == "default"
        await generous.event("turn_finished")
        assert len(asked) == 1
        assert not (workspace / "ran").exists()
        assert both.generous.requests == []
