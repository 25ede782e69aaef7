"""Work on the file that is done in small steps between commits: rows of deleted sessions, free pages, the log."""

import logging
import sqlite3
import time

logger = logging.getLogger(__name__)

_STEP = 0.02
"""Seconds after which a step ends, because commits wait for it."""
_ROWS = 16
"""Rows deleted per statement. A row can have several megabytes."""
_FREE_PAGES = 512
"""Pages freed per step."""
_TABLES = {
    "events": "seq",
    "history": "agent_id, number",
    "changes": "number",
    "outputs": "number",
    "checkpoints": "number",
}
"""The tables with much data per session, and the columns that identify a row of one."""


def clean_up(connection: sqlite3.Connection) -> bool:
    """Performs one step. Returns whether nothing is left to do."""
    try:
        return not _purge(connection) and _shrink(connection)
    except sqlite3.Error as error:
        logger.warning("the store cleanup failed: %s", error)
        return True


def _purge(connection: sqlite3.Connection) -> bool:
    """Deletes some rows of deleted sessions. Returns whether there may be more."""
    found = connection.execute(
        "SELECT id FROM sessions WHERE purge_after > 0 AND purge_after <= ? LIMIT 1", (time.time(),)
    ).fetchone()
    if found is None:
        return False
    until = time.monotonic() + _STEP
    while time.monotonic() < until:
        if not any(_delete_rows(connection, table, columns, found[0]) for table, columns in _TABLES.items()):
            connection.execute("DELETE FROM sessions WHERE id = ?", found)  # and its few agents
            break
    return True


def _delete_rows(connection: sqlite3.Connection, table: str, columns: str, key: int) -> bool:
    """Deletes a few rows of a session in one transaction, which keeps the log small. Returns whether there were any."""
    some = f"SELECT {columns} FROM {table} WHERE session = ?1 LIMIT {_ROWS}"  # noqa: S608 - names are constants
    sql = f"DELETE FROM {table} WHERE session = ?1 AND ({columns}) IN ({some})"  # noqa: S608
    return connection.execute(sql, (key,)).rowcount > 0


def _shrink(connection: sqlite3.Connection) -> bool:
    """Frees unused pages and copies the log to the file, which shrinks. Returns whether no free page is left."""
    # A script runs every step of the statement; each step frees one page.
    connection.executescript(f"PRAGMA incremental_vacuum({_FREE_PAGES})")
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    return connection.execute("PRAGMA freelist_count").fetchone()[0] == 0
