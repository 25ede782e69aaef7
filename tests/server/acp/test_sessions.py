"""Sessions of ``deputy acp`` over time: loaded, resumed, listed, closed and deleted, also in another process."""

import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.acp import ASK, SUBAGENTS, AcpClient, Speakers, choose, speaking
from tests.support.mcp_workspaces import tools_server
from tests.support.messages_api import messages_api
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import RpcFailure
from tests.support.shared_server import is_child

pytestmark = pytest.mark.asyncio(loop_scope="module")


def a_story(body: Json, _: int) -> Play:
    """A sub-agent writes a file, then the agent runs a command and answers."""
    done = sum(1 for message in body["messages"] if message["role"] == "assistant")
    if is_child(body):
        return say("It is written.") if done else calls(call("write_file", path="a.txt", content="new\n"))
    steps = [call("spawn_agent", instructions="write it", mode="default"), call("shell", command="echo hello")]
    return calls(steps[done]) if done < len(steps) else say("All is done.")


@asynccontextmanager
async def processes(script: object = a_story) -> AsyncGenerator[Mapping[str, str]]:
    """The environment of processes that share a model and a state folder."""
    async with messages_api(script) as api:  # type: ignore[arg-type]
        yield {"ANTHROPIC_API_KEY": "test-key", "ANTHROPIC_BASE_URL": api.url, "DEPUTY_MODEL": "m"}


def told(client: AcpClient) -> list[tuple[str, Json]]:
    """The conversation as the client shows it, with chunks of a message joined; without other updates and without the
    live output of commands."""
    beside = ("session_info_update", "usage_update", "available_commands_update", "user_message_chunk", "notice")
    shown: list[tuple[str, Json]] = []
    for message in client.received:
        if message.get("method") != "session/update":
            continue
        session, update = message["params"]["sessionId"], message["params"]["update"]
        lasts = update.keys() & {"status", "_meta"} or update["sessionUpdate"] != "tool_call_update"
        if update["sessionUpdate"] in beside or not lasts:
            continue
        if shown and update.get("messageId") and shown[-1][1].get("messageId") == update["messageId"]:
            shown[-1][1]["content"]["text"] += update["content"]["text"]
        else:
            shown.append((session, update))
    return shown


@pytest.mark.parametrize("abilities", [SUBAGENTS, {}], ids=["sessions", "blocks"])
async def test_a_session_loaded_in_another_process_looks_the_same(workspace: Path, abilities: Json) -> None:
    async with processes() as env:
        async with speaking(env=env) as client:
            await client.greet(**abilities)
            client.handlers[ASK] = choose("allow_once")
            session = await client.open(workspace)
            await client.say(session, "write a.txt, and greet")
            before = told(client)
            client.close_input()
            assert await client.exit_code() == 0
        async with speaking(env=env) as client:
            await client.greet(**abilities)
            loaded = await client.request(
                "session/load", {"sessionId": session, "cwd": str(workspace), "mcpServers": []}
            )
            assert loaded["modes"]["currentModeId"] == "default"
            said = client.updates("user_message_chunk", session)
            assert [update["content"]["text"] for update in said] == ["write a.txt, and greet"]
            assert told(client) == before
            assert [m for m in client.received if m.get("method") == ASK] == []
            client.handlers[ASK] = choose("allow_once")
            assert (await client.say(session, "and now?"))["stopReason"] == "end_turn"


async def test_a_session_is_resumed_without_its_past_and_continues(acp: Speakers, workspace: Path) -> None:
    def script(body: Json, _: int) -> Play:
        return say(f"heard {sum(1 for m in body['messages'] if m['role'] == 'user')}")

    async with acp(script, workspace) as (client, _, session):
        await client.say(session, "one")
        await client.request("session/close", {"sessionId": session})
        with pytest.raises(RpcFailure, match="is not open"):
            await client.say(session, "two")
        client.received.clear()
        resumed = await client.request("session/resume", {"sessionId": session, "cwd": str(workspace)})
        assert resumed["configOptions"]
        assert {update["sessionUpdate"] for update in client.updates()} <= {"available_commands_update"}
        await client.say(session, "two")
        assert client.text(session) == "heard 2"


