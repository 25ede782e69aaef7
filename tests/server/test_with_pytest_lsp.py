"""The server as a standard LSP client sees it: no plugin, no knowledge of Deputy's own methods."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

from tests.editors.nvim.neovim import scripted
from tests.editors.plain import plays
from tests.support.viewer import path_of

PATIENCE = 30
SERVER = ClientServerConfig(server_command=[sys.executable, "-m", "deputy_server", "serve", "--stdio"])


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with scripted(Path(plays.__file__)) as url:
        yield url


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    """Of the server, which starts before its client says anything."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", model)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")


@pytest_lsp.fixture(config=SERVER)
async def client(lsp_client: LanguageClient, workspace: Path) -> AsyncGenerator[None]:
    (workspace / "first.py").write_text("limit = 2\n")
    lsp_client.feature(types.WORKSPACE_CODE_LENS_REFRESH)(lambda *_: None)
    await lsp_client.initialize_session(
        types.InitializeParams(
            capabilities=client_capabilities("visual-studio-code"),
            workspace_folders=[types.WorkspaceFolder(workspace.as_uri(), "w")],
            initialization_options={"model": "m"},
        )
    )
    yield
    await lsp_client.shutdown_session()


async def command(client: LanguageClient, name: str, argument: object) -> Any:
    async with asyncio.timeout(PATIENCE):
        params = types.ExecuteCommandParams(name, [argument])
        return await client.workspace_execute_command_async(params)


async def until(client: LanguageClient, holds: Callable[[], object]) -> None:
    """Waits for something that comes with a report of progress."""
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await client.wait_for_notification(types.PROGRESS)


def titles(client: LanguageClient) -> dict[str, types.ProgressToken]:
    """The tokens of what has begun, by title."""
    begun = {token: values[0] for token, values in client.progress_reports.items() if values}
    return {value.title: token for token, value in begun.items() if isinstance(value, types.WorkDoneProgressBegin)}


def ends(client: LanguageClient) -> dict[str, str | None]:
    last = {title: client.progress_reports[token][-1] for title, token in titles(client).items()}
    return {title: value.message for title, value in last.items() if isinstance(value, types.WorkDoneProgressEnd)}


def shown(client: LanguageClient) -> str:
    """The text of the thread that the client was made to show."""
    (document,) = client.shown_documents
    assert document.take_focus is False
    return path_of(document.uri).read_text("utf-8")


@pytest.mark.requirement("P1")
@pytest.mark.requirement("P8")
@pytest.mark.asyncio
async def test_a_standard_client_approves_one_edit_and_denies_another(client: LanguageClient, workspace: Path) -> None:
    asked: list[str] = []

    @client.feature(types.WINDOW_SHOW_MESSAGE_REQUEST)
    def answer(params: types.ShowMessageRequestParams) -> types.MessageActionItem:
        asked.append(params.message.splitlines()[0])
        return types.MessageActionItem("Approve" if "first.txt" in params.message else "Deny")

    await command(client, "deputy.prompt", {"text": "edit both"})
    await until(client, lambda: "Deputy: edit both" in ends(client))
    assert asked == ["[write the first] write_file(first.txt)", "[write the second] write_file(second.txt)"]
    assert (workspace / "first.txt").exists()
    assert not (workspace / "second.txt").exists()
    assert "edit both" in shown(client)


@pytest.mark.requirement("P8")
@pytest.mark.asyncio
async def test_a_standard_client_cancels_a_sub_agent_by_its_progress(client: LanguageClient) -> None:
    await command(client, "deputy.prompt", {"text": "look around"})
    await until(client, lambda: "general: look briefly" in ends(client) and "general: look for ever" in titles(client))
    token = titles(client)["general: look for ever"]
    client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token))
    await until(client, lambda: "Deputy: look around" in ends(client))
    assert ends(client)["general: look for ever"] == "cancelled"
    assert ends(client)["Deputy: look around"] == "end_turn"


@pytest.mark.requirement("R3")
@pytest.mark.asyncio
async def test_a_standard_client_reviews_a_new_file_by_lens_and_hover(client: LanguageClient, workspace: Path) -> None:
    client.feature(types.WINDOW_SHOW_MESSAGE_REQUEST)(lambda _: types.MessageActionItem("Approve"))
    await command(client, "deputy.prompt", {"text": "edit both"})
    await until(client, lambda: "Deputy: edit both" in ends(client))
    path = workspace / "first.txt"
    item = types.TextDocumentItem(path.as_uri(), types.LanguageKind.Python, 1, path.read_text())
    client.text_document_did_open(types.DidOpenTextDocumentParams(item))
    document = types.TextDocumentIdentifier(item.uri)
    hover = await client.text_document_hover_async(types.HoverParams(document, types.Position(0, 0)))
    assert hover is not None
    assert isinstance(hover.contents, types.MarkupContent)
    assert "**write the first** (general) changed this line: not reviewed" in hover.contents.value
    assert "approved by you" in hover.contents.value
    lenses = await client.text_document_code_lens_async(types.CodeLensParams(document)) or ()
    commands = {lens.command.title: lens.command for lens in lenses if lens.command}
    assert list(commands) == ["Keep all", "Undo all", "1 of 2", "write the first: Keep", "Undo", "Ask"]
    keep = commands["write the first: Keep"]
    assert (await command(client, keep.command, (keep.arguments or [None])[0]))["conflicts"] == []
    assert not await client.text_document_code_lens_async(types.CodeLensParams(document))
    place = await command(client, "deputy.review.next", {"uri": item.uri, "line": 0})
    assert place["uri"] == (workspace / "second.txt").as_uri()
