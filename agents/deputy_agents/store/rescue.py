"""Takes the open sessions along when the session file was deleted, moved or replaced: SQLite can still read the old
file through its open connection."""

import sqlite3
from bisect import bisect_right

_NUMBERED = {
    "agents": None,
    "events": None,
    "history": None,
    "views": None,
    "changes": "number",
    "outputs": "number",
    "checkpoints": "number",
    "reviews": None,
}
"""The tables with rows of a session, and the column that SQLite fills in, if any."""


def copy_sessions(old: sqlite3.Connection, new: sqlite3.Connection, owner: str) -> int:
    """Copies the sessions of ``owner`` with all of their rows, in one transaction, and returns their number. A session
    that the new file has too, as an older copy of the file would, is replaced unless it has more events there."""
    sql = "SELECT id, session_id FROM sessions WHERE owner = ? AND purge_after = 0"
    new.execute("BEGIN IMMEDIATE")
    try:
        copied = sum(_copy_session(old, new, key, name) for key, name in old.execute(sql, (owner,)).fetchall())
        new.execute("COMMIT")
    except BaseException:
        if new.in_transaction:
            new.execute("ROLLBACK")
        raise
    return copied


def _copy_session(old: sqlite3.Connection, new: sqlite3.Connection, old_key: int, session_id: str) -> bool:
    found = new.execute("SELECT id FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
    if found is not None:
        if _event_count(new, found[0]) > _event_count(old, old_key):
            return False
        new.execute("DELETE FROM sessions WHERE id = ?", found)
    new_key = _copy_rows(old, new, "sessions", ("id", old_key), {}, "id")
    for table, filled_in in _NUMBERED.items():
        _copy_rows(old, new, table, ("session", old_key), {"session": new_key}, filled_in)
    _number_last_changes(old, new, old_key, new_key)
    return True


def _number_last_changes(old: sqlite3.Connection, new: sqlite3.Connection, old_key: int, new_key: int) -> None:
    """Gives checkpoints and reviews the new numbers of the changes before them."""
    before, after = _changes(old, old_key), _changes(new, new_key)
    for table, column in (("checkpoints", "checkpoint_id"), ("reviews", "path")):
        sql = f"SELECT {column}, last_change FROM {table} WHERE session = ?"  # noqa: S608 - names of columns
        for name, last in new.execute(sql, (new_key,)).fetchall():
            count = bisect_right(before, last)
            sql = f"UPDATE {table} SET last_change = ? WHERE session = ? AND {column} = ?"  # noqa: S608
            new.execute(sql, (after[count - 1] if count else 0, new_key, name))


def _changes(connection: sqlite3.Connection, key: int) -> list[int]:
    sql = "SELECT number FROM changes WHERE session = ? ORDER BY number"
    return [number for (number,) in connection.execute(sql, (key,))]


def _copy_rows(
    old: sqlite3.Connection,
    new: sqlite3.Connection,
    table: str,
    where: tuple[str, int],
    values: dict[str, int],
    filled_in: str | None,
) -> int:
    """Copies the rows in which a column has a value, with other ``values`` in some columns. SQLite fills in the column
    ``filled_in``. Returns the key of the last new row."""
    columns = [name for _, name, *_ in old.execute(f"PRAGMA table_info({table})") if name != filled_in]
    names, marks = ", ".join(columns), ", ".join("?" for _ in columns)
    order = f"ORDER BY {filled_in}" if filled_in else ""
    last = 0
    for row in old.execute(f"SELECT {names} FROM {table} WHERE {where[0]} = ? {order}", where[1:]):  # noqa: S608 - names of columns
        changed = [values.get(name, value) for name, value in zip(columns, row, strict=True)]
        last = new.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", changed).lastrowid or 0  # noqa: S608
    return last


def _event_count(connection: sqlite3.Connection, key: int) -> int:
    return connection.execute("SELECT COUNT(*) FROM events WHERE session = ?", (key,)).fetchone()[0]
