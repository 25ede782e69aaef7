"""Sessions in one SQLite file per user, shared by all of the user's server processes.

One thread writes (``writer``). Reads use their own short-lived connections, so a long read does not delay a commit.
Committed data survives a crash of the process; a power failure can lose the last moments.
"""

import logging
import math
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from anyio import to_thread

from deputy_agents.domain.errors import StoreError, UnknownSession
from deputy_agents.domain.event import AgentFinished, AgentStarted, Event
from deputy_agents.domain.file_change import FileChange
from deputy_agents.domain.message import Message
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.ports.store import Claim, Record, SessionPage, SessionQuery, SessionRecord
from deputy_agents.store import codec
from deputy_agents.store.codec import Redact, no_redaction
from deputy_agents.store.owners import Owners
from deputy_agents.store.paging import Child, Family, child_row, page, start
from deputy_agents.store.records import read_changes, read_output, write_record
from deputy_agents.store.schema import migrate
from deputy_agents.store.writer import LOG_PAGES, Writer, store_error

T = TypeVar("T")

logger = logging.getLogger(__name__)

FILE = "sessions.db"
DOCUMENTS = "transcripts"
"""Folder beside the file with a folder of transcript documents per session, deleted with the session."""
LOCK_TIMEOUT = 5.0
"""Seconds to wait for a lock of another process."""

_RECORD = "session_id, agent_id, title, cwd, created_at, updated_at, model, archived, permission_mode, rules"
_COUNT = "(SELECT COUNT(*) FROM agents WHERE agents.session = sessions.id)"


