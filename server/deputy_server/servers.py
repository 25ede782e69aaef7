"""Tries MCP servers, for those who set them up."""

from collections.abc import Sequence
from pathlib import Path

import anyio

from deputy_agents.mcp import ServerEntry
from deputy_agents.mcp.connection import Connection


def looked_at(entries: Sequence[ServerEntry], folder: Path) -> list[dict[str, object]]:
    """What came of starting each of ``entries`` once: its state, and what it has or why it does not run. Blocks."""
    return anyio.run(_looked_at, entries, folder)


async def _looked_at(entries: Sequence[ServerEntry], folder: Path) -> list[dict[str, object]]:
    connections = [Connection(entry, str(folder), lambda: None) for entry in entries]
    rows: list[dict[str, object]] = []
    async with anyio.create_task_group() as tasks:
        for connection in connections:
            tasks.start_soon(connection.run)
        for connection in connections:
            await connection.settled.wait()
        rows += map(_row, connections)
        tasks.cancel_scope.cancel()
    return rows


def _row(connection: Connection) -> dict[str, object]:
    offer = connection.offer
    return {
        "state": connection.state.value,
        "problem": connection.problem,
        "tools": [tool.name for tool in offer.tools],
        "resources": list(offer.resources),
        "prompts": list(offer.prompts),
    }
