"""Pages of a list of sessions, identical for all stores.

A cursor contains the sort position of the last row, not its index. Sessions that are added or removed between two pages
neither repeat a row nor end the list.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias, cast

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.ports.store import SessionPage, SessionQuery, SessionRecord

Family: TypeAlias = tuple[SessionRecord, Sequence[SessionRecord]]
"""A session and the rows of its sub-agents."""
_Row: TypeAlias = tuple[SessionRecord, SessionRecord]
"""A session, and the row of that session or one of its sub-agents."""


@dataclass(frozen=True, slots=True)
class Child:
    """A sub-agent in a list."""

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
    """The page of ``families`` that ``query`` asks for. ``families`` are sorted by :func:`order`, descending, and may
    begin at :func:`start`. Reads only as many as the page needs.

    Raises:
        InvalidRequest: the cursor is invalid.
    """
    rows = ((root, row) for root, children in families for row in (root, *(children if query.children else ())))
    if query.cursor is not None:
        rows = _rows_after(rows, *_parsed(query.cursor))
    if query.limit is None:
        return SessionPage(tuple(row for _, row in rows))
    wanted = list(islice(rows, query.limit + 1))
    cursor = _cursor(*wanted[query.limit - 1]) if len(wanted) > query.limit else None
    return SessionPage(tuple(row for _, row in wanted[: query.limit]), cursor)


def start(query: SessionQuery) -> tuple[float, str] | None:
    """The sort position, by :func:`order`, of the first session of the page; ``None`` for the first page.

    Raises:
        InvalidRequest: the cursor is invalid.
    """
    return None if query.cursor is None else _parsed(query.cursor)[0]


def order(record: SessionRecord) -> tuple[float, str]:
    return record.updated_at, record.session_id


def _cursor(root: SessionRecord, row: SessionRecord) -> str:
    return json.dumps([*order(root), row.session_id], separators=(",", ":"))


def _rows_after(rows: Iterable[_Row], at: tuple[float, str], row_id: str) -> Iterator[_Row]:
    """The rows after the row ``row_id`` of the session at position ``at``; that row may no longer exist."""
    passed = False
    for root, row in rows:
        if passed or order(root) < at:
            yield root, row
        passed = passed or (order(root) == at and row.session_id == row_id)


def _parsed(cursor: str) -> tuple[tuple[float, str], str]:
    try:
        match cast("object", json.loads(cursor)):
            case [float() | int() as time, str() as root, str() as row]:
                return (time, root), row
            case _:
                pass
    except ValueError:
        pass
    raise InvalidRequest("Invalid cursor. Restart the listing without a cursor.", "cursor")