class SqliteStore:
    """Implements :class:`deputy_agents.ports.store.Store`. Created by :meth:`open`."""

    def __init__(self, path: Path, owners: Owners, redact: Redact) -> None:
        self._path = path
        self._owners = owners
        self._redact = redact
        self.writer = Writer(partial(_connect, path))

    @classmethod
    def open(cls, folder: Path, redact: Redact = no_redaction) -> "SqliteStore":
        """Opens the store in ``folder`` and creates both if needed, readable only by their owner. ``redact`` removes
        secrets from stored data. Blocks; call it from a thread.

        Raises:
            StoreError: the store cannot be used. Existing files are not changed.
        """
        path = folder / FILE
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _touch(path)
            with closing(_connect(path)):
                pass
            return cls(path, Owners(folder / "owners"), redact)
        except (sqlite3.Error, OSError) as error:
            raise store_error(error) from error

    # -- sessions --------------------------------------------------------------------------------------------------

    async def create(self, record: SessionRecord) -> None:
        def job(connection: sqlite3.Connection) -> None:
            marks = ", ".join("?" * 11)
            sql = f"INSERT INTO sessions ({_RECORD}, owner) VALUES ({marks}) ON CONFLICT DO NOTHING"  # noqa: S608
            values = (record.session_id, record.agent_id, *self._values(record), self._owners.name)
            if not connection.execute(sql, values).rowcount:
                raise StoreError(f"Session {record.session_id} already exists.")

        await self.writer.run(job)

    async def update(self, record: SessionRecord) -> None:
        columns = ", ".join(f"{name} = ?" for name in _RECORD.split(", ")[2:])
        sql = f"UPDATE sessions SET {columns} WHERE id = ?"  # noqa: S608

        def job(connection: sqlite3.Connection) -> None:
            key = self._owned(connection, record.session_id)
            connection.execute(sql, (*self._values(record), key))

        await self.writer.run(job)

    async def get(self, session_id: str) -> SessionRecord:
        sql = f"SELECT {_RECORD}, {_COUNT} FROM sessions WHERE session_id = ?"  # noqa: S608

        def job(connection: sqlite3.Connection) -> SessionRecord:
            row = connection.execute(sql, (session_id,)).fetchone()
            if row is None:
                raise _unknown(session_id)
            return record_of_row(row)

        return await self._read(job)

    async def sessions(self, query: SessionQuery) -> SessionPage:
        return await self._read(lambda connection: page(_families(connection, query), query))

    async def delete(self, session_id: str) -> None:
        def job(connection: sqlite3.Connection) -> None:
            key = self._owned(connection, session_id)
            connection.execute("DELETE FROM sessions WHERE id = ?", (key,))

        await self.writer.run(job)
        # Only after the commit, which proves that the name belongs to a session.
        await to_thread.run_sync(_remove, self._path.parent / DOCUMENTS / session_id)

    # -- events and records ----------------------------------------------------------------------------------------

    async def append(self, session_id: str, events: Sequence[Event], records: Sequence[Record] = ()) -> None:
        def job(connection: sqlite3.Connection) -> None:
            key = self._owned(connection, session_id)
            sql = "SELECT COALESCE(MAX(seq), 0) FROM events WHERE session = ?"
            last: int = connection.execute(sql, (key,)).fetchone()[0]
            for seq, event in enumerate(events, last + 1):
                if event.seq != seq:
                    raise StoreError(f"Event {event.seq} does not follow {seq - 1} in session {session_id}.")
            sql = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
            connection.executemany(sql, (self._event_row(key, event) for event in events))
            for event in events:
                self._update_agent(connection, key, event)
            for record in records:
                write_record(connection, key, record, self._redact)

        await self.writer.run(job)

    async def events(self, session_id: str, after: int = 0, limit: int | None = None) -> Sequence[Event]:
        sql = (
            "SELECT seq, agent_id, run, agent_seq, time, type, body FROM events "
            "WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?"
        )

        def job(connection: sqlite3.Connection) -> list[Event]:
            key = _key(connection, session_id)
            rows = connection.execute(sql, (key, after, -1 if limit is None else limit))
            return [
                Event(session_id, time, codec.decode_event(name, body), agent_id, run, seq, agent_seq)
                for seq, agent_id, run, agent_seq, time, name, body in rows
            ]

        return await self._read(job)

    async def history(self, session_id: str, agent_id: str) -> Sequence[Message]:
        sql = "SELECT message FROM history WHERE session = ? AND agent_id = ? ORDER BY number"

        def job(connection: sqlite3.Connection) -> list[Message]:
            rows = connection.execute(sql, (_key(connection, session_id), agent_id))
            return list(filter(None, (codec.decode_message(message) for (message,) in rows)))

        return await self._read(job)

    async def histories(self, session_id: str) -> Mapping[str, Sequence[Message]]:
        sql = "SELECT agent_id, message FROM history WHERE session = ? ORDER BY agent_id, number"

        def job(connection: sqlite3.Connection) -> dict[str, list[Message]]:
            found: dict[str, list[Message]] = {}
            for agent_id, stored in connection.execute(sql, (_key(connection, session_id),)):
                if (message := codec.decode_message(stored)) is not None:
                    found.setdefault(agent_id, []).append(message)
            return found

        return await self._read(job)

    async def changes(self, session_id: str) -> Sequence[FileChange]:
        return await self._read(lambda connection: read_changes(connection, _key(connection, session_id)))

    async def output(self, session_id: str, agent_id: str, tool_call_id: str) -> str | None:
        return await self._read(
            lambda connection: read_output(connection, _key(connection, session_id), agent_id, tool_call_id)
        )

    # -- owners ----------------------------------------------------------------------------------------------------

    async def claim(self, session_id: str) -> Claim:
        def job(connection: sqlite3.Connection) -> Claim:
            key = _key(connection, session_id)
            owner: str | None = connection.execute("SELECT owner FROM sessions WHERE id = ?", (key,)).fetchone()[0]
            if owner not in (None, self._owners.name) and self._owners.alive(owner):
                return Claim.FOREIGN
            connection.execute("UPDATE sessions SET owner = ? WHERE id = ?", (self._owners.name, key))
            return Claim.MINE if owner in (None, self._owners.name) else Claim.TAKEN_OVER

        return await self.writer.run(job)

    async def release(self, session_id: str) -> None:
        def job(connection: sqlite3.Connection) -> None:
            sql = "UPDATE sessions SET owner = NULL WHERE session_id = ? AND owner = ?"
            connection.execute(sql, (session_id, self._owners.name))

        await self.writer.run(job)

    async def abandoned(self) -> Sequence[str]:
        def job(connection: sqlite3.Connection) -> list[str]:
            rows = connection.execute("SELECT session_id, owner FROM sessions WHERE owner IS NOT NULL").fetchall()
            owners: set[str] = {owner for _, owner in rows}
            ended = {owner for owner in owners if not self._owners.alive(owner)}
            self._owners.sweep(keep=owners)
            return [session_id for session_id, owner in rows if owner in ended]

        return await self._read(job)

    async def close(self) -> None:
        def job(connection: sqlite3.Connection) -> None:
            connection.execute("UPDATE sessions SET owner = NULL WHERE owner = ?", (self._owners.name,))

        # If this fails, the next process takes the sessions over.
        with suppress(StoreError):
            await self.writer.run(job)
        await self.writer.close()
        await to_thread.run_sync(self._owners.close)

    # -- helpers ---------------------------------------------------------------------------------------------------

    async def _read(self, job: Callable[[sqlite3.Connection], T]) -> T:
        return await to_thread.run_sync(_run_read, self._path, job)

    def _owned(self, connection: sqlite3.Connection, session_id: str) -> int:
        """The key of a session owned by this process."""
        row = connection.execute("SELECT id, owner FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
        if row is None:
            raise _unknown(session_id)
        key, owner = row
        if owner != self._owners.name:
            raise StoreError(f"Session {session_id} is not open for changes in this process.")
        return key

    def _values(self, record: SessionRecord) -> tuple[object, ...]:
        return (
            self._redact(record.title),
            record.cwd,
            record.created_at,
            record.updated_at,
            record.model,
            record.archived,
            record.permission_mode,
            codec.encode_rules([rule for rule in record.rules if self._redact(rule.pattern) == rule.pattern]),
        )

    def _update_agent(self, connection: sqlite3.Connection, key: int, event: Event) -> None:
        """Updates the row of an agent from its events."""
        match event.body:
            case AgentStarted(info):
                sql = (
                    "INSERT INTO agents VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
                    "ON CONFLICT DO UPDATE SET model = excluded.model, updated_at = excluded.updated_at"
                )
                primary = info.parent_id is None
                values = (
                    key,
                    info.agent_id,
                    info.parent_id,
                    primary,
                    self._redact(info.label),
                    info.model,
                    event.time,
                    event.time,
                )
                connection.execute(sql, values)
            case AgentFinished():
                sql = "UPDATE agents SET updated_at = ? WHERE session = ? AND agent_id = ?"
                connection.execute(sql, (event.time, key, event.agent_id))
            case _:
                pass

    def _event_row(self, key: int, event: Event) -> tuple[object, ...]:
        name = codec.event_type(event.body)
        if name is None:
            raise StoreError(f"{type(event.body).__name__} is never stored.")
        body = codec.encode_event(event.body, self._redact)
        return key, event.seq, event.agent_id, event.run, event.agent_seq, event.time, name, body


def _run_read(path: Path, job: Callable[[sqlite3.Connection], T]) -> T:
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=LOCK_TIMEOUT)) as connection:
            return job(connection)
    except (sqlite3.Error, OSError) as error:
        raise store_error(error) from error


