"""Reads model histories, whole or their ends alone."""

import json
import sqlite3
from collections.abc import Sequence

from deputy_agents.domain.message import Message
from deputy_agents.ports.store import HistoryEnds
from deputy_agents.store.codec import decode_message

_UNREADABLE = Message("user", ())


def read_history(connection: sqlite3.Connection, key: int, agent_id: str, limit: int | None) -> list[Message]:
    sql = "SELECT message FROM history WHERE session = ? AND agent_id = ? ORDER BY number LIMIT ?"
    rows = connection.execute(sql, (key, agent_id, -1 if limit is None else limit))
    return list(filter(None, (decode_message(message) for (message,) in rows)))


def read_history_ends(
    connection: sqlite3.Connection, key: int, agent_ids: Sequence[str], containing: str
) -> dict[str, HistoryEnds]:
    found = ((agent_id, _ends(connection, key, agent_id, containing)) for agent_id in agent_ids)
    return {agent_id: ends for agent_id, ends in found if ends is not None}


def _ends(connection: sqlite3.Connection, key: int, agent_id: str, containing: str) -> HistoryEnds | None:
    where = (key, agent_id)
    sql = "SELECT number, message FROM history WHERE session = ? AND agent_id = ? ORDER BY number {} LIMIT 1"
    ends = [connection.execute(sql.format(order), where).fetchone() for order in ("ASC", "DESC")]
    if ends[0] is None:
        return None
    first, last = (decode_message(message) or _UNREADABLE for _, message in ends)
    sql = "SELECT message FROM history WHERE session = ? AND agent_id = ? AND INSTR(message, ?) ORDER BY number"
    text = json.dumps(containing, ensure_ascii=False)[1:-1]  # as it is within a JSON string
    rows = connection.execute(sql, (*where, text)).fetchall() if containing else []
    matching = filter(None, (decode_message(message) for (message,) in rows))
    return HistoryEnds(ends[1][0], first, last, tuple(matching))
