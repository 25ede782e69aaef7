"""The one thread that writes: takes what waits, does it in one transaction, commits, and answers all at once.

It never waits for more to come: a group is what has gathered during the last commit. SQLite copies its log into the
file when nothing is to be done, or when the log has grown to its cap.
"""

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar, cast

from deputy_agents.domain.errors import DeputyError, StoreError

logger = logging.getLogger(__name__)

T = TypeVar("T")
Job: TypeAlias = Callable[[sqlite3.Connection], T]

GROUP = 256
"""Jobs of one transaction."""
WAITING = 4096
"""Jobs that may wait. Each session has at most a few."""
PATIENCE = 60.0
"""Seconds after which a job counts as failed: longer than SQLite itself waits for locks."""
REST = 1.0
"""Seconds without work after which the thread tidies up."""
LOG_PAGES = 2000
"""Cap of SQLite's log, in pages of 4 KiB: beyond it a commit copies it into the file."""
_FREE_PAGES = 512
"""Pages that are given back to the disk in one go."""


@dataclass(slots=True)
class _Task(Generic[T]):
    job: Job[T]
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[T]"
    result: T | None = None
    error: Exception | None = None


class Writer:
    """Owns the writing connection that ``connect`` makes (in autocommit mode, in the writer's own thread)."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._queue: queue.Queue[_Task[object] | None] = queue.Queue(WAITING)
        self._thread: threading.Thread | None = None
        self._closed = False

    async def run(self, job: Job[T]) -> T:
        """Does ``job`` in a transaction; returns after the commit. A job that raises changes nothing.

        Raises:
            StoreError: the file cannot be used.
            DeputyError: what ``job`` raises.
        """
        if self._closed:
            raise StoreError("The store is closed.")
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="deputy-store", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        task = _Task(job, loop, loop.create_future())
        try:
            self._queue.put_nowait(cast("_Task[object]", task))
        except queue.Full:
            raise StoreError("The store does not keep up.") from None
        try:
            async with asyncio.timeout(PATIENCE):
                return await task.future
        except TimeoutError:
            raise StoreError("The store does not answer.") from None

    async def close(self) -> None:
        """Returns when everything that was handed in is done, and the connection is closed."""
        self._closed = True
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.to_thread(self._queue.put, None)
            await asyncio.to_thread(thread.join, PATIENCE)

    # -- in the thread -----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        connection: sqlite3.Connection | None = None
        tidy = True
        while (tasks := self._next(connection, tidy)) is not None:
            if not tasks and connection is not None:
                tidy = _tidy_up(connection)
                continue
            try:
                connection = connection or self._connect()
                _commit(connection, tasks)
            except Exception as error:
                if not isinstance(error, sqlite3.Error | DeputyError | OSError):
                    logger.exception("the store broke")
                for task in tasks:
                    task.error = error
            tidy = False
            _answer(tasks)
        if connection is not None:
            _tidy_up(connection)
            connection.close()

    def _next(self, connection: sqlite3.Connection | None, tidy: bool) -> list[_Task[object]] | None:
        """What waits, at least one task; nothing after a rest while there is something to tidy up; ``None`` at the
        end."""
        try:
            first = self._queue.get(timeout=None if tidy or connection is None else REST)
        except queue.Empty:
            return []
        tasks: list[_Task[object]] = []
        while first is not None:
            tasks.append(first)
            try:
                first = self._queue.get_nowait() if len(tasks) < GROUP else None
            except queue.Empty:
                return tasks
            if first is None and len(tasks) < GROUP:
                self._queue.put(None)  # the end comes after these
        return tasks or None


def _commit(connection: sqlite3.Connection, tasks: list[_Task[object]]) -> None:
    """Does all tasks in one transaction. One that fails is undone alone; a failure of the file fails them all."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for task in tasks:
            connection.execute("SAVEPOINT job")
            try:
                task.result = task.job(connection)
            except Exception as error:
                if isinstance(error, sqlite3.Error | OSError) and not isinstance(error, _OF_ONE_JOB):
                    raise
                if not isinstance(error, DeputyError):
                    logger.exception("a job of the store broke")
                task.error = error
                connection.execute("ROLLBACK TO job")
            connection.execute("RELEASE job")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _answer(tasks: list[_Task[object]]) -> None:
    for loop in {task.loop for task in tasks}:
        mine = [task for task in tasks if task.loop is loop]
        try:
            loop.call_soon_threadsafe(_settle, mine)
        except RuntimeError:
            logger.debug("nobody waits for the store any more")


def _settle(tasks: list[_Task[object]]) -> None:
    for task in tasks:
        if task.future.done():
            continue
        if task.error is None:
            task.future.set_result(task.result)
        else:
            task.future.set_exception(store_error(task.error))


def _tidy_up(connection: sqlite3.Connection) -> bool:
    """Gives free pages back and copies the log into the file, which shrinks by it; whether all is done."""
    try:
        # A script, as that takes every step of the statement: each frees one page.
        connection.executescript(f"PRAGMA incremental_vacuum({_FREE_PAGES})")
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        return connection.execute("PRAGMA freelist_count").fetchone()[0] == 0
    except sqlite3.Error as error:
        logger.warning("the store could not be tidied up: %s", error)
        return True


_OF_ONE_JOB = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, sqlite3.InterfaceError)
"""What SQLite says of values that it cannot take: the file is sound, and other jobs go on."""

_FAULTS: dict[int, str] = {
    sqlite3.SQLITE_FULL: "The disk is full.",
    sqlite3.SQLITE_READONLY: "The file of sessions, or its folder, cannot be written.",
    sqlite3.SQLITE_PERM: "The file of sessions, or its folder, cannot be written.",
    sqlite3.SQLITE_CANTOPEN: "The file of sessions cannot be opened.",
    sqlite3.SQLITE_BUSY: "The file of sessions is locked by another program.",
    sqlite3.SQLITE_LOCKED: "The file of sessions is locked by another program.",
    sqlite3.SQLITE_CORRUPT: "The file of sessions is damaged; move it away to start with a new one.",
    sqlite3.SQLITE_NOTADB: "The file of sessions is no database; move it away to start with a new one.",
    sqlite3.SQLITE_IOERR: "The file of sessions cannot be read or written.",
}


def store_error(error: Exception) -> Exception:
    """What went wrong, fit for a user; what was not the store's fault stays as it is."""
    match error:
        case sqlite3.Error():
            code: int = getattr(error, "sqlite_errorcode", 0) & 0xFF
            logger.warning("SQLite: %s", error)
            return StoreError(_FAULTS.get(code, "The file of sessions cannot be used; the log has the details."))
        case OSError():
            return StoreError(f"The file of sessions cannot be used: {error.strerror or error}.")
        case _:
            return error
