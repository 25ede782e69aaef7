"""Workspaces that name MCP servers."""

import json
import sys
from pathlib import Path

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
