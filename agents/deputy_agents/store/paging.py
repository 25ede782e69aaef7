"""Pages of a list of sessions, the same for every store.

A cursor holds the place of the last row, not its number: what is added or removed meanwhile neither repeats a row nor
ends the list.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias, cast

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.ports.store import SessionPage, SessionQuery, SessionRecord

Family: TypeAlias = tuple[SessionRecord, Sequence[SessionRecord]]
"""A session and the rows of its children."""
_Row: TypeAlias = tuple[SessionRecord, SessionRecord]
"""A row, behind the session that it belongs to."""


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
    """What ``query`` wants of ``families``, which are sorted by :func:`order`, the last one first, and may leave out
    those above :func:`start`. Reads no further than the page goes.

    Raises:
        InvalidRequest: the cursor is none.
    """
    rows = ((root, row) for root, children in families for row in (root, *(children if query.children else ())))
    if query.cursor is not None:
        rows = _behind(rows, *_parsed(query.cursor))
    if query.limit is None:
        return SessionPage(tuple(row for _, row in rows))
    wanted = list(islice(rows, query.limit + 1))
    cursor = _cursor(*wanted[query.limit - 1]) if len(wanted) > query.limit else None
    return SessionPage(tuple(row for _, row in wanted[: query.limit]), cursor)


def start(query: SessionQuery) -> tuple[float, str] | None:
    """The place, by :func:`order`, of the first session of the page; ``None`` for the first page.

    Raises:
        InvalidRequest: the cursor is none.
    """
    return None if query.cursor is None else _parsed(query.cursor)[0]


def order(record: SessionRecord) -> tuple[float, str]:
    return record.updated_at, record.session_id


def _cursor(root: SessionRecord, row: SessionRecord) -> str:
    return json.dumps([*order(root), row.session_id], separators=(",", ":"))


def _behind(rows: Iterable[_Row], at: tuple[float, str], row_id: str) -> Iterator[_Row]:
    """The rows behind the one of that id in the session whose place is ``at``, whether or not it still is there."""
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
    raise InvalidRequest("cursor: it is none of this list; ask for the list from the start.", "cursor")
