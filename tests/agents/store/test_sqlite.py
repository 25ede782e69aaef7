"""The SQLite store beyond the contract: other processes, invalid files, full disks, old rows."""

import asyncio
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from deputy_agents.domain import event as ev
from deputy_agents.domain.errors import StoreError, UnknownSession
from deputy_agents.domain.file_change import Approval, FileChange
from deputy_agents.domain.message import Message, Text
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.ports.store import (
    CheckpointRecord,
    Claim,
    ContextRecord,
    NotesRecord,
    SessionQuery,
    SessionState,
)
from deputy_agents.redact import Redactor
from deputy_agents.store import database_file, schema, writer
from deputy_agents.store import sqlite as module
from deputy_agents.store.owners import Owners
from deputy_agents.store.schema import APPLICATION_ID, MIGRATIONS, VERSION
from deputy_agents.store.sqlite import FILE, SqliteStore
from tests.support.stored_sessions import BODIES, CHILD, MESSAGES, RULES, lines, numbered, record

pytestmark = pytest.mark.asyncio

EARLIER = Path(__file__).parent / "earlier"


async def opened(folder: Path) -> SqliteStore:
    return await to_thread.run_sync(SqliteStore.open, folder)


def raw(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


async def test_opening_the_file_keeps_the_locks_of_a_read_that_goes_on(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.create(record())
    await store.close()

    store = await opened(tmp_path)
    reading, done = threading.Event(), threading.Event()

    def read(connection: sqlite3.Connection) -> None:
        connection.execute("SELECT * FROM sessions").fetchall()
        reading.set()
        assert done.wait(10)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(store._read, read)  # pyright: ignore[reportPrivateUsage]
        await to_thread.run_sync(reading.wait, 10)
        assert await store.claim("s") is Claim.MINE  # opens the connection that writes
        done.set()
    # The last process that closes the file removes its log.
    program = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM sessions'); c.close()"
    await anyio.run_process([sys.executable, "-c", program, tmp_path / FILE])
    await store.append("s", numbered(BODIES[0]))
    assert len(await store.events("s")) == 1
    await store.close()


# -- persistence ----------------------------------------------------------------------------------------------------


async def test_appended_data_survives_a_killed_process(tmp_path: Path) -> None:
    program = (
        "import asyncio, os, pathlib, signal, sys\n"
        "from deputy_agents.store.sqlite import SqliteStore\n"
        "from tests.support.stored_sessions import BODIES, lines, numbered, record\n"
        "async def main():\n"
        "    store = SqliteStore.open(pathlib.Path(sys.argv[1]))\n"
        "    await store.create(record())\n"
        "    await store.append('s', numbered(*BODIES), lines())\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    ended = await to_thread.run_sync(lambda: subprocess.run(command, check=False))
    assert ended.returncode < 0
    store = await opened(tmp_path)
    assert list(await store.events("s")) == numbered(*BODIES)
    assert list(await store.history("s", "p")) == list(MESSAGES)
    assert list(await store.abandoned()) == ["s"]
    assert await store.claim("s") is Claim.TAKEN_OVER
    assert await store.claim("s") is Claim.MINE
    assert list(await store.abandoned()) == []
    await store.close()


async def test_concurrent_writes_of_many_sessions_stay_separate(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    ids = [f"s{number}" for number in range(20)]

    async def write(session_id: str) -> None:
        await store.create(record(session_id))
        for event in numbered(*BODIES, session_id=session_id):
            await store.append(session_id, [event])

    await asyncio.gather(*map(write, ids))
    for session_id in ids:
        assert list(await store.events(session_id)) == numbered(*BODIES, session_id=session_id)
    await store.close()


async def test_files_are_accessible_only_to_their_owner(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    store = await opened(folder)
    await store.create(record())
    modes = {
        path.relative_to(tmp_path).as_posix(): stat.S_IMODE(path.stat().st_mode)
        for path in sorted(tmp_path.glob("**/*"))  # noqa: ASYNC240
        if path.suffix != ".lock"
    }
    assert modes == {
        "state": 0o700,
        "state/owners": 0o700,
        "state/sessions.db": 0o600,
        "state/sessions.db-shm": 0o600,
        "state/sessions.db-wal": 0o600,
    }
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.glob("owners/*")] == [0o600]
    await store.close()


async def test_secrets_are_removed_before_anything_is_stored(tmp_path: Path) -> None:
    store = await to_thread.run_sync(SqliteStore.open, tmp_path, Redactor({"DOOR_KEY": "open sesame"}).json)
    secret = Rule("r", "shell", DecisionKind.ALLOW, "curl -H open sesame*")
    await store.create(record(title="open sesame", rules=(*RULES, secret)))
    label = replace(CHILD, label="use open sesame", parent_id=None)
    assert (await store.get("s")).rules == RULES
    call = ev.ToolCallStarted(
        "t", "x", "x", ev.ToolKind.OTHER, ev.CallStatus.PENDING, {"deep": [{"word": "open sesame"}]}
    )
    said = ev.MessageAdded("m", "user", "it is open sesame")
    await store.append("s", numbered(call, said, ev.AgentStarted(label, AgentStatus.RUNNING)), lines())
    await store.close()
    found = b"".join(
        path.read_bytes()
        for path in sorted(tmp_path.glob(f"{FILE}*"))  # noqa: ASYNC240
    )
    assert b"sesame" not in found
    assert b"[removed]" in found


# -- other processes -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("E7")
async def test_a_session_of_a_running_process_cannot_be_claimed_until_it_is_released(tmp_path: Path) -> None:
    mine, other = await opened(tmp_path), await opened(tmp_path)
    await other.create(record())
    assert await mine.claim("s") is Claim.FOREIGN
    assert list(await mine.abandoned()) == []
    assert await mine.get("s") == record()
    with pytest.raises(StoreError, match="not open for changes"):
        await mine.append("s", numbered(BODIES[0]))
    await other.release("s")
    assert await mine.claim("s") is Claim.MINE
    assert await other.claim("s") is Claim.FOREIGN
    await mine.close()
    assert await other.claim("s") is Claim.MINE
    await other.close()


async def test_of_several_processes_that_claim_a_session_one_succeeds(tmp_path: Path) -> None:
    first = await opened(tmp_path)
    await first.create(record())
    await first.release("s")
    raw(tmp_path, "UPDATE sessions SET owner = 'long gone'")
    stores = [await opened(tmp_path) for _ in range(3)]
    claims = await asyncio.gather(*(store.claim("s") for store in stores))
    assert sorted(claim.value for claim in claims) == ["foreign", "foreign", "taken_over"]
    for store in [first, *stores]:
        await store.close()


async def test_an_owner_whose_name_is_a_path_counts_as_ended(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.create(record())
    (tmp_path / "elsewhere.lock").touch()
    raw(tmp_path, "UPDATE sessions SET owner = '../elsewhere'")
    assert await store.claim("s") is Claim.TAKEN_OVER
    await store.close()


async def test_several_servers_can_start_at_once_with_a_missing_folder(tmp_path: Path) -> None:
    stores = await asyncio.gather(*(opened(tmp_path / "new") for _ in range(6)))
    for number, store in enumerate(stores):
        await store.create(record(f"s{number}"))
    assert len((await stores[0].sessions(SessionQuery())).records) == 6
    for store in stores:
        await store.close()


# -- invalid stores ---------------------------------------------------------------------------------------------------


async def test_a_file_of_a_newer_version_is_rejected_and_unchanged(tmp_path: Path) -> None:
    await (await opened(tmp_path)).close()
    raw(tmp_path, f"PRAGMA user_version = {VERSION + 1}")
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(StoreError, match="newer version of Deputy"):
        await opened(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


async def test_a_database_of_another_program_is_rejected_and_unchanged(tmp_path: Path) -> None:
    raw(tmp_path, "CREATE TABLE birds (name)")
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(StoreError, match="another program"):
        await opened(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


async def test_a_file_that_is_not_a_database_is_rejected_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"not a database at all, but long enough to be looked at\n" * 100)
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(StoreError, match="not a database"):
        await opened(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


async def test_a_damaged_file_is_reported(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.create(record())
    for number in range(20):
        await store.append("s", numbered(ev.MessageAdded("m", "user", "x" * 9000), after=number))
    await store.close()
    with (tmp_path / FILE).open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096 * 8)
    store = await opened(tmp_path)
    with pytest.raises(StoreError, match="damaged"):
        await store.events("s")
    await store.close()


async def test_a_folder_that_cannot_be_created_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=re.escape(f"cannot be used: Not a directory: {tmp_path / 'file' / 'state'}")):
        await opened(tmp_path / "file" / "state")


async def test_a_full_disk_is_reported_and_stores_nothing_partially(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.create(record())
    await store.writer.run(lambda connection: connection.execute("PRAGMA max_page_count = 1").fetchone())
    big = ev.MessageAdded("m", "user", "x" * 200_000)
    with pytest.raises(StoreError, match="disk is full"):
        await store.append("s", numbered(BODIES[0], big))
    assert list(await store.events("s")) == []
    await store.writer.run(lambda connection: connection.execute("PRAGMA max_page_count = 1000000").fetchone())
    await store.append("s", numbered(BODIES[0], big))
    assert len(await store.events("s")) == 2
    await store.close()


async def test_a_lock_of_another_program_is_reported_after_the_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_file, "LOCK_TIMEOUT", 0.05)
    store = await opened(tmp_path)
    await store.create(record())
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="locked by another program"):
            await store.append("s", numbered(BODIES[0]))
        other.execute("ROLLBACK")
    await store.append("s", numbered(BODIES[0]))
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.append("s", numbered(BODIES[1], after=1))


async def test_one_failed_job_of_a_group_does_not_affect_the_others(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.create(record())
    good, again = numbered(BODIES[0]), numbered(BODIES[0], after=5)
    outcomes = await asyncio.gather(
        store.append("s", good), store.append("s", again), store.create(record("t")), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [type(None), StoreError, type(None)]
    assert list(await store.events("s")) == good
    assert (await store.get("t")).session_id == "t"
    await store.close()


async def test_a_value_that_cannot_be_stored_fails_only_its_session(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.create(record())
    outcomes = await asyncio.gather(
        store.create(record("t", updated_at=3.0)),
        store.update(record(title="lone \ud800")),  # not valid text for SQLite
        store.create(record("u", updated_at=2.0)),
        return_exceptions=True,
    )
    assert [isinstance(outcome, Exception) for outcome in outcomes] == [False, True, False]
    assert {row.session_id for row in (await store.sessions(SessionQuery())).records} == {"s", "t", "u"}
    assert (await store.get("s")).title == record().title
    await store.close()


async def test_a_page_reads_only_the_rows_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await opened(tmp_path)
    for number in range(50):
        await store.create(record(f"s{number:02}", updated_at=float(number)))
    read: list[object] = []
    original = module.record_of_row
    monkeypatch.setattr(module, "record_of_row", lambda row: read.append(row) or original(row))  # pyright: ignore[reportUnknownLambdaType]
    seen: list[str] = []
    cursor = None
    while True:
        page = await store.sessions(SessionQuery(cursor=cursor, limit=7))
        seen += [row.session_id for row in page.records]
        assert len(read) <= 9, "one row before and one after the page"
        read.clear()
        if (cursor := page.cursor) is None:
            break
    assert seen == [f"s{number:02}" for number in reversed(range(50))]
    await store.close()


async def test_the_file_shrinks_after_a_deletion_when_the_store_is_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "IDLE_DELAY", 0.01)
    store = await opened(tmp_path)
    await store.create(record())
    big = ev.MessageAdded("m", "user", "x" * 900_000)
    for number in range(8):
        await store.append("s", numbered(big, after=number))
    large = await sized(tmp_path, lambda size: size > 6_000_000)
    await store.delete("s")
    assert await sized(tmp_path, lambda size: size < 500_000) < large
    await store.close()


async def sized(folder: Path, wanted: Callable[[int], bool]) -> int:
    """Waits until the size of the file is as ``wanted``, and returns it."""
    async with asyncio.timeout(30):
        while not wanted(size := (folder / FILE).stat().st_size):  # noqa: ASYNC110 - the writer emits no event
            await asyncio.sleep(0.01)
    return size


# -- rows of other versions ------------------------------------------------------------------------------------------


@pytest.mark.requirement("E11")
@pytest.mark.parametrize("version", range(1, VERSION + 1))
async def test_files_of_all_earlier_versions_are_migrated_with_their_content(version: int, tmp_path: Path) -> None:
    raw(
        tmp_path,
        f"PRAGMA application_id = {APPLICATION_ID}",
        *(statement for step in MIGRATIONS[:version] for statement in step.split(";")),
        *(EARLIER / f"{version}.sql").read_text().split(";\n"),
        f"PRAGMA user_version = {version}",
    )
    store = await opened(tmp_path)
    (kept,) = (await store.sessions(SessionQuery())).records
    assert (kept.session_id, kept.title, kept.cwd, kept.model, kept.agent_count) == ("s", "a title", "/folder", "m", 2)
    bodies = [event.body for event in await store.events("s")]
    assert [type(body).__name__ for body in bodies] == [
        "AgentStarted",
        "TurnStarted",
        "MessageAdded",
        "AgentStarted",
        "AgentFinished",
        "TurnFinished",
    ]
    assert [message.role for message in await store.history("s", "p")] == ["user", "assistant"]
    made = FileChange("d", "p", 1, "t", "/folder/a.txt", None, "new", 1.3)
    if version > 4:
        made = replace(made, turn_id="t", approved=Approval.USER)
    assert list(await store.changes("s")) == ([made] if version > 1 else [])
    assert await store.output("s", "p", "t") == ("all of it" if version > 1 else None)
    context = ContextRecord("p", "f", "short", 1, 2, ((1, 0),))
    state = SessionState((context,), (), (NotesRecord("c", ("be quick",)),))
    assert await store.state("s") == (state if version > 2 else SessionState())
    prompt = Message("user", (Text("look"),))
    checkpoint = CheckpointRecord("k", "t", "p", 1.05, "look", prompt, counts={"p": 2}, last_change=1)
    assert list(await store.checkpoints("s")) == ([checkpoint] if version > 3 else [])
    assert await store.claim("s") is Claim.MINE
    await store.append("s", numbered(BODIES[1], after=6), [*lines(), replace(made, change_id="e")])
    await store.close()


@pytest.mark.requirement("E11")
async def test_rows_with_unknown_names_fields_and_values_load_and_keep_their_position(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.create(record())
    some = [next(body for body in BODIES if isinstance(body, kind)) for kind in (ev.MessageAdded, ev.ToolCallStarted)]
    await store.append("s", numbered(*BODIES[:2], *some), lines())
    raw(
        tmp_path,
        "UPDATE events SET type = 'invented_later' WHERE seq = 1",
        """UPDATE events SET body = '{"turn_id": "t", "invented": 1}' WHERE seq = 2""",
        "UPDATE events SET body = 'no JSON' WHERE seq = 3",
        """UPDATE events SET body = json_set(body, '$.kind', 'dream') WHERE seq = 4""",
        """UPDATE history SET message =
           '{"role": "user", "content": [{"type": "smell"}, {"type": "text", "text": "x"}]}'
           WHERE number = 1""",
        "UPDATE history SET message = '[' WHERE number = 2",
        "UPDATE sessions SET permission_mode = 'daring', rules = '7'",
    )
    bodies = [event.body for event in await store.events("s")]
    assert bodies == [ev.Unknown("invented_later"), ev.TurnStarted("t"), ev.Unknown("message"), ev.Unknown("tool_call")]
    first, last = await store.history("s", "p")
    assert [block.type for block in first.content] == ["text"]
    assert last == MESSAGES[2]
    assert await store.get("s") == record(agent_count=1)
    await store.close()


# -- the file is deleted, moved or replaced while it is used ---------------------------------------------------------


def _remove_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def _remove_file(folder: Path) -> None:
    (folder / FILE).unlink()


def _remove_all_files(folder: Path) -> None:
    for path in folder.glob(f"{FILE}*"):
        path.unlink()


def _move_folder(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))


def _move_file(folder: Path) -> None:
    (folder / FILE).rename(folder / "moved.db")


def _replace_by_an_empty_file(folder: Path) -> None:
    (folder / "new").touch()
    (folder / "new").replace(folder / FILE)


def _replace_by_a_new_store(folder: Path) -> None:
    other = folder.with_name("other")
    asyncio.run(_stored_elsewhere(other))
    (other / FILE).replace(folder / FILE)


async def _stored_elsewhere(folder: Path) -> None:
    store = await opened(folder)
    await store.create(record("s"))
    await store.append("s", numbered(BODIES[0]))
    await store.create(record("another"))
    await store.close()


def _remove_log(folder: Path) -> None:
    (folder / f"{FILE}-wal").unlink()


@pytest.mark.parametrize(
    "harm",
    [
        _remove_folder,
        _remove_file,
        _remove_all_files,
        _move_folder,
        _move_file,
        _replace_by_an_empty_file,
        _replace_by_a_new_store,
        _remove_log,
    ],
)
@pytest.mark.parametrize("first", ["append", "read"])
async def test_open_sessions_survive_in_a_new_file_and_the_caller_learns_of_it(
    harm: Callable[[Path], None], first: str, tmp_path: Path
) -> None:
    folder = tmp_path / "state"
    store = await opened(folder)
    await store.create(record())
    made = FileChange("d", "p", 1, "t", "/folder/a.txt", None, "new", 1.3)
    await store.append("s", numbered(*BODIES), [*lines(), made])
    await to_thread.run_sync(harm, folder)
    more = numbered(BODIES[0], after=len(BODIES))
    with pytest.raises(StoreError, match="deleted, moved or replaced"):
        await (store.append("s", more) if first == "append" else store.events("s"))
    await store.append("s", more)
    await store.close()

    again = await opened(folder)
    assert list(await again.events("s")) == [*numbered(*BODIES), *more]
    assert list(await again.history("s", "p")) == list(MESSAGES)
    assert list(await again.changes("s")) == [made]
    expected = {"s", "another"} if harm is _replace_by_a_new_store else {"s"}
    assert {row.session_id for row in (await again.sessions(SessionQuery())).records} == expected
    with closing(sqlite3.connect(folder / FILE)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    await again.close()


async def test_the_owner_of_sessions_stays_alive_for_others_when_its_lock_was_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    store = await opened(folder)
    await store.create(record())
    shutil.rmtree(folder)
    with pytest.raises(StoreError, match="deleted, moved or replaced"):
        await store.append("s", numbered(BODIES[0]))
    other = await opened(folder)
    assert await other.claim("s") is Claim.FOREIGN
    await store.close()
    assert await other.claim("s") is Claim.MINE
    await other.close()


# -- damaged bytes ----------------------------------------------------------------------------------------------------


async def test_an_undecodable_byte_in_a_row_costs_that_row_only(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.create(record())
    await store.append("s", numbered(*BODIES[:3]), lines())
    raw(
        tmp_path,
        "UPDATE events SET body = CAST(x'7BFF' AS TEXT) WHERE seq = 2",
        "UPDATE history SET message = CAST(x'FFFE' AS TEXT) WHERE number = 1",
        "UPDATE sessions SET title = CAST(x'61FF62' AS TEXT)",
    )
    bodies = [event.body for event in await store.events("s")]
    assert bodies[0] == BODIES[0]
    assert isinstance(bodies[1], ev.Unknown)
    assert bodies[2] == BODIES[2]
    assert list(await store.history("s", "p")) == list(MESSAGES)[1:]
    (row,) = (await store.sessions(SessionQuery())).records
    assert row.title == "a\ufffdb"
    assert await store.claim("s") is Claim.MINE
    await store.append("s", numbered(BODIES[3], after=3))
    await store.close()


@pytest.mark.parametrize("statement", [b"CREATE TABLE", b"CREATE INDEX", b"tablesessions"])
async def test_an_undecodable_byte_in_the_schema_is_reported(statement: bytes, tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.create(record())
    await store.close()
    data = bytearray((tmp_path / FILE).read_bytes())
    at = data.index(statement) + 6
    data[at : at + 4] = b"\xff\xfe\xfd\xfc"
    (tmp_path / FILE).write_bytes(data)
    with pytest.raises(StoreError, match=r"damaged|cannot be used"):
        await opened(tmp_path)


async def test_a_full_disk_during_the_migration_is_reported_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = schema.migrate

    def migrate(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA max_page_count = 3").fetchone()
        original(connection)

    monkeypatch.setattr(database_file, "migrate", migrate)
    with pytest.raises(StoreError, match="disk is full"):
        await opened(tmp_path)


# -- deletion and claims ----------------------------------------------------------------------------------------------


async def test_deleting_a_large_session_delays_no_commit_and_keeps_the_log_small(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.create(record())
    await store.create(record("t"))
    big = ev.MessageAdded("m", "user", "x" * 500_000)
    for number in range(0, 120, 10):
        await store.append("s", numbered(*([big] * 10), after=number))
    steps: list[int] = []
    await store.delete("s")
    with pytest.raises(UnknownSession):
        await store.get("s")
    log = tmp_path / f"{FILE}-wal"
    async with asyncio.timeout(60):
        while _rows(tmp_path, "s"):
            steps.append(_rows(tmp_path, "s"))
            await store.append("t", numbered(BODIES[0], after=len(steps) - 1))
            await asyncio.sleep(0.01)
    assert len(set(steps)) > 2, "rows are removed in several transactions, between which others commit"
    assert log.stat().st_size <= 32 * 1024 * 1024
    await store.close()
    assert not log.exists()


def _rows(folder: Path, session_id: str) -> int:
    with closing(sqlite3.connect(folder / FILE)) as connection:
        sql = "SELECT COUNT(*) FROM events JOIN sessions ON id = session WHERE session_id = ?"
        return connection.execute(sql, (session_id,)).fetchone()[0]


async def test_a_deletion_that_a_crash_interrupted_is_completed_by_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(tmp_path)
    await store.create(record())
    await store.append("s", numbered(*BODIES), lines())
    await store.delete("s")
    assert _rows(tmp_path, "s") == len(BODIES), "the rows are removed in the background"
    monkeypatch.setattr(writer, "IDLE_DELAY", 0.01)
    other = await opened(tmp_path)
    await other.create(record("t"))
    async with asyncio.timeout(30):
        while _rows(tmp_path, "s"):  # noqa: ASYNC110 - the writer emits no event
            await asyncio.sleep(0.01)
    await other.close()
    await store.close()


async def test_a_session_deleted_for_its_age_is_kept_for_a_while_and_can_be_restored(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.create(record())
    await store.append("s", numbered(*BODIES), lines())
    future = time.time() + 1e9
    await store.delete("s", future)
    assert (await store.sessions(SessionQuery())).records == ()
    await store.close()
    store = await opened(tmp_path)
    await store.undelete(future)
    assert (await store.sessions(SessionQuery())).records == ()
    await store.undelete(future - 1)
    assert list(await store.events("s")) == numbered(*BODIES)
    await store.close()


async def test_claiming_a_session_of_a_slow_owner_delays_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await opened(tmp_path), await opened(tmp_path)
    await first.create(record())
    await second.create(record("t"))
    release = threading.Event()

    def alive(self: Owners, name: str) -> bool:
        return release.wait(30)

    monkeypatch.setattr(Owners, "alive", alive)
    claim = asyncio.create_task(second.claim("s"))
    await asyncio.sleep(0.05)
    async with asyncio.timeout(10):
        await first.append("s", numbered(BODIES[0]))
        await second.append("t", numbered(BODIES[0]))
    release.set()
    assert await claim is Claim.FOREIGN
    await first.close()
    await second.close()
