"""Resources of MCP servers with a ``file:`` URI need what reading the file needs."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from deputy_agents.domain.rule import Action
from deputy_agents.mcp.connection import McpConnection
from deputy_agents.mcp.tool import McpResourceTool
from tests.support.files import hands_on

pytestmark = pytest.mark.asyncio


def tool() -> McpResourceTool:
    connection = SimpleNamespace(entry=SimpleNamespace(name="fs"), catalog=SimpleNamespace(resources=()))
    return McpResourceTool(cast("McpConnection", connection))


@pytest.mark.parametrize(
    ("uri", "needed"),
    [
        ("file://{}/a.txt", (Action.READ, "a.txt")),
        ("FILE://{}/.env", (Action.READ_SECRET, ".env")),
        ("file://localhost{}/%2Eenv", (Action.READ_SECRET, ".env")),
        ("file://{}/link.txt", (Action.READ_SECRET, ".env")),
        ("file://{}/sub/../.env", (Action.READ_SECRET, ".env")),
        ("file:///outside/.env", (Action.READ_SECRET, "/outside/.env")),
        ("https://example.org/.env", None),
        ("memo:.env", None),
        ("file:relative", None),
        ("file://[", None),
    ],
)
async def test_file_resource_needs_the_access_of_the_file(
    workspace: Path, uri: str, needed: tuple[Action, str] | None
) -> None:
    (workspace / ".env").touch()
    (workspace / "link.txt").symlink_to(".env")
    prepared = await tool().prepare({"uri": uri.format(workspace)}, hands_on(workspace).context)
    calling, *reading = prepared.access
    assert (calling.tool, calling.action) == ("mcp__fs__read_resource", Action.CALL)
    assert [(one.action, one.subject) for one in reading] == ([needed] if needed else [])
