"""The writer thread: runs all queued jobs in one transaction, commits, and completes them together.

It does not wait for more jobs: a group is what was queued during the last commit. SQLite's log is copied to the file
when the thread is idle or the log reaches its maximum size.
"""

import asyncio
import logging
import math
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar, cast

from deputy_agents.domain.errors import DeputyError, StoreError
from deputy_agents.store.cleanup import clean_up
from deputy_agents.store.database_file import DatabaseFile, error_code, store_error

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
_STEP_INTERVAL = 0.002
"""Seconds between steps of the cleanup in which other processes can write."""
_FINISH_TIMEOUT = 2.0
"""Seconds that the cleanup may take when the store is closed."""
MOVED = (
    "The session file was deleted, moved or replaced while Deputy was running. Open sessions continue in a new file, "
    "and nothing that happened in them is lost."
)


@dataclass(slots=True)
class _Task(Generic[T]):
    job: Job[T]
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[T]"
    result: T | None = None
    error: Exception | None = None


class Writer:
    """Owns the write connection to ``file``. ``recover`` replaces a connection whose file is no longer at its path."""

    def __init__(self, file: DatabaseFile, recover: Callable[[sqlite3.Connection], sqlite3.Connection]) -> None:
        self._file = file
        self._recover = recover
        self._connection: sqlite3.Connection | None = None
        """Used only in the thread."""
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
        cleanup_at = math.inf
        while (tasks := self._next_tasks(cleanup_at)) is not None:
            if tasks:
                self._perform(tasks)
                for task in tasks:
                    task.error = task.error and store_error(task.error, self._file.path)
                _complete(tasks)
                cleanup_at = min(cleanup_at, time.monotonic() + IDLE_DELAY)
            if self._connection is not None and time.monotonic() >= cleanup_at:
                cleanup_at = math.inf if clean_up(self._connection) else time.monotonic() + _STEP_INTERVAL
        if self._connection is not None:
            _finish(self._connection)
            self._connection.close()

    def _perform(self, tasks: list[_Task[object]]) -> None:
        """Runs ``tasks`` in one transaction. If a full disk prevents it, the log is emptied first, which makes room."""
        try:
            connection = self._connected()
            try:
                _commit(connection, tasks)
            except sqlite3.Error as error:
                if error_code(error) != sqlite3.SQLITE_FULL:
                    raise
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                _commit(connection, tasks)
            self._file.remember_log()
        except Exception as error:
            if not isinstance(error, sqlite3.Error | DeputyError | OSError | UnicodeDecodeError):
                logger.exception("the store writer failed")
            for task in tasks:
                task.error = error

    def _connected(self) -> sqlite3.Connection:
        """The connection to the file that is at the path now.

        Raises:
            StoreError: it is another file, to which the open sessions have been copied.
        """
        if self._connection is None:
            self._connection = self._file.connect()
        elif self._file.changed:
            self._connection = self._recover(self._connection)
            raise StoreError(MOVED)
        return self._connection

    def _next_tasks(self, cleanup_at: float) -> list[_Task[object]] | None:
        """Waits for queued tasks; returns none at ``cleanup_at`` on the monotonic clock, and ``None`` at the end."""
        timeout = None if cleanup_at == math.inf else max(0.0, cleanup_at - time.monotonic())
        try:
            first = self._queue.get(timeout=timeout)
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


def _finish(connection: sqlite3.Connection) -> None:
    """Cleans up for a limited time; the next process continues."""
    until = time.monotonic() + _FINISH_TIMEOUT
    while time.monotonic() < until and not clean_up(connection):
        pass


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
            task.future.set_exception(task.error)


_ERRORS_OF_ONE_JOB = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, sqlite3.InterfaceError)
"""SQLite's errors for values that it rejects: the file is intact, and other jobs continue."""
