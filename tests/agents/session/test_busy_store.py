"""Another process locks the session store: a new session does not wait for it, and is stored when it can be."""

import asyncio
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deputy_agents.domain.event import TurnFinished
from deputy_agents.model.scripted import say
from deputy_agents.session import runtime
from deputy_agents.store.sqlite import FILE, SqliteStore
from tests.support.core import Cast, Core, core

pytestmark = pytest.mark.asyncio


@contextmanager
def locked(folder: Path) -> Generator[None]:
    connection = sqlite3.connect(folder / FILE, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        connection.close()


@pytest.mark.parametrize("succeeds_late", [True, False], ids=["creation succeeds late", "creation fails"])
async def test_a_new_session_starts_in_memory_and_is_stored_later(
    workspace: Path, tmp_path: Path, succeeds_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeout, lock_timeout = (0.05, 2.0) if succeeds_late else (5.0, 0.1)
    monkeypatch.setattr(runtime, "CREATE_TIMEOUT", timeout)
    monkeypatch.setattr("deputy_agents.store.database_file.LOCK_TIMEOUT", lock_timeout)
    store = await asyncio.to_thread(SqliteStore.open, tmp_path / "state")
    lock = locked(tmp_path / "state")
    await asyncio.to_thread(lock.__enter__)
    async with core(workspace, Cast([say("one"), say("two")]), store=store) as opened:
        assert _unstored(opened)
        turn = opened.start()
        if succeeds_late:
            await asyncio.to_thread(lock.__exit__, None, None, None)
        assert (await opened.finish(turn)).stop_reason == "end_turn"
        if not succeeds_late:
            await asyncio.to_thread(lock.__exit__, None, None, None)
        async with asyncio.timeout(15):
            while _unstored(opened):
                await opened.session.log.retry_now()
        await opened.turn()
        stored = await store.events(opened.session.id)
        assert [event.seq for event in stored] == list(range(1, len(stored) + 1))
        assert sum(isinstance(event.body, TurnFinished) for event in stored) == 2
    await store.close()


def _unstored(opened: Core) -> bool:
    return opened.session.log.store_error is not None
