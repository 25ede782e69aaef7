"""Looks for what is wrong with the session file, without changing it."""

import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deputy_agents.domain.errors import StoreError
from deputy_agents.store.database_file import LOCK_TIMEOUT, error_code, store_error
from deputy_agents.store.owners import is_running
from deputy_agents.store.schema import VERSION, read_version
from deputy_agents.store.sqlite import FILE, OWNERS

CHECK_SECONDS: Final = 10.0
"""Seconds for each of the two checks that read the whole file."""
MAX_LISTED: Final = 5
"""Damaged sessions that are named."""

_MOVE_AWAY: Final = "Move {} away: Deputy then starts with a new file. Or put a backup in its place."
_STEPS: Final = 10_000
"""Steps of SQLite between two looks at the clock."""
_TABLES: Final = {
    "sessions": ("id", ("session_id", "title", "cwd", "model"), {"rules": "array", "prompts": "array"}),
    "agents": ("session", ("label", "model"), {"context": "object", "notes": "array"}),
    "events": ("session", ("type",), {"body": "object"}),
    "history": ("session", (), {"message": "object"}),
}
"""By table: the column with the session, columns with text, and columns with JSON and what that is."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the session file. ``action`` is what to do about it. A finding that is not ``serious`` is
    repaired by Deputy."""

    message: str
    action: str
    serious: bool = True


@dataclass(frozen=True, slots=True)
class Inspection:
    """``sessions`` is their number; ``None`` if there is no file."""

    sessions: int | None
    findings: tuple[Finding, ...] = ()


def inspect(folder: Path, seconds: float = CHECK_SECONDS) -> Inspection:
    """Checks the session file in ``folder``. Blocks, for at most about ``seconds`` for each check."""
    path = folder / FILE
    try:
        if not path.exists():
            return Inspection(None)
        with closing(_connect(path, "ro")) as connection:
            version = read_version(connection)
            if version == 0:
                return Inspection(0)
            if damage := _damage(connection, seconds) or _schema_damage(connection, version):
                finding = Finding(f"The session file is damaged: {damage}.", _MOVE_AWAY.format(path))
                return Inspection(_count(connection), (finding,))
            findings = [*_lock(path), *_left_open(connection, folder / OWNERS)]
            if version == VERSION:
                findings += _damaged_rows(connection, seconds)
            return Inspection(_count(connection), tuple(findings))
    except StoreError as error:
        return Inspection(0, (Finding(str(error), ""),))
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
        return Inspection(0, (_failure(error, path),))


def _failure(error: Exception, path: Path) -> Finding:
    code = error_code(error) if isinstance(error, sqlite3.Error) else 0
    message = str(store_error(error))
    if isinstance(error, PermissionError) or code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        action = f"Make {path} and its folder readable and writable for you, or set DEPUTY_STATE to another folder."
    elif code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        action = f"Close the program that uses {path}."
    elif code == sqlite3.SQLITE_READONLY:
        action = f"Make {path} and its folder writable for you, or set DEPUTY_STATE to another folder."
    elif code == sqlite3.SQLITE_FULL:
        action = "Free some space on the disk."
    else:
        action = _MOVE_AWAY.format(path)
    return Finding(message, action)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=LOCK_TIMEOUT, isolation_level=None)


def _count(connection: sqlite3.Connection) -> int:
    try:
        return connection.execute("SELECT COUNT(*) FROM sessions").fetchone()[0]
    except sqlite3.Error:
        return 0


def _damage(connection: sqlite3.Connection, seconds: float) -> str:
    """What SQLite finds wrong with the structure of the file, as far as the time suffices."""
    until = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    try:
        found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(1)")]
    except sqlite3.OperationalError as error:
        if error_code(error) != sqlite3.SQLITE_INTERRUPT:
            raise
        return ""
    finally:
        connection.set_progress_handler(None, 0)
    return "" if found == ["ok"] else " ".join(found[0].replace("*** in database main ***", "").split()).rstrip(".")


def _schema_damage(connection: sqlite3.Connection, version: int) -> str:
    """What is wrong with the description of the tables."""
    rows = connection.execute("SELECT CAST(name AS BLOB), CAST(sql AS BLOB) FROM sqlite_master").fetchall()
    if not all(map(_is_text, (value for row in rows for value in row))):
        return "the description of its tables is not text"
    missing = sorted(set(_TABLES) - {bytes(name).decode() for name, _ in rows}) if version == VERSION else []
    return f"it has no table {missing[0]}" if missing else ""


def _lock(path: Path) -> Iterator[Finding]:
    """Whether another program keeps Deputy from writing."""
    try:
        with closing(_connect(path, "rw")) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        yield _failure(error, path)


def _left_open(connection: sqlite3.Connection, locks: Path) -> Iterator[Finding]:
    rows = connection.execute("SELECT owner, COUNT(*) FROM sessions WHERE owner IS NOT NULL GROUP BY owner").fetchall()
    count = sum(number for owner, number in rows if not is_running(locks, str(owner)))
    if count:
        sessions = "1 session is" if count == 1 else f"{count} sessions are"
        yield Finding(
            f"{sessions} marked as open in a Deputy that no longer runs.", "Deputy repairs this when it starts.", False
        )


# -- rows ----------------------------------------------------------------------------------------------------------


def _damaged_rows(connection: sqlite3.Connection, seconds: float) -> Iterator[Finding]:
    """The rows that Deputy cannot read, by session."""
    until = time.monotonic() + seconds
    damaged: Counter[int] = Counter()
    connection.text_factory = bytes
    for table in _TABLES:
        for session, is_damaged in _rows(connection, table):
            if is_damaged:
                damaged[session] += 1
            if time.monotonic() > until:
                break
    connection.text_factory = _replaced
    listed = damaged.most_common(MAX_LISTED)
    for session, count in listed:
        yield _about_session(connection, session, count)
    if more := len(damaged) - len(listed):
        yield Finding(f"{more} more sessions have parts that cannot be read.", "Run this again after the first ones.")


def _rows(connection: sqlite3.Connection, table: str) -> Iterator[tuple[int, bool]]:
    key, texts, jsons = _TABLES[table]
    valid = (
        f"CASE WHEN {name} IS NULL THEN 1 WHEN json_valid({name}) THEN json_type({name}) = '{kind}' ELSE 0 END"
        for name, kind in jsons.items()
    )
    sql = f"SELECT {key}, {' AND '.join(valid)}, {', '.join((*texts, *jsons))} FROM {table}"  # noqa: S608
    for session, is_json, *values in connection.execute(sql):
        yield session, not is_json or not all(map(_is_text, values))


def _is_text(value: object) -> bool:
    if value is None:
        return True
    if not isinstance(value, bytes):
        return False
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _about_session(connection: sqlite3.Connection, session: int, count: int) -> Finding:
    row = connection.execute("SELECT session_id, title FROM sessions WHERE id = ?", (session,)).fetchone()
    session_id, title = map(str, row) if row else ("?", "")
    parts = "1 part" if count == 1 else f"{count} parts"
    return Finding(
        f"{parts} of the session {session_id} cannot be read: {title}",
        f"Deputy leaves such parts out. `deputy sessions export {session_id}` saves the rest, `deputy sessions delete "
        f"{session_id}` deletes the session.",
    )


def _replaced(data: bytes) -> str:
    return data.decode(errors="replace")
