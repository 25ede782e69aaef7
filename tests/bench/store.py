"""The store: what an event costs to keep, on the loop and in all, how large it is, and how long a long session loads.

The floor is the same rows written by bare ``sqlite3`` in transactions of the same size.
"""

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from deputy_agents.domain import event as ev
from deputy_agents.domain.message import Usage
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.events import saved_view
from deputy_agents.store import codec
from deputy_agents.store.sqlite import FILE, SqliteStore
from tests.support.stored_sessions import PRIMARY, record

AGENTS = 200
EVENTS = 10_000
BATCH = 16
"""Events of one commit: what some agents say while the last one is written."""


def _bodies() -> Iterator[tuple[str, ev.Body]]:
    """What 200 agents do: each starts, calls tools, says something and ends."""
    yield "p", ev.AgentStarted(PRIMARY, AgentStatus.IDLE)
    for number in range(AGENTS):
        agent_id = f"child-{number}"
        info = replace(PRIMARY, agent_id=agent_id, parent_id="p", depth=1, label=f"look {number}")
        yield agent_id, ev.AgentStarted(info, AgentStatus.RUNNING)
    for number in range((EVENTS - 1 - 2 * AGENTS) // 2):
        agent_id, call = f"child-{number % AGENTS}", f"toolu_{number:06}"
        path = f"src/module_{number % 97}.py"
        title, place = f"[look] read_file({path})", (ev.Location(f"/folder/{path}", 10, 60),)
        yield (
            agent_id,
            ev.ToolCallStarted(
                call, "read_file", title, ev.ToolKind.READ, ev.CallStatus.PENDING, {"path": path}, place
            ),
        )
        yield agent_id, ev.ToolCallUpdated(call, ev.CallStatus.COMPLETED, "    return value\n" * 40)
    for number in range(AGENTS):
        yield f"child-{number}", ev.AgentFinished(AgentStatus.COMPLETED, "found it", Usage(1000, 100), 24, 25)


def _events() -> list[ev.Event]:
    numbers: dict[str, int] = {}
    events: list[ev.Event] = []
    for seq, (agent_id, body) in enumerate(_bodies(), 1):
        numbers[agent_id] = numbers.get(agent_id, 0) + 1
        events.append(ev.Event("s", 1e9 + seq, body, agent_id, 1, seq, numbers[agent_id]))
    return events


async def main() -> None:
    events = _events()
    with tempfile.TemporaryDirectory() as folder:
        floor = await asyncio.to_thread(_floor, Path(folder), events)
    with tempfile.TemporaryDirectory() as folder:
        store = await asyncio.to_thread(SqliteStore.open, Path(folder))
        await store.create(record())
        on_loop, whole = await _append(store, events)
        before = time.perf_counter()
        stored = await store.events("s")
        read = time.perf_counter() - before
        view = saved_view.fold(stored)
        folded = time.perf_counter() - before - read
        assert len(view.agents) == AGENTS + 1
        await store.close()
        size = (Path(folder) / FILE).stat().st_size
    count = len(events)
    print(f"store: {count:,} events of {AGENTS} agents, {BATCH} to a commit")
    print(f"  append      {count / whole:8,.0f} events/s, {whole / floor:.2f} of the time of bare sqlite3")
    print(f"  on the loop {on_loop / count * 1e6:8.1f} us of CPU per event")
    print(f"  load        {(read + folded) * 1000:8.0f} ms ({read * 1000:.0f} to read, {folded * 1000:.0f} to fold)")
    print(f"  size        {size / count:8,.0f} kB per 1,000 events")


async def _append(store: SqliteStore, events: list[ev.Event]) -> tuple[float, float]:
    """Seconds of the loop's own CPU, and in all."""
    cpu, wall = time.thread_time(), time.perf_counter()
    for start in range(0, len(events), BATCH):
        await store.append("s", events[start : start + BATCH])
    return time.thread_time() - cpu, time.perf_counter() - wall


def _floor(folder: Path, events: list[ev.Event]) -> float:
    """Seconds that bare sqlite3 takes for the same rows, made beforehand."""
    rows = [(e.seq, e.agent_id, e.run, e.agent_seq, e.time, "x", codec.encode_event(e.body)) for e in events]
    connection = sqlite3.connect(folder / "floor.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("CREATE TABLE events (a INTEGER PRIMARY KEY, b TEXT, c INT, d INT, e REAL, f TEXT, g TEXT)")
    before = time.perf_counter()
    for start in range(0, len(rows), BATCH):
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", rows[start : start + BATCH])
        connection.execute("COMMIT")
    spent = time.perf_counter() - before
    connection.close()
    return spent


if __name__ == "__main__":
    asyncio.run(main())
