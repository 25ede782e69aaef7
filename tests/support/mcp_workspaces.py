"""Workspaces with MCP servers."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from socket import socket

from tests.support.rpc import PATIENCE

ROOT = Path(__file__).parents[2]


def tools_server(program: str = "mcp_server", **env: str) -> dict[str, object]:
    """The configuration of :mod:`tests.support.mcp_server`, or of another ``program`` in this folder."""
    return {
        "command": sys.executable,
        "args": ["-m", f"tests.support.{program}"],
        "env": {"PYTHONPATH": str(ROOT), **env},
    }


def configure_mcp_servers(workspace: Path, **servers: object) -> None:
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")


SILENT_SERVER: dict[str, object] = {"command": "sleep", "args": ["600"]}
"""An MCP server that never responds."""


def configure_user_mcp_servers(home: Path, **servers: object) -> None:
    """Adds ``servers`` to the user's settings file; they start without approval."""
    own = home / ".deputy" / "settings.json"
    own.parent.mkdir(parents=True)
    own.write_text(json.dumps({"mcpServers": servers}), "utf-8")


@asynccontextmanager
async def http_server(port: int | None = None) -> AsyncIterator[str]:
    """Runs :mod:`tests.support.mcp_server` as an HTTP server; its address."""
    port = port or free_port()
    env = {**os.environ, "PORT": str(port), "PYTHONPATH": str(ROOT)}
    program = [sys.executable, "-m", "tests.support.mcp_server", "http"]
    server = await asyncio.create_subprocess_exec(*program, env=env, stderr=asyncio.subprocess.DEVNULL)
    try:
        async with asyncio.timeout(PATIENCE):
            while not await _listens(port):  # noqa: ASYNC110 - it emits no event
                await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        await server.wait()


def free_port() -> int:
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
