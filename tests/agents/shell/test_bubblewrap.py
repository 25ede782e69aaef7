# ruff: noqa: ASYNC240 - the disk is the subject of these tests
"""The sandbox with a real bubblewrap."""

import asyncio
from pathlib import Path

import pytest

from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.settings import Settings, ShellSettings
from deputy_agents.model.scripted import calls, say, use
from tests.support.commands import marked, until
from tests.support.core import Cast, core

pytestmark = [pytest.mark.asyncio, pytest.mark.editors]

SANDBOXED = Settings(permission_mode=PermissionMode.BYPASS, shell=ShellSettings(sandbox=True))


async def result_of(command: str, workspace: Path) -> str:
    async with core(workspace, Cast([calls([use("shell", command=command)]), say("done")]), settings=SANDBOXED) as c:
        await c.turn()
        return c.told()[0]


async def test_command_can_write_only_in_the_workspace(workspace: Path) -> None:
    outside = workspace.parent / "outside.txt"
    output = await result_of(
        f"echo x > inside.txt; echo x > {outside} || echo refused; rm -rf /etc/hostname", workspace
    )
    assert (workspace / "inside.txt").read_text() == "x\n"
    assert not outside.exists()
    assert "Read-only file system" in output
    assert Path("/etc/hostname").exists()


async def test_command_has_no_network(workspace: Path) -> None:
    reached = asyncio.Event()

    async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()
        writer.close()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        output = await result_of(f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo through", workspace)
        assert "through" not in output
        assert not reached.is_set()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)  # reachable from outside the sandbox
        await reader.read()
        writer.close()
        await writer.wait_closed()
    assert reached.is_set()


async def test_processes_left_behind_end_with_the_command(workspace: Path) -> None:
    output = await result_of("(setsid sleep 600 &); (sleep 600 &); echo started", workspace)
    assert "started" in output
    await until(lambda: not marked(workspace))
