"""Start and end of the server, with a real process."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from deputy_agents.definition.definition import BUILT_IN
from deputy_protocol.base import to_wire
from deputy_protocol.capabilities import ServerCapabilities
from deputy_protocol.command_table import COMMANDS
from deputy_protocol.methods import METHODS, REQUESTS
from deputy_protocol.validate import parse
from deputy_server.lsp import routes, server
from tests.support.commands import descendants
from tests.support.messages_api import messages_api
from tests.support.model_replies import say
from tests.support.rpc import PATIENCE, RpcClient, RpcFailure, serving

SERVE = (sys.executable, "-m", "deputy_server", "serve")
LATE = ("anthropic", "acp", "mcp", "typer", "rich", "tree_sitter", "PIL")
"""Packages that must not be imported before they are needed."""


@asynccontextmanager
async def owned(*command: str, **pipes: Any) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A process that does not outlive the test."""
    process = await asyncio.create_subprocess_exec(*command, **pipes)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def prompting(client: RpcClient, folder: Path, url: str) -> int:
    """Start a turn that waits for the model; return the id of its prompt request."""
    await client.initialize(folder, initializationOptions={"model": "m", "baseUrl": url})
    session_id, _ = await client.session()
    prompt = client.start_prompt(session_id, "hello")
    await client.event("turn_started")
    return prompt


@pytest.mark.asyncio
async def test_shutdown_then_exit_ends_with_0_and_exit_alone_with_1(workspace: Path) -> None:
    async with serving() as client:
        await client.initialize(workspace)
        assert await client.shut_down() == 0
        assert client.stderr == ""
    async with serving() as client:
        await client.initialize(workspace)
        client.notify("exit")
        assert await client.exit_code() == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("end", ["exit", "end of input", "signal"])
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
async def test_the_store_is_closed_however_the_server_ends(
    end: str, busy: bool, workspace: Path, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    gate = asyncio.Event()
    async with (
        messages_api(lambda _body, _n: say("hi", gate=gate if busy else None)) as api,
        serving(env={**KEY, "DEPUTY_STATE": str(state)}) as client,
    ):
        await client.initialize(workspace, initializationOptions={"model": "m", "baseUrl": api.url})
        session_id, _ = await client.session()
        if busy:
            client.start_prompt(session_id, "hello")
            await client.event("turn_started")
        else:
            await client.prompt(session_id, "hello")
        match end:
            case "exit":
                await client.shut_down()
            case "end of input":
                client.close_input()
            case _:
                client.process.send_signal(signal.SIGTERM)
        await client.gone()
    assert {path.name for path in state.iterdir()} >= {"sessions.db", "owners"}
    assert not list(state.glob("sessions.db-*")), "the log is in the file"
    assert not list(state.glob("owners/*")), "no lock is left"


@pytest.mark.asyncio
async def test_exit_before_initialize_ends_the_server() -> None:
    async with serving() as client:
        client.notify("exit")
        assert await client.exit_code() == 1


@pytest.mark.asyncio
async def test_the_end_of_input_ends_the_server_cleanly() -> None:
    async with serving() as client:
        client.close_input()
        assert await client.exit_code() == 0
        assert client.stderr == ""


@pytest.mark.requirement("X12")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129), (None, 0)]
)
@pytest.mark.asyncio
async def test_a_turn_is_cancelled_and_answered_when_the_server_ends(
    workspace: Path, number: signal.Signals | None, code: int
) -> None:
    before = set(descendants())
    gate = asyncio.Event()
    async with messages_api(lambda *_: say("never", gate=gate)) as api, serving(env=KEY) as client:
        prompt = await prompting(client, workspace, api.url)
        await api.until(lambda: len(api.requests) == 1)
        if number is None:
            client.close_input()
        else:
            client.process.send_signal(number)
        assert (await client.result(prompt))["stopReason"] == "cancelled"
        assert await client.exit_code() == code
        await api.until(lambda: not api.connections)
        assert set(descendants()) <= before
        assert client.stderr == ""


@pytest.mark.asyncio
async def test_shutdown_cancels_open_requests_and_is_answered_after_them(workspace: Path) -> None:
    gate = asyncio.Event()
    async with messages_api(lambda *_: say("never", gate=gate)) as api, serving(env=KEY) as client:
        prompt = await prompting(client, workspace, api.url)
        assert await client.shut_down() == 0
        answers = [m["id"] for m in client.received if "method" not in m]
        assert answers.index(prompt) == len(answers) - 2
        assert (await client.result(prompt))["stopReason"] == "cancelled"


