"""Long stored sessions: how long a client waits for the first screen of one, and what ended sub-agents cost in memory.

The reference for the first screen is bare ``sqlite3`` with ``json``, which reads and parses every event of the session.
"""

import asyncio
import json
import os
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import NamedTuple, cast

import psutil

from deputy_agents.store.sqlite import FILE
from tests.support.long_sessions import long_session, many_children, stored
from tests.support.rpc import SERVE, RpcClient, running

EVENTS = 50_000
SCREEN = 200
"""Entries that an editor asks for at first."""
CHILDREN = 300
HISTORY = 600_000
"""Characters of the history of a sub-agent."""


def _reference(folder: Path) -> float:
    """Seconds of CPU to read and parse every event of the session."""
    began = time.thread_time()
    connection = sqlite3.connect(folder / FILE)
    rows = connection.execute("SELECT body FROM events ORDER BY seq").fetchall()
    assert sum(bool(json.loads(body)) for (body,) in rows) > EVENTS // 10
    connection.close()
    return time.thread_time() - began


async def _load(client: RpcClient, params: dict[str, object]) -> tuple[float, dict[str, object]]:
    began = time.perf_counter()
    loaded = await client.request("deputy/session/load", {"sessionId": "s", **params})
    return time.perf_counter() - began, loaded


class _Opened(NamedTuple):
    """Seconds until a client has the session, and of the server's CPU until then; the longest time without an answer to
    another request meanwhile; the number of entries; and the memory by which the server has grown in MiB."""

    seconds: float
    cpu: float
    longest: float
    entries: int
    grown: int


async def _opened(folder: Path, params: dict[str, object]) -> _Opened:
    """Opens the session in a new server."""
    environment = {"DEPUTY_STATE": str(folder)}
    async with running(SERVE, cwd=folder, env={**os.environ, **environment}) as client:
        await client.initialize(folder)
        await client.request("deputy/session/list", {})
        process = psutil.Process(client.process.pid)
        before = process.memory_info().rss
        longest = 0.0

        async def probe() -> None:
            nonlocal longest
            while True:
                began = time.perf_counter()
                await client.request("deputy/metrics", {})
                longest = max(longest, time.perf_counter() - began)
                await asyncio.sleep(0.005)

        probing = asyncio.create_task(probe())
        cpu = _cpu(process)
        seconds, loaded = await _load(client, params)
        cpu = _cpu(process) - cpu
        await asyncio.sleep(0.3)
        probing.cancel()
        grown = process.memory_info().rss - before
        entries = cast("list[object]", loaded["transcript"])
        return _Opened(seconds, cpu, longest, len(entries), grown // 2**20)


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def _line(what: str, opened: _Opened, reference: float) -> str:
    return (
        f"  {what:7} {opened.seconds * 1000:6.0f} ms, {opened.cpu / reference:5.2f} of the CPU of the reference, "
        f"{opened.entries:6,} entries; other requests wait {opened.longest * 1000:4.0f} ms at most; {opened.grown} MiB"
    )


async def main() -> None:
    screen: dict[str, object] = {"transcriptLimit": SCREEN}
    with tempfile.TemporaryDirectory() as name:
        folder = await stored(Path(name), long_session(EVENTS))
        reference = await asyncio.to_thread(_reference, folder)
        print(
            f"load: a stored session of {EVENTS:,} events; bare sqlite3 reads and parses it in {reference:.2f} s of CPU"
        )
        for what, params in (("first", screen), ("screen", screen), ("all", {})):
            print(_line(what, await _opened(folder, params), reference))
    with tempfile.TemporaryDirectory() as name:
        folder = await stored(Path(name), many_children(CHILDREN, HISTORY))
        print(f"  {CHILDREN} ended sub-agents with histories of {HISTORY // 1000} kB each")
        for what in ("first", "screen"):
            print(_line(what, await _opened(folder, screen), reference))


if __name__ == "__main__":
    asyncio.run(main())
