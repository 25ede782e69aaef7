"""Rows beside the events: messages of model histories, changes of files, and full tool outputs.

Texts of files are stored unchanged, because a revert restores them exactly. If a text contains a secret, neither text
of the change is stored, only its path and metadata.
"""

import sqlite3
import zlib
from collections.abc import Sequence

from deputy_agents.domain.file_change import FileChange
from deputy_agents.ports.store import ChangesDropped, HistoryRecord, OutputRecord, Record
from deputy_agents.store import codec
from deputy_agents.store.codec import Redact

MAX_CHANGES = 64 * 1024 * 1024
"""Maximum compressed bytes of changes per session; the oldest are deleted first."""
MAX_OUTPUTS = 64 * 1024 * 1024
"""Maximum compressed bytes of full outputs per session; the oldest are deleted first."""


def write_record(connection: sqlite3.Connection, key: int, record: Record, redact: Redact) -> None:
    """Stores ``record`` for the session with ``key``."""
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
            compressed = _compressed(str(redact(text)))
            sql = (
                "INSERT OR REPLACE INTO outputs (session, agent_id, tool_call_id, size, output) VALUES (?, ?, ?, ?, ?)"
            )
            connection.execute(sql, (key, agent_id, tool_call_id, len(compressed), compressed))
            _delete_oldest(connection, key, "outputs", MAX_OUTPUTS)


def read_changes(connection: sqlite3.Connection, key: int) -> list[FileChange]:
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
            before and _decompressed(before),
            _decompressed(after),
            time,
            bool(withheld),
        )
        for change_id, agent_id, run, call_id, path, before, after, time, withheld in connection.execute(sql, (key,))
    ]


def read_output(connection: sqlite3.Connection, key: int, agent_id: str, tool_call_id: str) -> str | None:
    sql = "SELECT output FROM outputs WHERE session = ? AND agent_id = ? AND tool_call_id = ?"
    row = connection.execute(sql, (key, agent_id, tool_call_id)).fetchone()
    return None if row is None else _decompressed(row[0])


def _write_change(connection: sqlite3.Connection, key: int, change: FileChange, redact: Redact) -> None:
    texts: Sequence[str | None] = (change.before, change.after)
    withheld = any(text is not None and redact(text) != text for text in texts)
    before, after = ("", "") if withheld else texts
    compressed = (None if before is None else _compressed(before), _compressed(after or ""))
    size = sum(len(text) for text in compressed if text is not None)
    head = (change.change_id, change.agent_id, change.run, change.tool_call_id, change.path, change.time)
    connection.execute(
        "INSERT OR REPLACE INTO changes "
        "(session, change_id, agent_id, run, tool_call_id, path, time, size, withheld, before, after) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (key, *head, size, withheld, *compressed),
    )
    _delete_oldest(connection, key, "changes", MAX_CHANGES)


def _delete_oldest(connection: sqlite3.Connection, key: int, table: str, limit: int) -> None:
    """Deletes the oldest rows of a session beyond ``limit`` bytes; the newest row always stays."""
    sql = f"SELECT number, size FROM {table} WHERE session = ? ORDER BY number DESC"  # noqa: S608 - table names are constants
    total = 0
    for index, (number, size) in enumerate(connection.execute(sql, (key,))):
        total += size
        if index and total > limit:
            connection.execute(f"DELETE FROM {table} WHERE session = ? AND number <= ?", (key, number))  # noqa: S608
            return


def _compressed(text: str) -> bytes:
    # Half a surrogate pair must survive the round trip.
    return zlib.compress(text.encode("utf-8", "surrogatepass"), 1)


def _decompressed(data: bytes) -> str:
    return zlib.decompress(data).decode("utf-8", "surrogatepass")