@pytest.mark.asyncio
async def test_the_server_ends_when_the_editor_process_exits(workspace: Path) -> None:
    waiting = (sys.executable, "-c", "input()")
    async with owned(*waiting, stdin=asyncio.subprocess.PIPE) as editor, serving() as client:
        await client.initialize(workspace, processId=editor.pid)
        editor.kill()
        await editor.wait()
        assert await client.exit_code() == 0


@pytest.mark.asyncio
async def test_an_unknown_process_id_does_not_end_the_server(workspace: Path) -> None:
    async with serving() as client:
        await client.initialize(workspace, processId=2**22 + 1)
        assert await client.request("deputy/session/list", {}) == {"sessions": []}
        assert await client.shut_down() == 0


@pytest.mark.asyncio
async def test_a_client_that_closes_the_output_ends_the_server(workspace: Path) -> None:
    reading, writing = os.pipe()
    async with owned(*SERVE, "--stdio", stdin=asyncio.subprocess.PIPE, stdout=writing) as process:
        os.close(writing)
        os.close(reading)
        assert process.stdin is not None
        body = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}'
        process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0


@pytest.mark.asyncio
async def test_input_from_a_file_is_served(tmp_path: Path) -> None:
    script = tmp_path / "messages"
    bodies = [
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}',
        b'{"jsonrpc":"2.0","id":2,"method":"shutdown"}',
        b'{"jsonrpc":"2.0","method":"exit"}',
    ]
    script.write_bytes(b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies))
    with script.open("rb") as stdin:
        async with owned(*SERVE, stdin=stdin, stdout=asyncio.subprocess.PIPE) as process:
            async with asyncio.timeout(PATIENCE):
                out, _ = await process.communicate()
    assert process.returncode == 0
    assert out.endswith(b'{"jsonrpc":"2.0","id":2,"result":null}')


@pytest.mark.asyncio
async def test_a_turn_with_the_offline_model_imports_no_late_packages(workspace: Path) -> None:
    (workspace / "a.py").write_text("def greet() -> str:\n    return 'hello'\n")
    async with serving(python=["-X", "importtime"]) as client:
        await client.initialize(workspace, initializationOptions={"model": "offline"})
        session_id, _ = await client.session()
        await client.prompt(session_id, "where is greet defined?")
        assert await client.shut_down() == 0
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in client.stderr.splitlines()}
    assert "deputy_agents" in loaded
    assert loaded.isdisjoint(LATE)


@pytest.mark.asyncio
async def test_answering_initialize_does_not_import_pydantic() -> None:
    loading = "import deputy_server.lsp.stdio, sys; print('pydantic' in sys.modules)"
    async with owned(sys.executable, "-c", loading, stdout=asyncio.subprocess.PIPE) as process:
        async with asyncio.timeout(PATIENCE):
            out, _ = await process.communicate()
    assert out == b"False\n"


@pytest.mark.asyncio
async def test_initialize_lists_the_served_methods_and_no_others_are_served(workspace: Path) -> None:
    async with serving() as client:
        result = await client.initialize(workspace)
        deputy = result["capabilities"]["experimental"]["deputy"]
        assert result["serverInfo"]["name"] == "deputy"
        assert to_wire(parse(ServerCapabilities, deputy)) == deputy
        assert deputy["protocolVersion"] == 1
        assert deputy["methods"] == [method.name for method in METHODS]
        assert set(routes.REQUESTS) < set(deputy["methods"])
        assert result["capabilities"]["executeCommandProvider"]["commands"] == list(routes.COMMANDS)
        assert deputy["definitions"] == list(BUILT_IN)
        assert result["serverInfo"]["version"] == version("deputy-ls")
        with pytest.raises(RpcFailure, match="-32601"):
            await client.request("deputy/agent/praise", {"sessionId": "s", "agentId": "a"})


def test_every_listed_method_has_a_handler() -> None:
    assert [request.name for request in REQUESTS] == list(routes.REQUESTS)
    assert [command.name for command in COMMANDS] == list(routes.COMMANDS)
    assert set(server.LSP_REQUESTS) == {*routes.TEXT_REQUESTS, "workspace/executeCommand"}


KEY = {"ANTHROPIC_API_KEY": "test-key"}
