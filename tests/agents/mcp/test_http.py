"""MCP servers over HTTP: errors, and the end of a session."""

import json
import re
import socket
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from deputy_agents.mcp.catalog import McpServerState
from deputy_agents.model.scripted import say
from deputy_agents.web import connect
from tests.agents.session.test_mcp_servers import prompt, starting, state
from tests.support.commands import until
from tests.support.connections import CAUSES, faulty
from tests.support.core import Cast, core
from tests.support.mcp_workspaces import configure_mcp_servers

pytestmark = pytest.mark.asyncio


class _Handler(BaseHTTPRequestHandler):
    """The minimum of the protocol that a client needs to start a session."""

    received: list[tuple[str, str]]
    """Method and session of each request that is not a POST."""
    error: HTTPStatus | None
    further: Mapping[str, str]
    """Further headers of responses."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.error is not None:
            return self._send(self.error, b"go away", "text/plain")
        if "id" not in request:
            return self._send(HTTPStatus.ACCEPTED)
        version = request.get("params", {}).get("protocolVersion")
        result = {
            "initialize": {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"},
            },
            "tools/list": {"tools": []},
        }[request["method"]]
        self._send(HTTPStatus.OK, json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode())
        return None

    def do_GET(self) -> None:
        self._send(HTTPStatus.METHOD_NOT_ALLOWED)

    def do_DELETE(self) -> None:
        self.received.append((self.command, self.headers["mcp-session-id"]))
        self._send(HTTPStatus.OK)

    def _send(self, status: HTTPStatus, body: bytes = b"", kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.send_header("mcp-session-id", "s-1")
        for name, value in self.further.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Discards the log."""


@contextmanager
def listening(error: HTTPStatus | None = None, **further: str) -> Generator[tuple[str, list[tuple[str, str]]]]:
    """An address and the requests received there."""
    received: list[tuple[str, str]] = []
    handler = type("Handler", (_Handler,), {"received": received, "error": error, "further": further})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp", received
        server.shutdown()
        thread.join()


async def test_an_http_error_of_an_mcp_server_is_reported_with_its_status(workspace: Path) -> None:
    with listening(HTTPStatus.FORBIDDEN) as (url, _):
        configure_mcp_servers(workspace, tracker={"type": "http", "url": url})
        async with core(workspace, Cast([say("hello")]), starting()) as c:
            await prompt(c)
            await until(lambda: state(c) is McpServerState.FAILED)
            assert "HTTP 403 Forbidden" in str(c.session.problems[-1])


async def test_the_session_is_deleted_on_the_mcp_server_when_it_ends(workspace: Path) -> None:
    with listening() as (url, received):
        configure_mcp_servers(workspace, tracker={"type": "http", "url": url})
        async with core(workspace, Cast([say("hello")]), starting()) as c:
            await prompt(c)
            await until(lambda: state(c) is McpServerState.READY)
        assert received == [("DELETE", "s-1")]


@pytest.mark.parametrize("fault", CAUSES)
async def test_an_mcp_server_that_cannot_be_reached_is_reported_in_time_with_url_and_cause(
    workspace: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "CONNECT_LIMIT", 0.4)
    monkeypatch.delenv("HTTPS_PROXY")  # it would be asked for the name
    real = socket.getaddrinfo

    def lookup(host: str | bytes, *args: int, **kwargs: int) -> object:
        if "nowhere" in str(host):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    with faulty(fault) as url:
        configure_mcp_servers(workspace, tracker={"type": "http", "url": f"{url}/mcp?key=hush"})
        async with core(workspace, Cast([say("hello")]), starting()) as c:
            started = time.monotonic()
            await prompt(c)
            await until(lambda: state(c) is McpServerState.FAILED)
            assert time.monotonic() - started < 8
            problem = str(c.session.problems[-1])
            assert re.search(f"could not connect to {re.escape(url)}: {CAUSES[fault]}\\.$", problem)


async def test_a_compressed_response_that_was_not_requested_is_an_error(workspace: Path) -> None:
    """The limit of a message is about the bytes that are kept."""
    with listening(**{"content-encoding": "gzip"}) as (url, _):
        configure_mcp_servers(workspace, tracker={"type": "http", "url": url})
        async with core(workspace, Cast([say("hello")]), starting()) as c:
            await prompt(c)
            await until(lambda: state(c) is McpServerState.FAILED)
            assert "compressed response, which was not requested" in str(c.session.problems[-1])
