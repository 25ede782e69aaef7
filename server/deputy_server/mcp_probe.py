"""Tries MCP servers, for those who set them up."""

from collections.abc import Callable, Sequence
from pathlib import Path

import anyio

from deputy_agents.guidance.mcp_entry import ServerEntry
from deputy_agents.mcp.catalog import McpServerState
from deputy_agents.mcp.connection import START_LIMIT, McpConnection


def look_at(
    entries: Sequence[ServerEntry], folder: Path, tell: Callable[[ServerEntry, dict[str, object]], None]
) -> None:
    """Starts each of ``entries`` once, and tells what came of it as soon as that is known: its state, and what it has
    or why it does not run. Blocks, in bounded time."""
    anyio.run(_look_at, entries, folder, tell)


async def _look_at(
    entries: Sequence[ServerEntry], folder: Path, tell: Callable[[ServerEntry, dict[str, object]], None]
) -> None:
    async def look(connection: McpConnection) -> None:
        with anyio.move_on_after(START_LIMIT):
            await connection.start_finished.wait()
        tell(connection.entry, _row(connection))

    connections = [McpConnection(entry, str(folder), lambda: None) for entry in entries]
    async with anyio.create_task_group() as running:
        for connection in connections:
            running.start_soon(connection.run)
        async with anyio.create_task_group() as looking:
            for connection in connections:
                looking.start_soon(look, connection)
        running.cancel_scope.cancel()


def _row(connection: McpConnection) -> dict[str, object]:
    catalog, late = connection.catalog, not connection.start_finished.is_set()
    return {
        "state": (McpServerState.FAILED if late else connection.state).value,
        "problem": connection.problem or (f"it gave no answer within {START_LIMIT:g} s" if late else ""),
        "tools": list(catalog.tools),
        "resources": list(catalog.resources),
        "prompts": [one.name for one in catalog.prompts],
    }
