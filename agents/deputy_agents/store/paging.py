"""Pages of a list of sessions, the same for every store.

A cursor holds the place of the last row, not its number: what is added or removed meanwhile neither repeats a row nor
ends the list.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from deputy_agents.errors import InvalidRequest
from deputy_agents.ports import SessionPage, SessionQuery, SessionRecord

Family: TypeAlias = tuple[SessionRecord, Sequence[SessionRecord]]
"""A session and the rows of its children."""


@dataclass(frozen=True, slots=True)
class Child:
    """What a list shows of a child."""

    agent_id: str
    label: str
    model: str
    started_at: float
    updated_at: float


def child_row(session: SessionRecord, child: Child) -> SessionRecord:
    return SessionRecord(
        session_id=child.agent_id,
        agent_id=child.agent_id,
        title=child.label,
        cwd=session.cwd,
        created_at=child.started_at,
        updated_at=child.updated_at,
        model=child.model,
        archived=session.archived,
        agent_count=1,
        parent_session_id=session.session_id,
    )


def page(families: Iterable[Family], query: SessionQuery) -> SessionPage:
    """What ``query`` wants of ``families``, which are sorted by :func:`order`, the last one first.

    Raises:
        InvalidRequest: the cursor is none.
    """
    rows = [(root, row) for root, children in families for row in (root, *(children if query.children else ()))]
    start = 0 if query.cursor is None else _after(rows, query.cursor)
    end = len(rows) if query.limit is None else start + query.limit
    wanted = rows[start:end]
    cursor = _cursor(*wanted[-1]) if wanted and end < len(rows) else None
    return SessionPage(tuple(row for _, row in wanted), cursor)


def order(record: SessionRecord) -> tuple[float, str]:
    return record.updated_at, record.session_id


def _cursor(root: SessionRecord, row: SessionRecord) -> str:
    return json.dumps([*order(root), row.session_id], separators=(",", ":"))


def _after(rows: Sequence[tuple[SessionRecord, SessionRecord]], cursor: str) -> int:
    """The index of the first row behind the place of ``cursor``."""
    at, row_id = _parsed(cursor)
    for index, (root, row) in enumerate(rows):
        if order(root) < at:
            return index
        if order(root) == at and row.session_id == row_id:
            return index + 1
    return len(rows)


def _parsed(cursor: str) -> tuple[tuple[float, str], str]:
    try:
        match cast("object", json.loads(cursor)):
            case [float() | int() as time, str() as root, str() as row]:
                return (time, root), row
            case _:
                pass
    except ValueError:
        pass
    raise InvalidRequest("cursor: it is none of this list; ask for the list from the start.", "cursor")
