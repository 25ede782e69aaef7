"""The server as a standard LSP client sees it: no plugin, no knowledge of Deputy's own methods."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

PATIENCE = 30
SERVER = ClientServerConfig(server_command=[sys.executable, "-m", "deputy_server", "serve", "--stdio"])


@pytest_lsp.fixture(config=SERVER)
async def client(lsp_client: LanguageClient, tmp_path: Path) -> AsyncGenerator[None]:
    (tmp_path / "greet.py").write_text("def greet() -> str:\n    return 'hello'\n")
    await lsp_client.initialize_session(
        types.InitializeParams(
            capabilities=client_capabilities("visual-studio-code"),
            workspace_folders=[types.WorkspaceFolder(tmp_path.as_uri(), "w")],
            initialization_options={"model": "offline"},
        )
    )
    yield
    await lsp_client.shutdown_session()


async def command(client: LanguageClient, name: str, argument: object) -> Any:
    async with asyncio.timeout(PATIENCE):
        params = types.ExecuteCommandParams(name, [argument])
        return await client.workspace_execute_command_async(params)


@pytest.mark.requirement("P1")
@pytest.mark.requirement("X18")
@pytest.mark.asyncio
async def test_a_standard_client_prompts_by_a_command_and_is_shown_the_answer(client: LanguageClient) -> None:
    shown = asyncio.create_task(client.wait_for_notification(types.WINDOW_SHOW_MESSAGE))
    await asyncio.sleep(0)
    opened = await command(client, "deputy.prompt", {"text": "where is greet defined?"})
    async with asyncio.timeout(PATIENCE):
        message = await shown
    assert "greet.py" in message.message
    agents = (await command(client, "deputy.listAgents", {"sessionId": opened["sessionId"]}))["agents"]
    assert len(agents) >= 3
    assert {agent["status"] for agent in agents} == {"idle", "completed"}
    ended = [values[-1] for values in client.progress_reports.values()]
    assert len(ended) == len(agents)
    assert all(isinstance(value, types.WorkDoneProgressEnd) for value in ended)