def _touch(path: Path) -> None:
    """Creates the file with access only for its owner; SQLite uses the same mode for its other files."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600))


def _connect(path: Path) -> sqlite3.Connection:
    """A write connection in autocommit mode, after migration of the file."""
    connection = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=LOCK_TIMEOUT, isolation_level=None)
    try:
        migrate(connection)
        _enable_wal(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _enable_wal(connection: sqlite3.Connection) -> None:
    """Switches the file to WAL mode permanently. SQLite does not wait if another process does the same."""
    until = time.monotonic() + LOCK_TIMEOUT
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def _key(connection: sqlite3.Connection, session_id: str) -> int:
    row = connection.execute("SELECT id FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
    if row is None:
        raise _unknown(session_id)
    return row[0]


def _unknown(session_id: str) -> UnknownSession:
    return UnknownSession(f"There is no session {session_id}.")


def record_of_row(row: Sequence[object]) -> SessionRecord:
    *fields, archived, mode, rules, count = row
    return SessionRecord(
        *fields,  # pyright: ignore[reportArgumentType]
        archived=bool(archived),
        agent_count=count,  # pyright: ignore[reportArgumentType]
        permission_mode=PermissionMode(mode) if mode in list(PermissionMode) else None,
        rules=codec.decode_rules(str(rules)),
    )


def _families(connection: sqlite3.Connection, query: SessionQuery) -> Iterator[Family]:
    """Sessions with their sub-agents, read lazily."""
    at, from_id = start(query) or (math.inf, "")
    where = (
        "(updated_at, session_id) <= (?1, ?2) AND (?3 IS NULL OR cwd = ?3) AND (?4 OR NOT archived) "
        "AND (?5 IS NULL OR updated_at < ?5)"
    )
    sql = f"SELECT id, {_RECORD}, {_COUNT} FROM sessions WHERE {where} ORDER BY updated_at DESC, session_id DESC"  # noqa: S608
    for key, *row in connection.execute(sql, (at, from_id, query.cwd, query.archived, query.before)):
        record = record_of_row(row)
        yield record, [child_row(record, child) for child in (_children(connection, key) if query.children else ())]


def _children(connection: sqlite3.Connection, key: int) -> list[Child]:
    sql = (
        "SELECT agent_id, label, model, started_at, updated_at FROM agents "
        "WHERE session = ? AND NOT user_initiated ORDER BY started_at, agent_id"
    )
    return [Child(*row) for row in connection.execute(sql, (key,))]


def _remove(folder: Path) -> None:
    """Deletes a folder to which another task may still be writing."""
    for _ in range(3):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
    logger.warning("the transcript folder of a deleted session could not be removed")
