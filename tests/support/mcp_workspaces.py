"""Workspaces that name MCP servers."""

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
    """The server with good tools and bad ones, or another ``program`` of this folder, as `.mcp.json` has it."""
    return {
        "command": sys.executable,
        "args": ["-m", f"tests.support.{program}"],
        "env": {"PYTHONPATH": str(ROOT), **env},
    }


def name_servers(workspace: Path, **servers: object) -> None:
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")


DEAF: dict[str, object] = {"command": "sleep", "args": ["600"]}
"""A server that never says anything."""


def own_servers(home: Path, **servers: object) -> None:
    """The user's own settings file names ``servers``: they are started unasked."""
    own = home / ".deputy" / "settings.json"
    own.parent.mkdir(parents=True)
    own.write_text(json.dumps({"mcpServers": servers}), "utf-8")


@asynccontextmanager
async def http_server(port: int | None = None) -> AsyncIterator[str]:
    """The address of the tools' server, as a program of its own."""
    port = port or free_port()
    env = {**os.environ, "PORT": str(port), "PYTHONPATH": str(ROOT)}
    program = [sys.executable, "-m", "tests.support.mcp_server", "http"]
    server = await asyncio.create_subprocess_exec(*program, env=env, stderr=asyncio.subprocess.DEVNULL)
    try:
        async with asyncio.timeout(PATIENCE):
            while not await _listens(port):  # noqa: ASYNC110 - it sends no word
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
