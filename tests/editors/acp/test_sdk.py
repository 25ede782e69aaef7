"""``deputy acp`` with the official client library, with every message validated against the protocol's schema."""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio.to_thread
import pytest

from tests.editors.acp.sdk import Run, run
from tests.support.acp import SUBAGENTS
from tests.support.mcp_workspaces import http_server, tools_server
from tests.support.messages_api import Script, messages_api
from tests.support.model_replies import Failure, Json, Play, call, calls, say, text, think
from tests.support.shared_server import is_child

pytestmark = [pytest.mark.asyncio, pytest.mark.requirement("C10")]

FILES: Json = {"fs": {"readTextFile": True, "writeTextFile": True}}
BOTH = pytest.mark.parametrize("abilities", [SUBAGENTS, {}], ids=["subagents", "plain"])


@asynccontextmanager
async def model(script: Script) -> AsyncGenerator[Mapping[str, str]]:
    """The environment of a Deputy that uses the scripted model."""
    async with messages_api(script) as api:
        yield {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.url, "DEPUTY_MODEL": "m"}
        assert api.violations == []


async def play(
    env: Mapping[str, str], workspace: Path, *steps: Json, servers: Sequence[Json] = (), **how: object
) -> Run:
    """Runs steps in a new session with MCP ``servers``."""
    opened = {"request": "session/new", "params": {"cwd": str(workspace), "mcpServers": list(servers)}}
    whole = {**os.environ, **env}
    return await anyio.to_thread.run_sync(lambda: run([opened, *steps], env=whole, **how))  # type: ignore[arg-type]


def prompt(words: str, **how: object) -> Json:
    return {"request": "session/prompt", "params": {"sessionId": "$session", "prompt": [text(words)]}, **how}


def a_day(body: Json, n: int) -> Play:
    """A script with a plan, thoughts, a command, a sub-agent that edits, and a stream that breaks."""
    done = sum(1 for message in body["messages"] if message["role"] == "assistant")
    if is_child(body):
        return say("It is written.") if done else calls(call("write_file", path="a.txt", content="new\n"))
    steps = [
        Play(
            (think("First a plan."), text("I plan."), call("todo", entries=[{"content": "write", "status": "pending"}]))
        ),
        calls(call("spawn_agent", instructions="write it", mode="default")),
        calls(call("shell", command="echo hello; true"), call("read_file", path="nothing.txt")),
    ]
    if done < len(steps):
        return steps[done]
    return say("All is done.", piece=4, failure=Failure.CUT if n == 6 else None, after=2)


@BOTH
async def test_a_whole_turn_with_a_child_and_permission_requests_and_its_loading(
    workspace: Path, abilities: Json
) -> None:
    commands = workspace / ".deputy" / "commands"
    commands.mkdir(parents=True)
    (commands / "fix.md").write_text("---\ndescription: Fixes\nargument-hint: what\n---\nFix $1.\n")
    load = {"sessionId": "$session", "cwd": str(workspace), "mcpServers": []}
    async with model(a_day) as env:
        seen = await play(
            env,
            workspace,
            prompt("write, and greet"),
            {"request": "session/set_mode", "params": {"sessionId": "$session", "modeId": "plan"}},
            {
                "request": "session/set_config_option",
                "params": {"sessionId": "$session", "configId": "model", "value": "other"},
            },
            {"request": "session/list", "params": {}},
            {"request": "session/load", "params": load},
            {"request": "session/close", "params": {"sessionId": "$session"}},
            {"request": "session/resume", "params": load},
            {"request": "session/delete", "params": {"sessionId": "$session"}},
            capabilities=abilities,
        )
    _, opened, ended, _, options, listed, loaded, *_ = seen.results
    assert ended["stopReason"] == "end_turn"
    assert (workspace / "a.txt").read_text() == "new\n"
    assert [request["toolCall"]["kind"] for request in seen.requests] == ["edit", "execute"]
    assert {option["id"]: option["currentValue"] for option in options["configOptions"]} == {
        "mode": "plan",
        "model": "other",
    }
    assert [one["sessionId"] for one in listed["sessions"]] == [opened["sessionId"]]
    assert loaded["modes"]["currentModeId"] == "plan"
    kinds = {one["update"]["sessionUpdate"] for one in seen.updates}
    assert kinds >= {"plan", "agent_thought_chunk", "agent_message_chunk", "user_message_chunk", "usage_update"}
    assert kinds >= {"available_commands_update", "current_mode_update", "config_option_update", "session_info_update"}
    assert ("subagent_update" in kinds) == ("subagents" in abilities)
    own = [u["content"]["text"] for u in seen.of("agent_message_chunk") if u["content"]["text"].startswith("All")]
    assert len(own) <= 2  # live, where it may come in pieces, and loaded; the repeat is not shown again
    assert seen.code == 0


