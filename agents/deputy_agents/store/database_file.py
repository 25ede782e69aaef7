"""The SQLite file: opening it, reading it, and noticing that somebody has deleted, moved or replaced it."""

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeAlias, TypeVar

from deputy_agents.domain.errors import StoreError
from deputy_agents.store.schema import migrate

T = TypeVar("T")

LOCK_TIMEOUT = 5.0
"""Seconds to wait for a lock of another process."""
LOG_PAGES = 2000
"""Maximum size of SQLite's log in pages of 4 KiB; a commit beyond it copies the log to the file."""
_MAX_LOG_BYTES = 16 * 1024 * 1024
"""Size to which the log is cut after it was copied to the file."""

_Identity: TypeAlias = tuple[int, int] | None
"""Device and number of a file; ``None`` if it does not exist."""


class DatabaseFile:
    """The file at ``path``, which is created with access only for its owner. All methods block."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._log = path.with_name(f"{path.name}-wal")
        self._opened: tuple[_Identity, _Identity] = (None, None)
        """The file and the log of the write connection; ``None`` as long as they are not known."""

    def connect(self) -> sqlite3.Connection:
        """A write connection in autocommit mode, after creation and migration of the file.

        Raises:
            StoreError: the file has a newer version or belongs to another program. It is not changed.
            sqlite3.Error, OSError, UnicodeDecodeError: the file cannot be used.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.path.exists():  # closing an existing file would release the locks that this process has on it
            # SQLite uses the same mode for its other files.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600))
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw", uri=True, timeout=LOCK_TIMEOUT, isolation_level=None
        )
        try:
            migrate(connection)
            _enable_log(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}").fetchone()
            connection.execute(f"PRAGMA journal_size_limit = {_MAX_LOG_BYTES}").fetchone()
        except BaseException:
            connection.close()
            raise
        self._opened = (_identity(self.path), None)
        return connection

    def remember_log(self) -> None:
        """To be called after a commit: the first one creates the log."""
        file, log = self._opened
        if log is None:
            self._opened = (file, _identity(self._log))

    @property
    def changed(self) -> bool:
        """Whether the files at the path are no longer those of the write connection. What is written to it would be
        lost, or would damage the file that is there now."""
        log = self._opened[1]
        return self.lost or (log is not None and log != _identity(self._log))

    @property
    def lost(self) -> bool:
        """Whether the file itself is another one or gone, and not just its log."""
        return self._opened[0] is not None and self._opened[0] != _identity(self.path)

    def remove_old_log(self) -> None:
        """Removes the log and its index if they belong to the lost file: SQLite would apply them to the file that is at
        the path now."""
        if self._opened[1] is not None and self._opened[1] == _identity(self._log):
            for ending in ("-wal", "-shm"):
                self.path.with_name(f"{self.path.name}{ending}").unlink(missing_ok=True)

    def read(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Runs ``job`` with a connection of its own, so that a long read does not delay a commit. Bytes that are not
        text are replaced, so that they make no more unreadable than themselves."""
        with closing(sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True, timeout=LOCK_TIMEOUT)) as connection:
            try:
                return job(connection)
            except (sqlite3.OperationalError, UnicodeDecodeError) as error:
                if isinstance(error, sqlite3.OperationalError) and "decode" not in str(error):
                    raise
                connection.text_factory = _decoded
                return job(connection)


def error_code(error: sqlite3.Error) -> int:
    """The primary result code of SQLite; 0 if there is none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


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


def store_error(error: Exception, path: Path | None = None) -> Exception:
    """Converts errors of SQLite and the file system to StoreError, which names ``path``; returns other errors
    unchanged."""
    match error:
        case sqlite3.Error():
            message = _MESSAGES.get(error_code(error), f"The session file cannot be used: {error}.")
        case UnicodeDecodeError():
            message = _MESSAGES[sqlite3.SQLITE_CORRUPT]
        case OSError():
            message = f"The session file cannot be used: {error.strerror or error}."
        case _:
            return error
    problem, end, advice = message.partition(".")
    return StoreError(message if path is None else f"{problem}: {path}{end}{advice}")


def _decoded(data: bytes) -> str:
    return data.decode(errors="replace")


def _identity(path: Path) -> _Identity:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _enable_log(connection: sqlite3.Connection) -> None:
    """Switches the file to WAL mode permanently. SQLite does not wait if another process does the same."""
    until = time.monotonic() + LOCK_TIMEOUT
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
