"""Rows beside the events: messages of the models' histories, changes of files, whole outputs of tools.

Texts of files are stored as they are, as they are to be put back as they were: one in which there is a secret is not
stored at all, and its change is then a name alone.
"""

import sqlite3
import zlib
from collections.abc import Sequence

from deputy_agents.domain.file_change import FileChange
from deputy_agents.ports.store import ChangesDropped, HistoryRecord, OutputRecord, Record
from deputy_agents.store import codec
from deputy_agents.store.codec import Redact

MAX_CHANGES = 64 * 1024 * 1024
"""Bytes of changes, packed, that are kept of one session; the oldest go first."""
MAX_OUTPUTS = 64 * 1024 * 1024
"""Bytes of whole outputs, packed, that are kept of one session; the oldest go first."""


def write(connection: sqlite3.Connection, key: int, record: Record, redact: Redact) -> None:
    """Stores ``record`` for the session of that key."""
    match record:
        case HistoryRecord(agent_id, message):
            sql = (
                "INSERT INTO history SELECT ?1, ?2, COALESCE(MAX(number), 0) + 1, ?3 FROM history "
                "WHERE session = ?1 AND agent_id = ?2"
            )
            connection.execute(sql, (key, agent_id, codec.encode_message(message, redact)))
        case FileChange():
            _write_change(connection, key, record, redact)
        case ChangesDropped(change_ids):
            sql = "DELETE FROM changes WHERE session = ? AND change_id = ?"
            connection.executemany(sql, ((key, change_id) for change_id in change_ids))
        case OutputRecord(agent_id, tool_call_id, text):
            packed = _packed(str(redact(text)))
            sql = (
                "INSERT OR REPLACE INTO outputs (session, agent_id, tool_call_id, size, output) VALUES (?, ?, ?, ?, ?)"
            )
            connection.execute(sql, (key, agent_id, tool_call_id, len(packed), packed))
            _make_room(connection, key, "outputs", MAX_OUTPUTS)


def changes(connection: sqlite3.Connection, key: int) -> list[FileChange]:
    sql = (
        "SELECT change_id, agent_id, run, tool_call_id, path, before, after, time, withheld FROM changes "
        "WHERE session = ? ORDER BY number"
    )
    return [
        FileChange(
            change_id,
            agent_id,
            run,
            call_id,
            path,
            before and _unpacked(before),
            _unpacked(after),
            time,
            bool(withheld),
        )
        for change_id, agent_id, run, call_id, path, before, after, time, withheld in connection.execute(sql, (key,))
    ]


def output(connection: sqlite3.Connection, key: int, agent_id: str, tool_call_id: str) -> str | None:
    sql = "SELECT output FROM outputs WHERE session = ? AND agent_id = ? AND tool_call_id = ?"
    row = connection.execute(sql, (key, agent_id, tool_call_id)).fetchone()
    return None if row is None else _unpacked(row[0])


def _write_change(connection: sqlite3.Connection, key: int, change: FileChange, redact: Redact) -> None:
    texts: Sequence[str | None] = (change.before, change.after)
    withheld = any(text is not None and redact(text) != text for text in texts)
    before, after = ("", "") if withheld else texts
    packed = (None if before is None else _packed(before), _packed(after or ""))
    size = sum(len(text) for text in packed if text is not None)
    head = (change.change_id, change.agent_id, change.run, change.tool_call_id, change.path, change.time)
    connection.execute(
        "INSERT OR REPLACE INTO changes "
        "(session, change_id, agent_id, run, tool_call_id, path, time, size, withheld, before, after) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (key, *head, size, withheld, *packed),
    )
    _make_room(connection, key, "changes", MAX_CHANGES)


def _make_room(connection: sqlite3.Connection, key: int, table: str, limit: int) -> None:
    """Deletes the oldest rows of a session that are beyond ``limit`` bytes; the newest one stays."""
    sql = f"SELECT number, size FROM {table} WHERE session = ? ORDER BY number DESC"  # noqa: S608 (a name from here)
    total = 0
    for place, (number, size) in enumerate(connection.execute(sql, (key,))):
        total += size
        if place and total > limit:
            connection.execute(f"DELETE FROM {table} WHERE session = ? AND number <= ?", (key, number))  # noqa: S608
            return


def _packed(text: str) -> bytes:
    # Half a surrogate pair is a character here: a text comes back as it went.
    return zlib.compress(text.encode("utf-8", "surrogatepass"), 1)


def _unpacked(packed: bytes) -> str:
    return zlib.decompress(packed).decode("utf-8", "surrogatepass")
