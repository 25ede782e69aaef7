"""Rows beside the events: messages of model histories, states of agents, saved views and full tool outputs."""

import logging
import sqlite3
import zlib

from deputy_agents.domain.file_change import FileChange
from deputy_agents.ports.store import (
    ChangesDropped,
    CheckpointRecord,
    ContextRecord,
    HistoryRecord,
    NotesRecord,
    OutputRecord,
    PromptsRecord,
    Record,
    ReviewRecord,
    RewindRecord,
    SessionState,
    StoredView,
    ViewRecord,
)
from deputy_agents.store import changes, codec
from deputy_agents.store.bulk import compressed, decompressed, delete_oldest, packed
from deputy_agents.store.checkpoints import rewind_histories, write_checkpoint
from deputy_agents.store.codec import Redact

logger = logging.getLogger(__name__)

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
        case ContextRecord(agent_id):
            sql = "UPDATE agents SET context = ? WHERE session = ? AND agent_id = ?"
            connection.execute(sql, (codec.encode_context(record, redact), key, agent_id))
        case PromptsRecord(prompts):
            connection.execute(
                "UPDATE sessions SET prompts = ? WHERE id = ?", (codec.encode_prompts(prompts, redact), key)
            )
        case NotesRecord(agent_id, notes):
            sql = "UPDATE agents SET notes = ? WHERE session = ? AND agent_id = ?"
            connection.execute(sql, (codec.encode_notes(notes, redact), key, agent_id))
        case ViewRecord(seq, version):
            values = (key, seq, version, *map(packed, codec.encode_view(record, redact)))
            sql = "INSERT OR REPLACE INTO views (session, seq, version, facts, transcripts) VALUES (?, ?, ?, ?, ?)"
            connection.execute(sql, values)
        case FileChange():
            changes.write_change(connection, key, record, redact)
        case ChangesDropped(change_ids):
            sql = "DELETE FROM changes WHERE session = ? AND change_id = ?"
            connection.executemany(sql, ((key, change_id) for change_id in change_ids))
        case CheckpointRecord():
            write_checkpoint(connection, key, record, redact)
        case RewindRecord():
            rewind_histories(connection, key, record, redact)
        case ReviewRecord():
            changes.write_review(connection, key, record, redact)
        case OutputRecord(agent_id, tool_call_id, text):
            packed_text = compressed(str(redact(text)))
            sql = (
                "INSERT OR REPLACE INTO outputs (session, agent_id, tool_call_id, size, output) VALUES (?, ?, ?, ?, ?)"
            )
            connection.execute(sql, (key, agent_id, tool_call_id, len(packed_text), packed_text))
            delete_oldest(connection, key, "outputs", MAX_OUTPUTS)


def read_state(connection: sqlite3.Connection, key: int) -> SessionState:
    (prompts,) = connection.execute("SELECT prompts FROM sessions WHERE id = ?", (key,)).fetchone()
    sql = "SELECT agent_id, context, notes FROM agents WHERE session = ? AND (context IS NOT NULL OR notes IS NOT NULL)"
    rows = connection.execute(sql, (key,)).fetchall()
    contexts = (codec.decode_context(context) for _, context, _ in rows if context is not None)
    notes = (NotesRecord(agent_id, codec.decode_notes(stored)) for agent_id, _, stored in rows if stored is not None)
    return SessionState(
        tuple(filter(None, contexts)),
        codec.decode_prompts(prompts) if prompts is not None else (),
        tuple(record for record in notes if record.notes),
        _read_view(connection, key),
    )


def _read_view(connection: sqlite3.Connection, key: int) -> StoredView | None:
    sql = (
        "SELECT seq, version, facts, transcripts FROM views WHERE session = ?1 "
        "AND seq <= (SELECT MAX(seq) FROM events WHERE session = ?1)"
    )
    row = connection.execute(sql, (key,)).fetchone()
    try:
        return row and StoredView(row[0], str(row[1]), zlib.decompress(row[2]), zlib.decompress(row[3]))
    except (zlib.error, TypeError):
        logger.warning("a saved view is damaged")
        return None


def read_output(connection: sqlite3.Connection, key: int, agent_id: str, tool_call_id: str) -> str | None:
    sql = "SELECT output FROM outputs WHERE session = ? AND agent_id = ? AND tool_call_id = ?"
    row = connection.execute(sql, (key, agent_id, tool_call_id)).fetchone()
    return None if row is None else decompressed(row[0])
