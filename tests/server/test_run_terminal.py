"""``deputy run`` at a terminal with a user."""

import os
import signal
import sys
from functools import partial
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from tests.support.mcp_workspaces import SILENT_SERVER, configure_mcp_servers, tools_server
from tests.support.messages_api import messages_api
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.terminal import Terminal, terminal

pytestmark = pytest.mark.asyncio

DEPUTY = [sys.executable, "-P", "-m", "deputy_server"]


def list_tools(body: Json, _: int) -> Play:
    return say(
        f"I have {' '.join(tool['name'] for tool in body['tools'] if tool['name'].startswith('mcp__')) or 'none'}"
    )


@pytest.mark.requirement("X16", "X17")
@pytest.mark.parametrize(
    ("key", "answer"), [("y", "I have .*mcp__tools__echo"), ("n", "I have none"), ("v", "I have none")]
)
async def test_prompt_waits_for_the_approval_of_an_mcp_server(workspace: Path, key: str, answer: str) -> None:
    configure_mcp_servers(workspace, tools=tools_server())

    def look(user: Terminal) -> int:
        user.wait_for(r"mcp\(tools\)")
        user.wait_for(r"y Start it this time")
        assert api.requests == []
        user.press(f"\r {key}")
        user.wait_for(answer)
        return user.end()

    async with messages_api(list_tools) as api:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.url, "DEPUTY_MODEL": "m"}
        with terminal([*DEPUTY, "run", "which tools?"], workspace, env) as user:
            assert await to_thread.run_sync(partial(look, user)) == 0
            assert "deputy mcp approve" not in user.rest  # no hint after the user has just answered


async def test_interrupt_at_that_permission_request_ends_the_run_without_a_model_request(workspace: Path) -> None:
    configure_mcp_servers(workspace, deaf=SILENT_SERVER)

    def look(user: Terminal) -> int:
        user.wait_for(r"y Start it this time")
        user.process.send_signal(signal.SIGINT)
        return user.end()

    async with messages_api(list_tools) as api:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.url, "DEPUTY_MODEL": "m"}
        with terminal([*DEPUTY, "run", "which tools?"], workspace, env) as user:
            assert await to_thread.run_sync(partial(look, user)) == 130
        assert api.requests == []


@pytest.mark.requirement("X17")
async def test_without_a_prompt_the_user_is_asked_for_one(workspace: Path) -> None:
    def type_prompt(user: Terminal) -> int:
        user.wait_for("Type the prompt. End it with Ctrl-D")
        user.press("where is nothing?\n\x04")
        user.wait_for("nothing found")
        return user.end()

    with terminal([*DEPUTY, "run", "--model", "offline"], workspace) as user:
        assert await to_thread.run_sync(partial(type_prompt, user)) == 0


def asking(body: Json, _: int) -> Play:
    if len(body["messages"]) == 1:
        return calls(call("ask_user", question="Which port?", options=["80", "8080"]))
    (result,) = body["messages"][-1]["content"]
    return say(f"told: {result['content']}")


@pytest.mark.requirement("Q5")
@pytest.mark.parametrize(("key", "answer"), [("2", "told: 8080"), ("\x1b", "told: Declined by the user.")])
async def test_a_question_is_answered_by_a_key(workspace: Path, key: str, answer: str) -> None:
    def look(user: Terminal) -> int:
        user.wait_for("Which port")
        user.wait_for("Esc declines")
        user.press(key)
        user.wait_for(answer)
        return user.end()

    async with messages_api(asking) as api:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.url, "DEPUTY_MODEL": "m"}
        with terminal([*DEPUTY, "run", "which port?"], workspace, env) as user:
            assert await to_thread.run_sync(partial(look, user)) == 0


@pytest.mark.requirement("Q5")
async def test_without_a_terminal_a_question_is_refused(workspace: Path) -> None:
    async with messages_api(asking) as api:
        env = {**os.environ, "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.url, "DEPUTY_MODEL": "m"}
        env |= {"HOME": str(workspace), "DEPUTY_STATE": str(workspace / "state")}
        with anyio.fail_after(60):
            ran = await anyio.run_process([*DEPUTY, "run", "which port?"], cwd=workspace, env=env, check=False)
        assert (ran.returncode, ran.stdout.decode().strip()) == (0, "told: No client can ask the user.")
