"""``deputy run --budget``."""

import os
from pathlib import Path

import pytest
from anyio import to_thread

from tests.support.messages_api import messages_api
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.warm import completed

pytestmark = pytest.mark.asyncio


async def run(folder: Path, url: str, *options: str) -> tuple[int, str]:
    env = {**os.environ, "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": url}
    command = ["-P", "-m", "deputy_server", "run", *options, "look around"]
    ended = await to_thread.run_sync(completed, command, env, folder)
    return ended.returncode, ended.stderr


def look_around(body: Json, _: int) -> Play:
    return calls(call("list_dir", path=".")) if len(body["messages"]) < 7 else say("That is all.")


async def test_exceeded_budget_ends_the_run_with_a_message(workspace: Path) -> None:
    async with messages_api(look_around) as api:
        code, output = await run(workspace, api.url, "--model", "claude-sonnet-5-5", "--budget", "0.0002")
    assert code == 1
    assert "the session's budget of 0.0002 US dollars is used up" in output
    assert len(api.requests) < 4


async def test_budget_for_a_model_without_a_price_prints_a_warning_first(workspace: Path) -> None:
    async with messages_api(look_around) as api:
        code, output = await run(workspace, api.url, "--model", "of-my-own", "--budget", "0.0002")
    assert code == 0
    assert output.startswith("--budget has no effect: the price of of-my-own is unknown.")
