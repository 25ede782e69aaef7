"""Checkpoints of sessions in SQLite: what a rewind needs, and copies of sessions.

Nothing is erased by a rewind. Before the history of an agent is cut, it is copied under the name ``AGENT@CHECKPOINT``
of the state that is left, from where a later rewind takes it again.
"""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import replace

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.ports.store import CheckpointRecord, RewindRecord
from deputy_agents.store import codec
from deputy_agents.store.codec import Redact, no_redaction

_COLUMNS = "checkpoint_id, turn_id, agent_id, time, title, prompt, is_left, counts, context, last_change"


def write_checkpoint(connection: sqlite3.Connection, key: int, record: CheckpointRecord, redact: Redact) -> None:
    """Stores a checkpoint of what is stored of the session until now."""
    sql = "SELECT agent_id, MAX(number) FROM history WHERE session = ? AND INSTR(agent_id, '@') = 0 GROUP BY agent_id"
    counts = dict(connection.execute(sql, (key,)).fetchall())
    sql = "SELECT context FROM agents WHERE session = ? AND agent_id = ?"
    (context,) = connection.execute(sql, (key, record.agent_id)).fetchone() or (None,)
    sql = "SELECT COALESCE(MAX(number), 0) FROM changes WHERE session = ?"
    (last_change,) = connection.execute(sql, (key,)).fetchone()
    _insert(connection, key, record, redact, (json.dumps(counts), context, last_change))


def _insert(
    connection: sqlite3.Connection, key: int, record: CheckpointRecord, redact: Redact, state: tuple[object, ...]
) -> None:
    prompt = None if record.prompt is None else codec.encode_message(record.prompt, redact)
    head = (key, record.checkpoint_id, record.turn_id, record.agent_id, record.time, redact(record.title))
    sql = f"INSERT INTO checkpoints (session, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
    connection.execute(sql, (*head, prompt, record.is_left, *state))


def read_checkpoints(connection: sqlite3.Connection, key: int) -> list[CheckpointRecord]:
    sql = f"SELECT {_COLUMNS} FROM checkpoints WHERE session = ? ORDER BY number"  # noqa: S608
    return [
        CheckpointRecord(
            *head,
            prompt=None if prompt is None else codec.decode_message(prompt),
            is_left=bool(is_left),
            counts=json.loads(counts),
            context=None if context is None else codec.decode_context(context),
            last_change=last_change,
        )
        for *head, prompt, is_left, counts, context, last_change in connection.execute(sql, (key,))
    ]


def rewind_histories(connection: sqlite3.Connection, key: int, record: RewindRecord, redact: Redact) -> None:
    """Gives the histories of agents the lengths that they had at a checkpoint."""
    for agent_id, count in record.counts.items():
        source = f"{agent_id}@{record.target}"
        if not _count(connection, key, source):
            source = agent_id  # it was not cut since then
        if source == agent_id and _count(connection, key, agent_id) <= count:
            continue
        _copy(connection, key, agent_id, f"{agent_id}@{record.left}", None)
        if source == agent_id:
            sql = "DELETE FROM history WHERE session = ? AND agent_id = ? AND number > ?"
            connection.execute(sql, (key, agent_id, count))
        else:
            connection.execute("DELETE FROM history WHERE session = ? AND agent_id = ?", (key, agent_id))
            _copy(connection, key, source, agent_id, count)
    context = None if record.context is None else codec.encode_context(record.context, redact)
    sql = "UPDATE agents SET context = ?, notes = NULL WHERE session = ? AND agent_id = ?"
    connection.execute(sql, (context, key, record.agent_id))


