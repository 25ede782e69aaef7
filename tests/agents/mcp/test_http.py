"""Servers that are reached by HTTP, as they refuse and as they are left."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from deputy_agents.mcp.catalog import McpServerState
from deputy_agents.model.scripted import say
from tests.agents.session.test_mcp_servers import prompt, starting, state
from tests.support.commands import until
from tests.support.core import Cast, core
from tests.support.mcp_workspaces import name_servers

pytestmark = pytest.mark.asyncio


class _Handler(BaseHTTPRequestHandler):
    """Speaks as little of the protocol as a client needs to begin a session."""

    heard: list[tuple[str, str]]
    """Method and session of each request that is not a POST."""
    refuses: HTTPStatus | None

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.refuses is not None:
            return self._send(self.refuses, b"go away", "text/plain")
        if "id" not in asked:
            return self._send(HTTPStatus.ACCEPTED)
        version = asked.get("params", {}).get("protocolVersion")
        result = {
            "initialize": {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"},
            },
            "tools/list": {"tools": []},
        }[asked["method"]]
        self._send(HTTPStatus.OK, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode())
        return None

    def do_GET(self) -> None:
        self._send(HTTPStatus.METHOD_NOT_ALLOWED)

    def do_DELETE(self) -> None:
        self.heard.append((self.command, self.headers["mcp-session-id"]))
        self._send(HTTPStatus.OK)

    def _send(self, status: HTTPStatus, body: bytes = b"", kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.send_header("mcp-session-id", "s-1")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@contextmanager
def listening(refuses: HTTPStatus | None = None) -> Generator[tuple[str, list[tuple[str, str]]]]:
    """An address, and what is heard there."""
    heard: list[tuple[str, str]] = []
    handler = type("Handler", (_Handler,), {"heard": heard, "refuses": refuses})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp", heard
        server.shutdown()
        thread.join()


async def test_a_server_that_rejects_is_told_with_its_status(workspace: Path) -> None:
    with listening(HTTPStatus.UNAUTHORIZED) as (url, _):
        name_servers(workspace, tracker={"type": "http", "url": url})
        async with core(workspace, Cast([say("hello")]), starting()) as c:
            await prompt(c)
            await until(lambda: state(c) is McpServerState.FAILED)
            assert "HTTP 401 Unauthorized" in str(c.session.problems[-1])


async def test_a_server_is_told_when_the_session_ends(workspace: Path) -> None:
    with listening() as (url, heard):
        name_servers(workspace, tracker={"type": "http", "url": url})
        async with core(workspace, Cast([say("hello")]), starting()) as c:
            await prompt(c)
            await until(lambda: state(c) is McpServerState.READY)
        assert heard == [("DELETE", "s-1")]
