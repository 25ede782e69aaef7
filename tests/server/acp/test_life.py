"""The lifecycle of ``deputy acp``: initialize, invalid messages, and every way to end."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.support.acp import ASK, SUBAGENTS, AcpClient, choose, speaking
from tests.support.commands import marked, until
from tests.support.messages_api import messages_api
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import Unanswered, serving

pytestmark = pytest.mark.asyncio


async def test_an_offline_session_needs_no_key_and_shows_a_notice(workspace: Path) -> None:
    async with speaking() as client:
        hello = await client.greet(**SUBAGENTS)
        assert hello["protocolVersion"] == 1
        assert hello["agentInfo"]["name"] == "deputy"
        assert hello["agentCapabilities"]["loadSession"] is True
        session = await client.open(workspace)
        assert "offline model" in (await client.update("notice"))["title"]
        assert (await client.say(session, "hello"))["stopReason"] == "end_turn"


@pytest.mark.parametrize("version", [0, 1, 2, 99])
async def test_initialize_returns_the_supported_version_for_any_requested_version(version: int) -> None:
    async with speaking() as client:
        told = await client.request("initialize", {"protocolVersion": version, "clientCapabilities": None})
        assert told["protocolVersion"] == 1


async def test_an_invalid_message_is_answered_and_the_connection_continues(workspace: Path) -> None:
    async with speaking("--model", "offline") as client:
        early = await client.answer(client.start("session/new", {"cwd": str(workspace), "mcpServers": []}))
        assert early["error"]["message"] == "Send initialize first."
        client.send_bytes(b"\n   \n")
        for line, code in (
            (b"{nonsense", -32700),
            (b"\xff\xfe", -32700),
            (b"[" * 100_000, -32700),
            (b"[]", -32600),
            (b'"text"', -32600),
            (b'{"jsonrpc": "2.0"}', -32600),
            (b'{"jsonrpc": "2.0", "method": 7, "id": 1}', -32600),
            (b'{"jsonrpc": "2.0", "method": "initialize", "id": [1]}', -32600),
        ):
            client.received.clear()
            client.send_bytes(line + b"\n")
            answer = await client.answer(None)
            assert answer["error"]["code"] == code, line
        await client.greet()
        again = await client.answer(client.start("initialize", {"protocolVersion": 1}))
        assert again["error"]["code"] == -32600
        unknown = await client.answer(client.start("session/teleport", {}))
        assert unknown["error"]["code"] == -32601
        for params in (None, {}, {"cwd": 7, "mcpServers": []}, []):
            refused = await client.answer(client.start("session/new", params))
            assert refused["error"]["code"] == -32602
        client.notify("session/cancel", {"sessionId": "nowhere"})
        client.notify("session/cancel")
        client.send({"jsonrpc": "2.0", "id": "deputy-77", "result": {}})
        session = await client.open(workspace)
        assert (await client.say(session, "hello"))["stopReason"] == "end_turn"
        assert "Traceback" not in client.stderr


def sleeping(body: Json, _: int) -> Play:
    return calls(call("shell", command="sleep 1000")) if len(body["messages"]) == 1 else say("woke up")


async def asleep(client: AcpClient, workspace: Path) -> tuple[str, int]:
    """A session with a running command, and the prompt that waits for it."""
    await client.greet()
    client.handlers[ASK] = choose("allow_once")
    session = await client.open(workspace)
    prompt = client.start_say(session, "sleep")
    await client.update("tool_call_update", status="in_progress")
    return session, prompt


@pytest.mark.parametrize(
    ("end", "code"), [(None, 0), (signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["end of input", "SIGTERM", "SIGINT"]
)
async def test_every_way_to_end_the_process_ends_what_it_started(
    workspace: Path, end: signal.Signals | None, code: int
) -> None:
    async with messages_api(sleeping) as api:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.url, "DEPUTY_MODEL": "m"}
        async with speaking(env=env) as client:
            _, prompt = await asleep(client, workspace)
            await until(lambda: len(marked(workspace)) > 1)
            if end is None:
                client.close_input()
            else:
                client.process.send_signal(end)
            assert await client.exit_code() == code
            await client.gone()
            assert (await client.answer(prompt))["result"]["stopReason"] == "cancelled"
            await until(lambda: marked(workspace) == [])
            assert "Traceback" not in client.stderr


async def test_a_turn_interrupted_by_disconnecting_does_not_count_as_stopped(workspace: Path, tmp_path: Path) -> None:
    async with messages_api(sleeping) as api:
        state = {"DEPUTY_STATE": str(tmp_path / "state")}
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.url, "DEPUTY_MODEL": "m", **state}
        for stops in (True, False):
            async with speaking(env=env) as client:
                session, prompt = await asleep(client, workspace)
                if stops:
                    client.notify("session/cancel", {"sessionId": session})
                    await client.answer(prompt)
                client.close_input()
                assert await client.exit_code() == 0
            async with serving(env=env) as editor:
                await editor.initialize(workspace)
                loaded = await editor.request("deputy/session/load", {"sessionId": session})
                assert loaded["lastTurn"]["stopReason"] == "cancelled"
                assert loaded["lastTurn"].get("interrupted", False) is not stops


async def test_a_client_that_does_not_read_is_disconnected_when_its_input_ends(workspace: Path) -> None:
    def script(body: Json, _: int) -> Play:
        return say("word " * 200_000, piece=2000)

    async with messages_api(script) as api:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.url, "DEPUTY_MODEL": "m"}
        async with speaking(env=env) as client:
            await client.greet()
            session = await client.open(workspace)
            client.stop_reading()
            client.start_say(session, "talk")
            await api.until(lambda: bool(api.requests))
            client.close_input()
            assert await client.exit_code() == 0


async def test_disconnecting_denies_an_open_permission_request(workspace: Path) -> None:
    def script(body: Json, _: int) -> Play:
        return calls(call("write_file", path="a.txt", content="x")) if len(body["messages"]) == 1 else say("done")

    async with messages_api(script) as api:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.url, "DEPUTY_MODEL": "m"}
        async with speaking(env=env) as client:
            await client.greet()
            client.handlers[ASK] = lambda _: Unanswered
            session = await client.open(workspace)
            client.start_say(session, "write")
            await client.until(lambda m: m.get("method") == ASK)
            client.close_input()
            assert await client.exit_code() == 0
            assert not (workspace / "a.txt").exists()


async def test_command_line_options_apply_to_new_sessions(workspace: Path, tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"model": "from-the-file", "permissionMode": "accept_edits"}))
    definition = workspace / ".deputy" / "agents" / "pirate.md"
    definition.parent.mkdir(parents=True)
    definition.write_text("---\nname: pirate\ndescription: Speaks so.\nmode: primary\n---\nYou are a pirate.\n")
    async with messages_api(lambda _b, _n: say("arr")) as api:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.url}
        options = ("--settings", str(settings), "--permission-mode", "plan", "--agent", "pirate")
        async with speaking(*options, env=env) as client:
            await client.greet()
            opened = await client.request("session/new", {"cwd": str(workspace), "mcpServers": []})
            assert opened["modes"]["currentModeId"] == "plan"
            await client.say(opened["sessionId"], "hello")
            assert api.bodies[0]["model"] == "from-the-file"
            assert "You are a pirate." in json.dumps(api.bodies[0]["system"])


@pytest.mark.parametrize(
    "options", [("--settings", "/nowhere.json"), ("--replay", "/nowhere"), ("--permission-mode", "all"), ("--what",)]
)
async def test_an_invalid_option_ends_the_process_before_anything_starts(options: tuple[str, ...]) -> None:
    async with speaking(*options) as client:
        assert await client.exit_code() == 2
        await client.gone()
        assert options[0] in client.stderr
        assert client.received == []


async def test_other_output_does_not_disturb_the_protocol(workspace: Path) -> None:
    """Standard output is reserved for the protocol; commands do not inherit it."""

    def script(body: Json, _: int) -> Play:
        return calls(call("shell", command="cat; echo to stdout")) if len(body["messages"]) == 1 else say("done")

    async with messages_api(script) as api:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.url, "DEPUTY_MODEL": "m"}
        async with speaking("--permission-mode", "bypass", env=env) as client:
            await client.greet()
            session = await client.open(workspace)
            async with asyncio.timeout(30):
                assert (await client.say(session, "go"))["stopReason"] == "end_turn"
            ended = await client.update("tool_call_update", status="completed")
            assert ended["content"][0]["content"]["text"] == "```\nto stdout\n```"
