"""Old sessions are deleted where the user wants it, and no others."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deputy_agents.domain.settings import Settings
from deputy_agents.model.scripted import ScriptedModel
from deputy_agents.ports.store import SessionQuery, Store
from deputy_agents.session.clients import ClientSettings
from deputy_agents.session.runtime import Runtime
from deputy_agents.store.memory import MemoryStore
from deputy_agents.store.sqlite import SqliteStore
from tests.support.core import StillClock
from tests.support.stored_sessions import record

pytestmark = pytest.mark.asyncio

DAY = 24 * 3600.0


class Telling(MemoryStore):
    """Says when it was looked through."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted = asyncio.Event()

    async def delete(self, session_id: str, purge_after: float = 0) -> None:
        await super().delete(session_id, purge_after)
        self.deleted.set()


async def filled(now: float) -> Telling:
    store = Telling()
    for days in (1, 9, 11, 12, 400):
        await store.create(record(f"{days} days", updated_at=now - days * DAY, archived=days == 400))
        await store.release(f"{days} days")
    return store


async def left(store: Store) -> list[str]:
    return [row.session_id for row in (await store.sessions(SessionQuery())).records]


@asynccontextmanager
async def running(
    store: Store, clock: StillClock, settings: Settings, home: Path
) -> AsyncGenerator[tuple[Runtime, ClientSettings]]:
    async with Runtime(store=store, clock=clock, home=home) as runtime:
        yield runtime, runtime.clients.connect(settings, lambda _: ScriptedModel([]))


async def test_nothing_is_deleted_unless_the_user_says_so(tmp_path: Path) -> None:
    clock = StillClock()
    store = await filled(clock.time())
    async with running(store, clock, Settings(), tmp_path) as (runtime, client):
        await runtime.load(client, "400 days", roots=[tmp_path])
    assert len(await left(store)) == 5


async def test_what_was_not_used_for_longer_than_the_setting_says_is_deleted(tmp_path: Path) -> None:
    clock = StillClock()
    store = await filled(clock.time())
    async with asyncio.timeout(30), running(store, clock, Settings(), tmp_path) as (runtime, client):
        used = await runtime.load(client, "11 days", roots=[tmp_path])
        client.apply(Settings(keep_days=10))
        await store.deleted.wait()
        assert await left(store) == ["1 days", "9 days", "11 days"], "what is open stays"
        assert runtime.session(used.id) is used


async def test_a_clock_that_is_more_than_a_year_ahead_deletes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = StillClock()
    store = await filled(clock.time())
    clock.advance(366 * DAY)
    async with asyncio.timeout(30), running(store, clock, Settings(), tmp_path) as (_, client):
        client.apply(Settings(keep_days=10))
        while "the clock seems to be wrong" not in caplog.text:  # noqa: ASYNC110 - upkeep emits no event
            await asyncio.sleep(0.001)
    assert len(await left(store)) == 5


async def test_what_a_clock_that_was_ahead_has_deleted_comes_back_when_it_is_right(tmp_path: Path) -> None:
    clock = StillClock()
    clock.advance(time.time() - clock.time())  # the store removes what is deleted by the time of the system
    store = await asyncio.to_thread(SqliteStore.open, tmp_path / "state")
    names = ["1 days", "5 days"]
    for name in names:
        await store.create(record(name, updated_at=clock.time() - int(name[0]) * DAY))
        await store.release(name)
    for days_ahead, expected in ((100, []), (0, names)):
        clock.advance(days_ahead * DAY)
        async with asyncio.timeout(30), running(store, clock, Settings(), tmp_path) as (_, client):
            client.apply(Settings(keep_days=10))
            while await left(store) != expected:  # noqa: ASYNC110 - upkeep emits no event
                await asyncio.sleep(0.001)
        clock.advance(-days_ahead * DAY)
    await store.close()
