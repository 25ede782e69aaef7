"""The store keeps a limited size of changes, and says of which files it has deleted some."""

import os
from pathlib import Path

import pytest
from anyio import to_thread

from deputy_agents.domain.file_change import FileChange
from deputy_agents.ports.store import ChangesDropped, CheckpointRecord, SessionRecord
from deputy_agents.store import changes
from deputy_agents.store.sqlite import SqliteStore

pytestmark = pytest.mark.asyncio


def change(name: str, path: str, size: int = 0) -> FileChange:
    """A change of ``size`` bytes that cannot be compressed to less."""
    return FileChange(name, "p", 1, "t", path, "before", os.urandom(size).hex(), 1.0)


def checkpoint(name: str) -> CheckpointRecord:
    return CheckpointRecord(name, "t", "p", 1.0, name, None)


@pytest.mark.requirement("R6")
async def test_of_each_file_the_last_deleted_change_is_still_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "MAX_CHANGES", 50_000)
    store = await to_thread.run_sync(SqliteStore.open, tmp_path)
    await store.create(SessionRecord("s", "p", "", "/folder", 1.0, 1.0, "m"))
    small = [change(f"a{number}", "/a") for number in range(3)]
    await store.append("s", [], [checkpoint("first"), *small, change("b", "/b"), checkpoint("second")])
    large = [change("c1", "/c", 40_000), change("c2", "/c", 40_000)]
    await store.append("s", [], [large[0], checkpoint("third"), large[1]])
    for _ in range(2):  # further changes delete no more
        assert [(one.path, one.forgotten) for one in await store.changes("s", "first")] == [
            ("/a", True),
            ("/b", True),
            ("/c", True),
            ("/c", False),
        ]
        assert [(one.path, one.forgotten) for one in await store.changes("s", "second")] == [
            ("/c", True),
            ("/c", False),
        ]
        assert await store.changes("s", "third") == [large[1]]
        assert (await store.review("s")).changes == (large[1],)
        await store.append("s", [], [change("d", "/d"), ChangesDropped(("d",))])
    await store.close()