@pytest.mark.requirement("X16")
async def test_agents_use_mcp_servers_of_the_editor(workspace: Path) -> None:
    results: list[Json] = []

    def script(body: Json, _: int) -> Play:
        if len(body["messages"]) == 1:
            return calls(call("mcp__near__echo", text="near"), call("mcp__far-off__echo", text="far"))
        results.extend(body["messages"][-1]["content"])
        return say("done")

    own = tools_server(TOOLS_TOKEN="t")
    env_of = [{"name": name, "value": value} for name, value in dict(own["env"]).items()]  # type: ignore[call-overload]
    async with model(script) as env, http_server() as url:
        near: Json = {"name": "near", "command": own["command"], "args": own["args"], "env": env_of}
        far: Json = {"type": "http", "name": "far off", "url": f"{url}/mcp", "headers": []}
        seen = await play(env, workspace, prompt("ask both"), servers=[near, far], capabilities={})
    assert [one["content"] for one in results] == ["near", "far"]
    assert len(seen.requests) == 2


async def test_cancelling_one_sub_agent_leaves_its_parent_running(workspace: Path) -> None:
    gate = asyncio.Event()

    def script(body: Json, _: int) -> Play:
        if is_child(body):
            return say("late", gate=gate)
        return say("done") if len(body["messages"]) > 1 else calls(call("spawn_agent", instructions="wait"))

    async with model(script) as env:
        seen = await play(
            env,
            workspace,
            prompt("go", background=True),
            {"on": "subagent_update", "notify": "session/cancel", "params": {"sessionId": "$child"}, "end": True},
            capabilities=SUBAGENTS,
        )
    assert seen.results[-1]["stopReason"] == "end_turn"
    assert seen.of("subagent_update")[-1]["state"]["stopReason"] == "cancelled"


@BOTH
async def test_a_turn_is_cancelled_with_its_child(workspace: Path, abilities: Json) -> None:
    def script(body: Json, _: int) -> Play:
        if is_child(body):
            return say("never", gate=asyncio.Event())
        return calls(call("spawn_agent", instructions="wait"))

    async with model(script) as env:
        seen = await play(
            env,
            workspace,
            prompt("go", background=True),
            {"on": "tool_call_update", "notify": "session/cancel", "params": {"sessionId": "$session"}, "end": True},
            capabilities=abilities,
        )
    assert seen.results[-1]["stopReason"] == "cancelled"
    assert seen.code == 0


async def test_unsaved_text_is_read_and_changed_in_the_editor(workspace: Path) -> None:
    path = workspace / "a.txt"
    path.write_text("saved\n")

    def script(body: Json, _: int) -> Play:
        done = sum(1 for message in body["messages"] if message["role"] == "assistant")
        steps = [
            call("read_file", path="a.txt"),
            call("edit_file", path="a.txt", old_string="unsaved", new_string="edited"),
        ]
        return calls(steps[done]) if done < len(steps) else say("done")

    async with model(script) as env:
        seen = await play(env, workspace, prompt("go"), capabilities=FILES, files={str(path): "unsaved\n"})
    assert seen.files == {str(path): "edited\n"}
    assert path.read_text() == "saved\n"


async def test_errors_follow_the_protocol(workspace: Path) -> None:
    async with model(lambda _b, _n: Play(status=400, error=("invalid_request_error", "no"))) as env:
        seen = await play(
            env,
            workspace,
            prompt("go"),
            {"request": "session/prompt", "params": {"sessionId": "nowhere", "prompt": [text("go")]}},
            {"request": "session/load", "params": {"sessionId": "nowhere", "cwd": str(workspace), "mcpServers": []}},
            capabilities={},
        )
    assert all("error" in result for result in seen.results[2:])