def copy_session(
    connection: sqlite3.Connection, source: int, target: int, ids: Mapping[str, str], checkpoint_id: str | None
) -> None:
    """Copies the events of a session until a checkpoint, or all, to another, new one, with the histories that its
    agents had then. Agents are renamed by ``ids``.

    Raises:
        InvalidRequest: there is no such checkpoint.
    """
    checkpoint = next((one for one in read_checkpoints(connection, source) if one.checkpoint_id == checkpoint_id), None)
    if checkpoint is None and checkpoint_id is not None:
        raise InvalidRequest(f"There is no checkpoint {checkpoint_id}.", "checkpointId")
    sql = (
        "SELECT MAX(seq) FROM events WHERE session = ? "
        "AND (? IS NULL OR (type = 'checkpoint_created' AND INSTR(body, ?)))"
    )
    last_seq = connection.execute(sql, (source, checkpoint_id, checkpoint_id)).fetchone()[0] or 0

    def renamed(text: str) -> str:
        for old, new in ids.items():
            text = text.replace(old, new)
        return text

    sql = (
        "SELECT seq, agent_id, run, agent_seq, time, type, body FROM events WHERE session = ? AND seq <= ? ORDER BY seq"
    )
    rows = connection.execute(sql, (source, last_seq)).fetchall()
    connection.executemany(
        "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (target, seq, ids.get(agent_id, agent_id), run, agent_seq, time, name, renamed(body))
            for seq, agent_id, run, agent_seq, time, name, body in rows
        ),
    )
    started = {agent_id for _, agent_id, _, _, _, name, _ in rows if name == "agent_started"}
    sql = (
        "SELECT agent_id, parent_id, user_initiated, label, model, started_at, updated_at, context FROM agents "
        "WHERE session = ?"
    )
    for agent_id, parent_id, *fields, context in connection.execute(sql, (source,)).fetchall():
        if agent_id in started:
            connection.execute(
                "INSERT INTO agents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
                (target, ids[agent_id], ids.get(parent_id, parent_id), *fields, context and renamed(context)),
            )
            _copy_history(connection, source, target, agent_id, ids, checkpoint)
    if checkpoint is not None and checkpoint.context is not None:
        agent_id = checkpoint.context.agent_id
        context = renamed(codec.encode_context(checkpoint.context))
        sql = "UPDATE agents SET context = ? WHERE session = ? AND agent_id = ?"
        connection.execute(sql, (context, target, ids[agent_id]))
    made = {json.loads(body)["checkpoint_id"] for *_, name, body in rows if name == "checkpoint_created"}
    for record in read_checkpoints(connection, source):
        if record.checkpoint_id in made and not record.is_left:
            counts = {ids[agent_id]: count for agent_id, count in record.counts.items() if agent_id in ids}
            context = record.context and renamed(codec.encode_context(record.context))
            copied = replace(record, agent_id=ids[record.agent_id])
            _insert(connection, target, copied, no_redaction, (json.dumps(counts), context, 0))


def _copy_history(
    connection: sqlite3.Connection,
    source: int,
    target: int,
    agent_id: str,
    ids: Mapping[str, str],
    checkpoint: CheckpointRecord | None,
) -> None:
    stored = agent_id
    if checkpoint is not None and checkpoint.is_left:
        left = f"{agent_id}@{checkpoint.checkpoint_id}"
        stored = left if _count(connection, source, left) else agent_id
    limit = -1 if checkpoint is None else checkpoint.counts.get(agent_id, 0)
    sql = "SELECT number, message FROM history WHERE session = ? AND agent_id = ? ORDER BY number LIMIT ?"
    rows = connection.execute(sql, (source, stored, limit)).fetchall()
    connection.executemany(
        "INSERT INTO history VALUES (?, ?, ?, ?)",
        ((target, ids[agent_id], number, _renamed_message(message, ids)) for number, message in rows),
    )


def _renamed_message(stored: str, ids: Mapping[str, str]) -> str:
    """A message with new ids of agents. Thinking is signed, so it stays as it is."""
    if not any(old in stored for old in ids):
        return stored
    plain = json.loads(stored)
    for block in plain["content"]:
        if block.get("type") != "thinking":
            text = json.dumps(block)
            for old, new in ids.items():
                text = text.replace(old, new)
            block.clear()
            block.update(json.loads(text))
    return json.dumps(plain)


def _copy(connection: sqlite3.Connection, key: int, source: str, target: str, limit: int | None) -> None:
    sql = (
        "INSERT OR REPLACE INTO history SELECT session, ?, number, message FROM history "
        "WHERE session = ? AND agent_id = ? ORDER BY number LIMIT ?"
    )
    connection.execute(sql, (target, key, source, -1 if limit is None else limit))


def _count(connection: sqlite3.Connection, key: int, agent_id: str) -> int:
    sql = "SELECT COALESCE(MAX(number), 0) FROM history WHERE session = ? AND agent_id = ?"
    return connection.execute(sql, (key, agent_id)).fetchone()[0]
