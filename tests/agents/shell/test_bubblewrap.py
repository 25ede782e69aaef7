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

BOXED = Settings(permission_mode=PermissionMode.BYPASS, shell=ShellSettings(sandbox=True))


async def result_of(command: str, workspace: Path) -> str:
    async with core(workspace, Cast([calls([use("shell", command=command)]), say("done")]), settings=BOXED) as c:
        await c.turn()
        return c.told()[0]


async def test_a_command_writes_in_the_workspace_and_nowhere_else(workspace: Path) -> None:
    outside = workspace.parent / "outside.txt"
    told = await result_of(f"echo x > inside.txt; echo x > {outside} || echo refused; rm -rf /etc/hostname", workspace)
    assert (workspace / "inside.txt").read_text() == "x\n"
    assert not outside.exists()
    assert "Read-only file system" in told
    assert Path("/etc/hostname").exists()


async def test_a_command_has_no_network(workspace: Path) -> None:
    reached = asyncio.Event()

    async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()
        writer.close()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        told = await result_of(f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo through", workspace)
        assert "through" not in told
        assert not reached.is_set()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)  # from outside of the sandbox it is there
        await reader.read()
        writer.close()
        await writer.wait_closed()
    assert reached.is_set()


async def test_what_a_command_leaves_behind_ends_with_it(workspace: Path) -> None:
    told = await result_of("(setsid sleep 600 &); (sleep 600 &); echo started", workspace)
    assert "started" in told
    await until(lambda: not marked(workspace))
