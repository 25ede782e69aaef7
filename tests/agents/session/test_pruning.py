"""Old sessions are deleted where the user wants it, and no others."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deputy_agents.domain.settings import Settings
from deputy_agents.model.scripted import ScriptedModel
from deputy_agents.ports.store import SessionQuery
from deputy_agents.session.runtime import Runtime
from deputy_agents.store.memory import MemoryStore
from tests.support.core import StillClock
from tests.support.stored_sessions import record

pytestmark = pytest.mark.asyncio

DAY = 24 * 3600.0


class Telling(MemoryStore):
    """Says when it was looked through."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted = asyncio.Event()

    async def delete(self, session_id: str) -> None:
        await super().delete(session_id)
        self.deleted.set()


async def filled(now: float) -> Telling:
    store = Telling()
    for days in (1, 9, 11, 12, 400):
        await store.create(record(f"{days} days", updated_at=now - days * DAY, archived=days == 400))
        await store.release(f"{days} days")
    return store


async def left(store: MemoryStore) -> list[str]:
    return [row.session_id for row in (await store.sessions(SessionQuery())).records]


@asynccontextmanager
async def running(store: MemoryStore, clock: StillClock, settings: Settings, home: Path) -> AsyncGenerator[Runtime]:
    async with Runtime(
        settings=settings, store=store, models=lambda _: ScriptedModel([]), clock=clock, home=home
    ) as runtime:
        yield runtime


async def test_nothing_is_deleted_unless_the_user_says_so(tmp_path: Path) -> None:
    clock = StillClock()
    store = await filled(clock.time())
    async with running(store, clock, Settings(), tmp_path) as runtime:
        await runtime.load("400 days", roots=[tmp_path])
    assert len(await left(store)) == 5


async def test_what_was_not_used_for_longer_than_the_setting_says_is_deleted(tmp_path: Path) -> None:
    clock = StillClock()
    store = await filled(clock.time())
    async with asyncio.timeout(30), running(store, clock, Settings(), tmp_path) as runtime:
        used = await runtime.load("11 days", roots=[tmp_path])
        runtime.apply_settings(Settings(keep_days=10))
        await store.deleted.wait()
        assert await left(store) == ["1 days", "9 days", "11 days"], "what is open stays"
        assert runtime.session(used.id) is used
