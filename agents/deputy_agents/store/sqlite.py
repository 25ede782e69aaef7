"""Sessions in one SQLite file per user, shared by all of the user's server processes.

One thread writes (``writer``). Reads use their own short-lived connections, so a long read does not delay a commit.
Committed data survives a crash of the process; a power failure can lose the last moments.
"""

import logging
import math
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from anyio import to_thread

from deputy_agents.domain.errors import StoreError, UnknownSession
from deputy_agents.domain.event import AgentFinished, AgentStarted, Event
from deputy_agents.domain.file_change import FileChange
from deputy_agents.domain.message import Message
from deputy_agents.domain.model_card import Effort, ThinkingMode
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.ports.store import (
    CheckpointRecord,
    Claim,
    HistoryEnds,
    Record,
    SessionPage,
    SessionQuery,
    SessionRecord,
    SessionState,
    StoredReview,
)
from deputy_agents.store import codec
from deputy_agents.store.changes import read_changes, read_review
from deputy_agents.store.checkpoints import copy_session, read_checkpoints
from deputy_agents.store.codec import Redact, no_redaction
from deputy_agents.store.database_file import DatabaseFile, store_error
from deputy_agents.store.history import read_history, read_history_ends
from deputy_agents.store.owners import Owners
from deputy_agents.store.paging import Child, Family, child_row, page, start
from deputy_agents.store.records import read_output, read_state, write_record
from deputy_agents.store.rescue import copy_sessions
from deputy_agents.store.writer import Writer

T = TypeVar("T")

logger = logging.getLogger(__name__)

FILE = "sessions.db"
OWNERS = "owners"
"""Folder beside the file with the locks of the processes that own sessions."""
DOCUMENTS = "transcripts"
"""Folder beside the file with a folder of transcript documents per session, deleted with the session."""
_AT_ONCE = 1.0
"""The time from which the rows of a session may be removed that the user has deleted; it has passed."""

_CHOICES = "model, archived, permission_mode, rules, effort, thinking"
_RECORD = f"session_id, agent_id, title, cwd, created_at, updated_at, {_CHOICES}"
_EVENT = "seq, agent_id, run, agent_seq, time, type, body"
_MAX_VARIABLES = 900
"""Variables of a statement; SQLite permits 999."""
_COUNT = "(SELECT COUNT(*) FROM agents WHERE agents.session = sessions.id)"


