"""What is found wrong with a session file, without changing it."""

import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest
from anyio import to_thread

from deputy_agents.domain.event import MessageAdded
from deputy_agents.domain.message import Message, Text
from deputy_agents.ports.store import HistoryRecord
from deputy_agents.store import inspection
from deputy_agents.store.inspection import Inspection, inspect
from deputy_agents.store.sqlite import FILE, SqliteStore
from tests.support.stored_sessions import numbered, record


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A state folder with two sessions, of a process that has ended in order."""

    async def fill() -> None:
        store = await to_thread.run_sync(SqliteStore.open, tmp_path)
        for name in ("one", "two"):
            await store.create(record(name, title="Fix the retries"))
            bodies = [MessageAdded(f"m{seq}", "user", "hello " * 50) for seq in (1, 2, 3)]
            histories = [HistoryRecord("p", Message("user", (Text("hello"),), f"m{seq}")) for seq in (1, 2, 3)]
            await store.append(name, numbered(*bodies, session_id=name), histories)
        await store.close()

    anyio.run(fill)
    return tmp_path


def change(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / FILE)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def messages(found: Inspection) -> list[str]:
    return [one.message for one in found.findings]


def test_a_file_in_order_has_no_findings_and_is_not_changed(folder: Path) -> None:
    before = (folder / FILE).read_bytes()
    assert inspect(folder) == Inspection(2)
    assert (folder / FILE).read_bytes() == before


def test_no_file_has_no_findings_and_none_is_made(tmp_path: Path) -> None:
    assert inspect(tmp_path) == Inspection(None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"\0" * 10])
def test_an_empty_or_foreign_file_is_no_session_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    found = inspect(tmp_path)
    assert found.sessions == 0
    assert bool(found.findings) == bool(content)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "not a database": (lambda folder: (folder / FILE).write_text("no database " * 100), "not a database"),
    "zeros in the middle": (lambda folder: _overwrite(folder, 4096, bytes(12_288)), "damaged"),
    "noise in the middle": (lambda folder: _overwrite(folder, 8192, b"\xa5" * 8192), "damaged"),
    "cut": (lambda folder: (folder / FILE).write_bytes((folder / FILE).read_bytes()[:20_000]), "damaged"),
    "newer version": (lambda folder: change(folder, "PRAGMA user_version = 99"), "newer version of Deputy"),
    "another program": (lambda folder: change(folder, "PRAGMA application_id = 7"), "another program"),
    "a folder": (lambda folder: _replace_by_folder(folder / FILE), "cannot be"),
}


def _overwrite(folder: Path, at: int, data: bytes) -> None:
    with (folder / FILE).open("r+b") as file:
        file.seek(at)
        file.write(data)


def _replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("name", DAMAGES)
def test_each_damage_is_named_with_what_to_do(folder: Path, name: str) -> None:
    damage, words = DAMAGES[name]
    damage(folder)
    (finding,) = inspect(folder).findings
    assert words in finding.message
    assert "\n" not in finding.message + finding.action
    assert finding.serious
    assert "Move" in finding.action or "DEPUTY_STATE" in finding.message + finding.action


@pytest.mark.parametrize(
    ("name", "other"), [(b"sessions_by_time", b"sessions_by_t\xffme"), (b"TABLE agents", b"TABLE agen\xffs")]
)
def test_an_undecodable_schema_is_a_damage(folder: Path, name: bytes, other: bytes) -> None:
    data = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(data.replace(name, other))
    (message,) = messages(inspect(folder))
    assert "damaged" in message


def test_a_missing_table_is_a_damage(folder: Path) -> None:
    change(folder, "DROP TABLE history")
    assert messages(inspect(folder)) == ["The session file is damaged: it has no table history."]


ROWS = {
    "an event that is not UTF-8": "UPDATE events SET body = CAST(x'7b22ff' AS TEXT) WHERE seq = 2 AND session = 1",
    "an event that is not JSON": "UPDATE events SET body = '{\"text\": ' WHERE seq = 2 AND session = 1",
    "an event that is a number": "UPDATE events SET body = 7.5, type = 7 WHERE seq = 2 AND session = 1",
    "a message that is not UTF-8": "UPDATE history SET message = CAST(x'ff' AS TEXT) WHERE session = 1 AND number = 1",
    "a title that is not UTF-8": "UPDATE sessions SET title = CAST(x'41ff' AS TEXT) WHERE id = 1",
    "rules that are not JSON": "UPDATE sessions SET rules = 'no' WHERE id = 1",
    "prompts that are not JSON": "UPDATE sessions SET prompts = '[' WHERE id = 1",
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_that_cannot_be_read_is_reported_with_its_session(folder: Path, name: str) -> None:
    change(folder, ROWS[name])
    (finding,) = inspect(folder).findings
    assert finding.message.startswith("1 part of the session one cannot be read: ")
    assert "deputy sessions export one" in finding.action


def test_many_damaged_sessions_are_summed_up(folder: Path) -> None:
    async def fill() -> None:
        store = await to_thread.run_sync(SqliteStore.open, folder)
        for number in range(9):
            await store.create(record(f"s{number}"))
        await store.close()

    anyio.run(fill)
    change(folder, "UPDATE sessions SET rules = 'no'")
    found = messages(inspect(folder))
    assert len(found) == inspection.MAX_LISTED + 1
    assert found[-1] == "6 more sessions have parts that cannot be read."


def test_the_checks_are_bounded_in_time(folder: Path) -> None:
    body = '{"text": "' + "x" * 1000 + '"}'
    with closing(sqlite3.connect(folder / FILE)) as connection:
        rows = ((1, seq, "a", 1, seq, 0.0, "message", body) for seq in range(10, 200_000))
        connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        connection.commit()
    started = time.monotonic()
    assert inspect(folder, seconds=0.05).findings == ()
    assert time.monotonic() - started < 2


@pytest.mark.asyncio
async def test_sessions_of_a_process_that_is_gone_are_reported_and_those_of_one_that_runs_are_not(folder: Path) -> None:
    store = await to_thread.run_sync(SqliteStore.open, folder)
    await store.claim("one")
    assert (await to_thread.run_sync(inspect, folder)).findings == ()
    await store.close()
    await to_thread.run_sync(change, folder, "UPDATE sessions SET owner = 'gone'")
    (finding,) = (await to_thread.run_sync(inspect, folder)).findings
    assert "2 sessions are marked as open in a Deputy that no longer runs" in finding.message
    assert not finding.serious


def test_a_file_that_another_program_locks_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "LOCK_TIMEOUT", 0.2)
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        (finding,) = inspect(folder).findings
    assert "locked by another program" in finding.message
    assert "Close the program" in finding.action


def test_a_file_that_the_user_may_not_read_is_reported(folder: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from deputy_agents.store.inspection import inspect;"
        "os.getuid() or os.setuid(65534);"
        "print([(one.message, one.action) for one in inspect(Path(sys.argv[1])).findings])"
    )
    with TemporaryDirectory(dir="/tmp") as other:
        Path(other).chmod(0o755)
        shutil.copy(folder / FILE, other)
        (Path(other) / FILE).chmod(0)
        command = [sys.executable, "-c", script, other]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert "The session file cannot be opened." in ran.stdout
    assert "readable and writable for you, or set DEPUTY_STATE" in ran.stdout
