"""The writer thread: runs all queued jobs in one transaction, commits, and completes them together.

It does not wait for more jobs: a group is what was queued during the last commit. SQLite's log is copied to the file
when the thread is idle or the log reaches its maximum size.
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

MAX_GROUP = 256
"""Jobs per transaction."""
MAX_QUEUED = 4096
"""Queued jobs. Each session has only a few."""
JOB_TIMEOUT = 60.0
"""Seconds after which a job fails; longer than SQLite waits for locks."""
IDLE_DELAY = 1.0
"""Seconds without jobs after which the thread cleans up the file."""
LOG_PAGES = 2000
"""Maximum size of SQLite's log in pages of 4 KiB; a commit beyond it copies the log to the file."""
_FREE_PAGES = 512
"""Pages freed per step of the cleanup."""


@dataclass(slots=True)
class _Task(Generic[T]):
    job: Job[T]
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[T]"
    result: T | None = None
    error: Exception | None = None


class Writer:
    """Owns the write connection. ``connect`` creates it in the writer thread, in autocommit mode."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._queue: queue.Queue[_Task[object] | None] = queue.Queue(MAX_QUEUED)
        self._thread: threading.Thread | None = None
        self._closed = False

    async def run(self, job: Job[T]) -> T:
        """Runs ``job`` in a transaction; returns after the commit. A job that raises changes nothing.

        Raises:
            StoreError: the file cannot be used.
            DeputyError: raised by ``job``.
        """
        if self._closed:
            raise StoreError("The session store is closed.")
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="deputy-store", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        task = _Task(job, loop, loop.create_future())
        try:
            self._queue.put_nowait(cast("_Task[object]", task))
        except queue.Full:
            raise StoreError("The session store is overloaded. Try again.") from None
        try:
            async with asyncio.timeout(JOB_TIMEOUT):
                return await task.future
        except TimeoutError:
            raise StoreError("The session store did not respond in time. Try again.") from None

    async def close(self) -> None:
        """Completes all queued jobs and closes the connection."""
        self._closed = True
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.to_thread(self._queue.put, None)
            await asyncio.to_thread(thread.join, JOB_TIMEOUT)

    # -- in the thread -----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        connection: sqlite3.Connection | None = None
        clean = True
        while (tasks := self._next_tasks(connection, clean)) is not None:
            if not tasks and connection is not None:
                clean = _clean_up(connection)
                continue
            try:
                connection = connection or self._connect()
                _commit(connection, tasks)
            except Exception as error:
                if not isinstance(error, sqlite3.Error | DeputyError | OSError):
                    logger.exception("the store writer failed")
                for task in tasks:
                    task.error = error
            clean = False
            _complete(tasks)
        if connection is not None:
            _clean_up(connection)
            connection.close()

    def _next_tasks(self, connection: sqlite3.Connection | None, clean: bool) -> list[_Task[object]] | None:
        """Waits for queued tasks; returns none after :data:`IDLE_DELAY` if the file is not ``clean``, and ``None`` at
        the end."""
        try:
            first = self._queue.get(timeout=None if clean or connection is None else IDLE_DELAY)
        except queue.Empty:
            return []
        tasks: list[_Task[object]] = []
        while first is not None:
            tasks.append(first)
            try:
                first = self._queue.get_nowait() if len(tasks) < MAX_GROUP else None
            except queue.Empty:
                return tasks
            if first is None and len(tasks) < MAX_GROUP:
                self._queue.put(None)  # end after these tasks
        return tasks or None


def _commit(connection: sqlite3.Connection, tasks: list[_Task[object]]) -> None:
    """Runs all tasks in one transaction. A failed task is rolled back alone; a failure of the file fails all tasks."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for task in tasks:
            connection.execute("SAVEPOINT job")
            try:
                task.result = task.job(connection)
            except Exception as error:
                if isinstance(error, sqlite3.Error | OSError) and not isinstance(error, _ERRORS_OF_ONE_JOB):
                    raise
                if not isinstance(error, DeputyError):
                    logger.exception("a job of the store failed")
                task.error = error
                connection.execute("ROLLBACK TO job")
            connection.execute("RELEASE job")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _complete(tasks: list[_Task[object]]) -> None:
    for loop in {task.loop for task in tasks}:
        done = [task for task in tasks if task.loop is loop]
        try:
            loop.call_soon_threadsafe(_set_results, done)
        except RuntimeError:
            logger.debug("the event loop of a store job is closed")


def _set_results(tasks: list[_Task[object]]) -> None:
    for task in tasks:
        if task.future.done():
            continue
        if task.error is None:
            task.future.set_result(task.result)
        else:
            task.future.set_exception(store_error(task.error))


def _clean_up(connection: sqlite3.Connection) -> bool:
    """Frees unused pages and copies the log to the file, which shrinks. Returns whether no free page is left."""
    try:
        # A script runs every step of the statement; each step frees one page.
        connection.executescript(f"PRAGMA incremental_vacuum({_FREE_PAGES})")
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        return connection.execute("PRAGMA freelist_count").fetchone()[0] == 0
    except sqlite3.Error as error:
        logger.warning("the store cleanup failed: %s", error)
        return True


_ERRORS_OF_ONE_JOB = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, sqlite3.InterfaceError)
"""SQLite's errors for values that it rejects: the file is intact, and other jobs continue."""

_MESSAGES: dict[int, str] = {
    sqlite3.SQLITE_FULL: "The disk is full.",
    sqlite3.SQLITE_READONLY: "The session file or its folder is not writable.",
    sqlite3.SQLITE_PERM: "The session file or its folder is not writable.",
    sqlite3.SQLITE_CANTOPEN: "The session file cannot be opened.",
    sqlite3.SQLITE_BUSY: "The session file is locked by another program.",
    sqlite3.SQLITE_LOCKED: "The session file is locked by another program.",
    sqlite3.SQLITE_CORRUPT: "The session file is damaged. Move it away to start with a new one.",
    sqlite3.SQLITE_NOTADB: "The session file is not a database. Move it away to start with a new one.",
    sqlite3.SQLITE_IOERR: "The session file cannot be read or written.",
}


def store_error(error: Exception) -> Exception:
    """Converts errors of SQLite and the file system to StoreError; returns other errors unchanged."""
    match error:
        case sqlite3.Error():
            code: int = getattr(error, "sqlite_errorcode", 0) & 0xFF
            logger.warning("SQLite: %s", error)
            return StoreError(_MESSAGES.get(code, "The session file cannot be used. See the log for details."))
        case OSError():
            return StoreError(f"The session file cannot be used: {error.strerror or error}.")
        case _:
            return error