class SqliteStore:
    """Implements :class:`deputy_agents.ports.store.Store`. Created by :meth:`open`."""

    def __init__(self, file: DatabaseFile, owners: Owners, redact: Redact) -> None:
        self._file = file
        self._owners = owners
        self._redact = redact
        self.writer = Writer(file, self._recover)

    @classmethod
    def open(cls, folder: Path, redact: Redact = no_redaction) -> "SqliteStore":
        """Opens the store in ``folder`` and creates both if needed, readable only by their owner. ``redact`` removes
        secrets from stored data. Blocks; call it from a thread.

        Raises:
            StoreError: the store cannot be used. Existing files are not changed.
        """
        file = DatabaseFile(folder / FILE)
        try:
            file.connect().close()
            return cls(file, Owners(folder / OWNERS), redact)
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            logger.debug("the session file cannot be used: %s", error)
            raise store_error(error, file.path) from error

    # -- sessions --------------------------------------------------------------------------------------------------

    async def create(self, record: SessionRecord) -> None:
        def job(connection: sqlite3.Connection) -> None:
            # A deleted session whose rows are not removed yet gives its id up.
            sql = "UPDATE sessions SET session_id = 'deleted ' || id WHERE session_id = ? AND purge_after > 0"
            connection.execute(sql, (record.session_id,))
            values = (record.session_id, record.agent_id, *self._values(record), self._owners.name)
            marks = ", ".join("?" * len(values))
            sql = f"INSERT INTO sessions ({_RECORD}, owner) VALUES ({marks}) ON CONFLICT DO NOTHING"  # noqa: S608
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
        sql = f"SELECT {_RECORD}, {_COUNT} FROM sessions WHERE session_id = ? AND purge_after = 0"  # noqa: S608

        def job(connection: sqlite3.Connection) -> SessionRecord:
            row = connection.execute(sql, (session_id,)).fetchone()
            if row is None:
                raise _unknown(session_id)
            return record_of_row(row)

        return await self._read(job)

    async def sessions(self, query: SessionQuery) -> SessionPage:
        return await self._read(lambda connection: page(_families(connection, query), query))

    async def delete(self, session_id: str, purge_after: float = 0) -> None:
        def job(connection: sqlite3.Connection) -> None:
            key = self._owned(connection, session_id)
            values = (max(purge_after, _AT_ONCE), key)
            connection.execute("UPDATE sessions SET purge_after = ?, owner = NULL WHERE id = ?", values)

        # First the documents, because removing them makes room on a full disk.
        await self._read(lambda connection: self._owned(connection, session_id))
        await to_thread.run_sync(_remove, self._file.path.parent / DOCUMENTS / session_id)
        await self.writer.run(job)

    async def undelete(self, purge_after: float) -> None:
        sql = "SELECT EXISTS (SELECT 1 FROM sessions WHERE purge_after > ?)"
        if not await self._read(lambda connection: connection.execute(sql, (purge_after,)).fetchone()[0]):
            return

        def job(connection: sqlite3.Connection) -> None:
            connection.execute("UPDATE sessions SET purge_after = 0 WHERE purge_after > ?", (purge_after,))

        await self.writer.run(job)

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
            connection.executemany(sql, (_event_row(key, event, self._redact) for event in events))
            for event in events:
                self._update_agent(connection, key, event)
            for record in records:
                write_record(connection, key, record, self._redact)

        await self.writer.run(job)

    async def events(self, session_id: str, after: int = 0, limit: int | None = None) -> Sequence[Event]:
        sql = f"SELECT {_EVENT} FROM events WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?"  # noqa: S608

        def job(connection: sqlite3.Connection) -> list[Event]:
            key = _key(connection, session_id)
            rows = connection.execute(sql, (key, after, -1 if limit is None else limit))
            return [_event_of_row(session_id, row) for row in rows]

        return await self._read(job)

    async def events_at(self, session_id: str, numbers: Sequence[int]) -> Sequence[Event]:
        wanted = sorted(set(numbers))

        def job(connection: sqlite3.Connection) -> list[Event]:
            key, events = _key(connection, session_id), list[Event]()
            for first in range(0, len(wanted), _MAX_VARIABLES):
                some = wanted[first : first + _MAX_VARIABLES]
                marks = ", ".join("?" * len(some))
                sql = f"SELECT {_EVENT} FROM events WHERE session = ? AND seq IN ({marks}) ORDER BY seq"  # noqa: S608
                events += (_event_of_row(session_id, row) for row in connection.execute(sql, (key, *some)))
            return events

        return await self._read(job)

    async def history(self, session_id: str, agent_id: str, limit: int | None = None) -> Sequence[Message]:
        return await self._read(
            lambda connection: read_history(connection, _key(connection, session_id), agent_id, limit)
        )

    async def history_ends(
        self, session_id: str, agent_ids: Sequence[str], containing: str = ""
    ) -> Mapping[str, HistoryEnds]:
        return await self._read(
            lambda connection: read_history_ends(connection, _key(connection, session_id), agent_ids, containing)
        )

    async def state(self, session_id: str) -> SessionState:
        return await self._read(lambda connection: read_state(connection, _key(connection, session_id)))

    async def changes(self, session_id: str, since: str | None = None) -> Sequence[FileChange]:
        def job(connection: sqlite3.Connection) -> list[FileChange]:
            key = _key(connection, session_id)
            found = {one.checkpoint_id: one.last_change for one in read_checkpoints(connection, key) if since}
            return read_changes(connection, key, found.get(since or "", 0))

        return await self._read(job)

    async def checkpoints(self, session_id: str) -> Sequence[CheckpointRecord]:
        return await self._read(lambda connection: read_checkpoints(connection, _key(connection, session_id)))

    async def fork(
        self, session_id: str, record: SessionRecord, ids: Mapping[str, str], checkpoint_id: str | None = None
    ) -> None:
        values = (record.session_id, record.agent_id, *self._values(record))
        sql = f"INSERT INTO sessions ({_RECORD}) VALUES ({', '.join('?' * len(values))})"  # noqa: S608

        def job(connection: sqlite3.Connection) -> None:
            source = _key(connection, session_id)
            target = connection.execute(sql, values).lastrowid
            copy_session(connection, source, target or 0, ids, checkpoint_id)

        await self.writer.run(job)

    async def review(self, session_id: str) -> StoredReview:
        return await self._read(lambda connection: read_review(connection, _key(connection, session_id)))

    async def output(self, session_id: str, agent_id: str, tool_call_id: str) -> str | None:
        return await self._read(
            lambda connection: read_output(connection, _key(connection, session_id), agent_id, tool_call_id)
        )

    # -- owners ----------------------------------------------------------------------------------------------------

    async def claim(self, session_id: str) -> Claim:
        sql = "SELECT owner FROM sessions WHERE id = ?"

        def read_owner(connection: sqlite3.Connection) -> str | None:
            return connection.execute(sql, (_key(connection, session_id),)).fetchone()[0]

        def job(connection: sqlite3.Connection) -> bool:
            key = _key(connection, session_id)
            if connection.execute(sql, (key,)).fetchone()[0] != owner:
                return False  # another process was faster
            connection.execute("UPDATE sessions SET owner = ? WHERE id = ?", (self._owners.name, key))
            return True

        while True:
            # Checking whether a process runs can take a tenth of a second, so no transaction waits for it.
            owner = await self._read(read_owner)
            if owner == self._owners.name:
                return Claim.MINE
            if owner is not None and await to_thread.run_sync(self._owners.alive, owner):
                return Claim.FOREIGN
            if await self.writer.run(job):
                return Claim.MINE if owner is None else Claim.TAKEN_OVER

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
        if await to_thread.run_sync(lambda: self._file.changed):
            await self.writer.run(lambda _: None)  # recovers, and raises what happened
        return await to_thread.run_sync(self._run_read, job)

    def _run_read(self, job: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return self._file.read(job)
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            logger.warning("the session file cannot be read: %s", error)
            raise store_error(error, self._file.path) from error

    def _recover(self, old: sqlite3.Connection) -> sqlite3.Connection:
        """A connection to the file that is at the path now, after the open sessions were copied to it from ``old``.
        Runs in the writer thread."""
        logger.warning("the session file was deleted, moved or replaced")
        self._owners.restore()
        if not self._file.lost:  # only the log is gone: what it held goes to the file, which stays
            old.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            old.close()
            return self._file.connect()
        self._file.remove_old_log()
        new = self._file.connect()
        try:
            copied = copy_sessions(old, new, self._owners.name)
        except BaseException:
            new.close()
            raise
        logger.warning("%d open sessions were copied to the new session file", copied)
        old.close()
        return new

    def _owned(self, connection: sqlite3.Connection, session_id: str) -> int:
        """The key of a session owned by this process."""
        row = connection.execute(
            "SELECT id, owner FROM sessions WHERE session_id = ? AND purge_after = 0", (session_id,)
        ).fetchone()
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
            record.effort,
            record.thinking,
        )

    def _update_agent(self, connection: sqlite3.Connection, key: int, event: Event) -> None:
        """Updates the row of an agent from its events."""
        match event.body:
            case AgentStarted(info):
                sql = (
                    "INSERT INTO agents VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL) "
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


def _event_row(key: int, event: Event, redact: Redact) -> tuple[object, ...]:
    name = codec.event_type(event.body)
    if name is None:
        raise StoreError(f"{type(event.body).__name__} is never stored.")
    body = codec.encode_event(event.body, redact)
    return key, event.seq, event.agent_id, event.run, event.agent_seq, event.time, name, body


def _event_of_row(session_id: str, row: tuple[int, str | None, int | None, int | None, float, str, str]) -> Event:
    seq, agent_id, run, agent_seq, time, name, body = row
    return Event(session_id, time, codec.decode_event(name, body), agent_id, run, seq, agent_seq)


def _key(connection: sqlite3.Connection, session_id: str) -> int:
    sql = "SELECT id FROM sessions WHERE session_id = ? AND purge_after = 0"
    row = connection.execute(sql, (session_id,)).fetchone()
    if row is None:
        raise _unknown(session_id)
    return row[0]


def _unknown(session_id: str) -> UnknownSession:
    return UnknownSession(f"There is no session {session_id}.")


def record_of_row(row: Sequence[object]) -> SessionRecord:
    *fields, archived, mode, rules, effort, thinking, count = row
    return SessionRecord(
        *fields,  # pyright: ignore[reportArgumentType]
        archived=bool(archived),
        agent_count=count,  # pyright: ignore[reportArgumentType]
        permission_mode=PermissionMode(mode) if mode in list(PermissionMode) else None,
        rules=codec.decode_rules(str(rules)),
        effort=Effort(effort) if effort in list(Effort) else None,
        thinking=ThinkingMode(thinking) if thinking in list(ThinkingMode) else None,
    )


def _families(connection: sqlite3.Connection, query: SessionQuery) -> Iterator[Family]:
    """Sessions with their sub-agents, read lazily."""
    at, from_id = start(query) or (math.inf, "")
    where = (
        "(updated_at, session_id) <= (?1, ?2) AND (?3 IS NULL OR cwd = ?3) AND (?4 OR NOT archived) "
        "AND (?5 IS NULL OR updated_at < ?5) AND purge_after = 0"
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
