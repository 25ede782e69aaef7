"""Test starts of MCP servers, for `deputy mcp list --start`."""

from collections.abc import Callable, Sequence
from pathlib import Path

import anyio

from deputy_agents.guidance.mcp_entry import McpServerEntry
from deputy_agents.mcp.catalog import McpServerState
from deputy_agents.mcp.connection import START_TIMEOUT, McpConnection
from deputy_agents.mcp.sign_ins import SignIns


def probe(
    entries: Sequence[McpServerEntry],
    folder: Path,
    sign_ins: SignIns,
    report: Callable[[McpServerEntry, dict[str, object]], None],
) -> None:
    """Start each of ``entries`` once. Call ``report`` as soon as one is ready or has failed, with its state and either
    what it offers or why it does not run. Blocks for a bounded time."""
    anyio.run(_probe, entries, folder, sign_ins, report)


async def _probe(
    entries: Sequence[McpServerEntry],
    folder: Path,
    sign_ins: SignIns,
    report: Callable[[McpServerEntry, dict[str, object]], None],
) -> None:
    async def report_when_started(connection: McpConnection) -> None:
        with anyio.move_on_after(START_TIMEOUT):
            await connection.start_finished.wait()
        report(connection.entry, _result(connection))

    connections = [McpConnection(entry, str(folder), lambda: None, sign_ins=sign_ins) for entry in entries]
    async with anyio.create_task_group() as running:
        for connection in connections:
            running.start_soon(connection.run)
        async with anyio.create_task_group() as reporting:
            for connection in connections:
                reporting.start_soon(report_when_started, connection)
        running.cancel_scope.cancel()


def _result(connection: McpConnection) -> dict[str, object]:
    catalog, late = connection.catalog, not connection.start_finished.is_set()
    return {
        "state": (McpServerState.FAILED if late else connection.state).value,
        "problem": connection.problem or (f"it did not respond within {START_TIMEOUT:g} s" if late else ""),
        "tools": list(catalog.tools),
        "resources": list(catalog.resources),
        "prompts": [one.name for one in catalog.prompts],
    }
