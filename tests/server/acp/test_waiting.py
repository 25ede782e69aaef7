"""A prompt that waits for an MCP server can be cancelled in every way."""

from pathlib import Path

import pytest

from tests.support.acp import SUBAGENTS, AcpClient, speaking
from tests.support.mcp_workspaces import SILENT_SERVER
from tests.support.messages_api import messages_api
from tests.support.model_replies import Json, say

pytestmark = pytest.mark.asyncio

WAITS = "waiting for the MCP server deaf"


def _cancel(client: AcpClient, session: str, _prompt: int) -> None:
    client.notify("session/cancel", {"sessionId": session})


def _withdraw(client: AcpClient, _session: str, prompt: int) -> None:
    client.notify("$/cancel_request", {"requestId": prompt})


def _close(client: AcpClient, session: str, _prompt: int) -> None:
    client.start("session/close", {"sessionId": session})


def _delete(client: AcpClient, session: str, _prompt: int) -> None:
    client.start("session/delete", {"sessionId": session})


@pytest.mark.parametrize("end", [_cancel, _withdraw, _close, _delete])
async def test_a_prompt_that_waits_for_an_mcp_server_shows_it_and_is_cancelled_at_once(
    workspace: Path, end: object
) -> None:
    async with messages_api(lambda _b, _n: say("asked after all")) as api:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.url, "DEPUTY_MODEL": "m"}
        async with speaking(env=env) as client:
            await client.greet(**SUBAGENTS)
            deaf: Json = {"name": "deaf", "env": [], **SILENT_SERVER}
            session = await client.open(workspace, mcpServers=[deaf])
            prompt = client.start_say(session, "go")
            await client.update("notice", title=WAITS)
            end(client, session, prompt)  # type: ignore[operator]
            ended = await client.result(prompt)
            assert (ended["stopReason"], ended["usage"]["totalTokens"]) == ("cancelled", 0)
            assert api.requests == []
            assert "Traceback" not in client.stderr


async def test_a_client_without_notices_gets_the_delay_of_a_prompt_as_a_thought(workspace: Path) -> None:
    async with speaking() as client:
        await client.greet()
        session = await client.open(workspace, mcpServers=[{"name": "deaf", "env": [], **SILENT_SERVER}])
        prompt = client.start_say(session, "go")
        assert WAITS in (await client.update("agent_thought_chunk"))["content"]["text"]
        client.notify("session/cancel", {"sessionId": session})
        assert (await client.result(prompt))["stopReason"] == "cancelled"
