"""A client without workspace folders: agents get no files unasked."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.messages_api import messages_api
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import EVERYTHING, PLAIN, RpcClient, serving

pytestmark = pytest.mark.asyncio

FILE_TOOLS = {"read_file", "list_dir", "glob", "grep", "edit_file", "write_file", "shell", "process"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "server home"
    folder.mkdir()
    (folder / "private.txt").write_text("canary\n")
    (folder / "AGENTS.md").write_text("canary\n")
    return folder


def reading(body: Json, _: int) -> Play:
    last = str(body["messages"][-1]["content"])
    return say("done") if "tool_result" in last else calls(call("read_file", path="private.txt"))


def tools(body: Json) -> set[str]:
    return {tool["name"] for tool in body["tools"]}


def open_file(client: RpcClient, path: Path) -> None:
    document = {"uri": path.as_uri(), "languageId": "text", "version": 1, "text": path.read_text()}
    client.notify("textDocument/didOpen", {"textDocument": document})


@pytest.mark.parametrize("capabilities", [EVERYTHING, PLAIN])
async def test_working_directory_of_the_server_is_not_the_workspace(
    home: Path, capabilities: Mapping[str, object]
) -> None:
    async with messages_api(reading) as api, serving(env={"ANTHROPIC_API_KEY": "k"}, cwd=home) as client:
        await client.initialize(None, dict(capabilities), initializationOptions={"model": "m", "baseUrl": api.url})
        session_id, _ = await client.session()
        await client.prompt(session_id, "read")
        assert not FILE_TOOLS & tools(api.bodies[0])
        assert "The user has opened no folder" in str(api.bodies[0]["system"])
        assert "canary" not in str(api.bodies)
        assert str(home) not in str(api.bodies)
        assert any(
            m.get("method") == "window/showMessage" and "No workspace folder is open" in m["params"]["message"]
            for m in client.received
        )
        assert await client.shut_down() == 0


@pytest.mark.parametrize("answer", [None, {"title": "Continue without files"}, {"title": "no such"}, "yes", {}, True])
async def test_folder_of_the_open_file_is_used_only_after_an_explicit_yes(home: Path, answer: object) -> None:
    asked: list[Json] = []
    async with messages_api(reading) as api, serving(env={"ANTHROPIC_API_KEY": "k"}, cwd=home) as client:
        await client.initialize(None, initializationOptions={"model": "m", "baseUrl": api.url})
        client.handlers["window/showMessageRequest"] = lambda params: asked.append(params) or answer
        open_file(client, home / "private.txt")
        for _ in range(2):
            session_id, _agent = await client.session()
            await client.prompt(session_id, "read")
        assert len(asked) == 1
        assert str(home) in asked[0]["message"]
        assert not any(FILE_TOOLS & tools(body) for body in api.bodies)
        assert "canary" not in str(api.bodies)
        assert await client.shut_down() == 0


async def test_folder_of_the_open_file_is_the_workspace_once_the_user_agrees(home: Path) -> None:
    async with messages_api(reading) as api, serving(env={"ANTHROPIC_API_KEY": "k"}, cwd=Path("/")) as client:
        await client.initialize(None, initializationOptions={"model": "m", "baseUrl": api.url})
        client.handlers["window/showMessageRequest"] = lambda _: {"title": "Use this folder"}
        open_file(client, home / "private.txt")
        session_id, _ = await client.session()
        await client.prompt(session_id, "read")
        assert tools(api.bodies[0]) >= FILE_TOOLS
        assert "canary" in str(api.bodies[1]["messages"])
        assert await client.shut_down() == 0


async def test_command_asks_about_the_folder_of_its_file_and_a_reloaded_session_stays_without_files(
    home: Path, tmp_path: Path
) -> None:
    asked: list[Json] = []
    env = {"ANTHROPIC_API_KEY": "k", "DEPUTY_STATE": str(tmp_path / "state")}
    async with messages_api(reading) as api:
        options = {"model": "m", "baseUrl": api.url}
        async with serving(env=env, cwd=home) as client:
            await client.initialize(None, initializationOptions=options)
            client.handlers["window/showMessageRequest"] = asked.append
            started = await client.command("deputy.prompt", {"text": "read", "uri": (home / "AGENTS.md").as_uri()})
            await client.event("turn_finished")
            assert await client.shut_down() == 0
        async with serving(env=env, cwd=home) as client:
            await client.initialize(None, initializationOptions=options)
            await client.request("deputy/session/load", {"sessionId": started["sessionId"]})
            await client.prompt(started["sessionId"], "read")
            assert await client.shut_down() == 0
        assert len(asked) == 1
        assert not any(FILE_TOOLS & tools(body) for body in api.bodies)
        assert "canary" not in str(api.bodies)