async def test_sessions_are_listed_newest_first_page_by_page_and_by_folder(
    acp: Speakers, workspace: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with acp(lambda _b, _n: say("yes"), workspace) as (client, _, session):
        await client.say(session, "remember me")
        elsewhere = await client.open(other)
        many = [await client.open(workspace) for _ in range(60)]
        here = {"cwd": str(workspace)}
        first = await client.request("session/list", here)
        second = await client.request("session/list", here | {"cursor": first["nextCursor"]})
        listed = [*first["sessions"], *second["sessions"]]
        assert [one["sessionId"] for one in listed] == [*reversed(many), session]
        assert (listed[-1]["title"], listed[-1]["cwd"]) == ("remember me", str(workspace))
        assert second["nextCursor"] is None
        newest = await client.request("session/list", {})
        everywhere = await client.request("session/list", {"cursor": newest["nextCursor"]})
        assert elsewhere in [one["sessionId"] for one in everywhere["sessions"]]
        with pytest.raises(RpcFailure) as failure:
            await client.request("session/list", {"cursor": "nonsense"})
        assert failure.value.code == -32602


async def test_deleting_a_session_twice_is_not_an_error(acp: Speakers, workspace: Path) -> None:
    async with acp(lambda _b, _n: say("yes"), workspace) as (client, _, _session):
        session = await client.open(workspace)
        await client.say(session, "forget me")
        for _ in range(2):
            assert await client.request("session/delete", {"sessionId": session}) == {}
        with pytest.raises(RpcFailure, match="no session") as failure:
            await client.request("session/load", {"sessionId": session, "cwd": str(workspace), "mcpServers": []})
        assert failure.value.code == -32002


async def test_a_session_open_in_another_process_is_rejected_with_the_reason(workspace: Path) -> None:
    async with processes() as env, speaking(env=env) as one, speaking(env=env) as two:
        await one.greet()
        await two.greet()
        session = await one.open(workspace)
        with pytest.raises(RpcFailure, match="open in another Deputy process") as failure:
            await two.request("session/load", {"sessionId": session, "cwd": str(workspace), "mcpServers": []})
        assert failure.value.code == -32003


async def test_only_additional_folders_of_a_session_can_be_read(acp: Speakers, workspace: Path, tmp_path: Path) -> None:
    further, outside = tmp_path / "further", tmp_path / "outside"
    for folder in (further, outside):
        folder.mkdir()
        (folder / "a.txt").write_text(f"text of {folder.name}\n")

    def script(body: Json, _: int) -> Play:
        if len(body["messages"]) == 1:
            return calls(*(call("read_file", path=str(folder / "a.txt")) for folder in (further, outside)))
        return say("\n".join(str(block["content"]) for block in body["messages"][-1]["content"]))

    async with acp(script, workspace) as (client, _, _session):
        session = await client.open(workspace, additionalDirectories=[str(further)])
        await client.say(session, "read both")
        assert "text of further" in client.text(session)
        assert "outside the workspace" in client.text(session)
        assert "text of outside" not in client.text(session)


async def test_mcp_servers_of_the_editor_count_as_the_users_own_for_that_session_only(
    acp: Speakers, workspace: Path
) -> None:
    def script(body: Json, _: int) -> Play:
        tools = [tool["name"] for tool in body["tools"] if tool["name"].startswith("mcp__")]
        if "mcp__My-tools__secret" in tools and len(body["messages"]) == 1:
            return calls(call("mcp__My-tools__secret"))
        return say(str(body["messages"][-1]["content"]) if tools else "none")

    asked: list[str] = []

    def allow(permission_request: Json) -> Json:
        asked.append(permission_request["toolCall"]["title"])
        (once,) = [option["optionId"] for option in permission_request["options"] if option["kind"] == "allow_once"]
        return {"outcome": {"outcome": "selected", "optionId": once}}

    given = tools_server(TOOLS_TOKEN="${NO_VARIABLE}")
    env = [{"name": name, "value": value} for name, value in given.pop("env").items()]  # type: ignore[attr-defined]
    async with acp(script, workspace) as (client, _, other):
        client.handlers["session/request_permission"] = allow
        session = await client.open(workspace, mcpServers=[{"name": "My tools", "env": env, **given}])
        await client.say(session, "what is the secret?")
        assert asked == ["mcp__My-tools__secret()"]
        offered = client.updates("available_commands_update", session)[-1]["availableCommands"]
        assert {"name": "mcp__My-tools__review", "description": "Asks for a review."} in offered
        assert "the token is [removed], the key is None" in client.text(session)
        await client.say(other, "and here?")
        assert client.text(other) == "none"
        again = {"sessionId": session, "cwd": str(workspace), "mcpServers": []}
        await client.request("session/close", {"sessionId": session})
        await client.request("session/load", again)
        await client.say(session, "still there?")
        assert client.text(session).endswith("none")


ONE_TOOL = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("tools")


@server.tool()
def echo(text: str) -> str:
    return text


server.run("stdio")
"""


async def test_mcp_servers_of_the_editor_with_the_same_tool_name_both_work(acp: Speakers, workspace: Path) -> None:
    def names(body: Json, _: int) -> Play:
        return say(" ".join(sorted(tool["name"] for tool in body["tools"] if tool["name"].startswith("mcp__"))))

    async with acp(names, workspace) as (client, _, _session):
        given = {"command": sys.executable, "args": ["-c", ONE_TOOL], "env": []}
        servers = [{"name": name, **given} for name in ("a b", "a-b")]
        session = await client.open(workspace, mcpServers=servers)
        await client.say(session, "which tools?")
        shown = client.text(session)
        assert "mcp__a-b__echo" in shown
        assert "mcp__a-b-2__echo" in shown


async def test_an_mcp_server_of_the_editor_that_does_not_start_is_reported(acp: Speakers, workspace: Path) -> None:
    async with acp(lambda _b, _n: say("x"), workspace, SUBAGENTS) as (client, _, _session):
        broken: Json = {"name": "files", "command": "/no/such/program", "args": [], "env": []}
        unfit: Json = {"name": "old", "type": "sse", "url": "http://localhost:1/sse", "headers": []}
        session = await client.open(workspace, mcpServers=[broken, unfit])
        await client.say(session, "hello")
        told = [update["title"] for update in client.updates("notice")]
        assert any("MCP server files is not running" in title for title in told), told
        assert any("MCP server old: the SSE transport is not supported" in title for title in told), told


@pytest.mark.parametrize("cwd", ["relative", "/nowhere/at/all", "\0"])
async def test_an_invalid_folder_is_rejected(acp: Speakers, workspace: Path, cwd: str) -> None:
    async with acp(lambda _b, _n: say("x"), workspace) as (client, _, _session):
        with pytest.raises(RpcFailure, match="cwd: must be the absolute path of a folder") as failure:
            await client.request("session/new", {"cwd": cwd, "mcpServers": []})
        assert failure.value.data["field"] == "cwd"
