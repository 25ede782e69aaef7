"""Rows of agents' changes to files, and of what is unreviewed in each file.

Texts of files are stored unchanged, because an undo restores them exactly. If a text contains a secret, neither text of
the change is stored, only its path and metadata.
"""

import json
import logging
import sqlite3
import zlib
from collections.abc import Sequence

from deputy_agents.domain.file_change import Approval, FileChange, FileForm
from deputy_agents.ports.store import ReviewRecord, StoredReview
from deputy_agents.store.bulk import compressed, decompressed, last_beyond
from deputy_agents.store.codec import Redact

logger = logging.getLogger(__name__)

MAX_CHANGES = 64 * 1024 * 1024
"""Maximum compressed bytes of changes per session; the texts of the oldest are deleted first."""

_COLUMNS = (
    "change_id, agent_id, run, tool_call_id, path, before, after, time, withheld, turn_id, approved, deleted, "
    "before_form, after_form"
)


def write_change(connection: sqlite3.Connection, key: int, change: FileChange, redact: Redact) -> None:
    texts: Sequence[str | None] = (change.before, change.after)
    withheld = any(text is not None and redact(text) != text for text in texts)
    before, after = ("", "") if withheld else texts
    stored = (None if before is None else compressed(before), compressed(after or ""))
    size = sum(len(text) for text in stored if text is not None)
    head = (change.change_id, change.agent_id, change.run, change.tool_call_id, change.path, *stored, change.time)
    tail = (change.turn_id, change.approved.value, change.after is None, *map(_form_text, _forms(change)))
    connection.execute(
        f"INSERT OR REPLACE INTO changes (session, size, {_COLUMNS}) "  # noqa: S608 - column names are constants
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (key, size, *head, withheld, *tail),
    )
    if number := last_beyond(connection, key, "changes", MAX_CHANGES):
        _forget(connection, key, number)


def _forget(connection: sqlite3.Connection, key: int, number: int) -> None:
    """Deletes the changes until ``number``. Of each file, the last one stays as a row of size 0, without its texts."""
    sql = (
        "UPDATE changes SET size = 0, before = NULL, after = X'', before_form = NULL, after_form = NULL "
        "WHERE session = ? AND number <= ? AND size > 0"
    )
    connection.execute(sql, (key, number))
    sql = (
        "DELETE FROM changes WHERE session = ?1 AND size = 0 AND number NOT IN "
        "(SELECT MAX(number) FROM changes WHERE session = ?1 AND size = 0 GROUP BY path)"
    )
    connection.execute(sql, (key,))


def read_changes(connection: sqlite3.Connection, key: int, after: int = 0) -> list[FileChange]:
    """The changes of a session with numbers above ``after``, in order."""
    return _read_changes(connection, key, str(int(after)))


def write_review(connection: sqlite3.Connection, key: int, record: ReviewRecord, redact: Redact) -> None:
    withheld = any(redact(text) != text for text in record.texts)
    sql = (
        "INSERT OR REPLACE INTO reviews (session, path, last_change, withheld, state) VALUES (?1, ?2, "
        "COALESCE((SELECT number FROM changes WHERE session = ?1 AND change_id = ?3), "
        "(SELECT last_change FROM reviews WHERE session = ?1 AND path = ?2), 0), ?4, ?5)"
    )
    state = compressed("" if withheld else record.state)
    connection.execute(sql, (key, record.path, record.change_id, withheld, state))


def read_review(connection: sqlite3.Connection, key: int) -> StoredReview:
    """What is unreviewed in the files of a session. A damaged record is left out."""
    sql = "SELECT path, withheld, state FROM reviews WHERE session = ? ORDER BY path"
    records: list[ReviewRecord] = []
    withheld: list[str] = []
    for path, is_withheld, state in connection.execute(sql, (key,)):
        if is_withheld:
            withheld.append(path)
            continue
        try:
            records.append(ReviewRecord(path, decompressed(state)))
        except (zlib.error, ValueError, TypeError):
            logger.warning("a stored review is damaged")
    last = "COALESCE((SELECT last_change FROM reviews WHERE session = changes.session AND path = changes.path), 0)"
    changes = (change for change in _read_changes(connection, key, last) if change.agent_id and not change.forgotten)
    return StoredReview(tuple(records), tuple(changes), tuple(withheld))


def _read_changes(connection: sqlite3.Connection, key: int, after: str) -> list[FileChange]:
    """The changes with numbers above the value of the SQL expression ``after``."""
    sql = f"SELECT {_COLUMNS}, size = 0 FROM changes WHERE session = ? AND number > {after} ORDER BY number"  # noqa: S608
    return [
        FileChange(
            change_id,
            agent_id,
            run,
            call_id,
            path,
            before and decompressed(before),
            None if deleted or forgotten else decompressed(after),
            time,
            bool(withheld),
            turn_id,
            Approval(approved),
            _form(before_form),
            _form(after_form),
            bool(forgotten),
        )
        for (
            change_id,
            agent_id,
            run,
            call_id,
            path,
            before,
            after,
            time,
            withheld,
            turn_id,
            approved,
            deleted,
            before_form,
            after_form,
            forgotten,
        ) in connection.execute(sql, (key,))
    ]


def _forms(change: FileChange) -> tuple[FileForm | None, FileForm | None]:
    return change.before_form, change.after_form


def _form_text(form: FileForm | None) -> str | None:
    return None if form is None else json.dumps([form.codec, form.bom.hex(), form.binary, form.mode])


def _form(stored: str | None) -> FileForm | None:
    if stored is None:
        return None
    codec, bom, binary, mode = json.loads(stored)
    return FileForm(codec, bytes.fromhex(bom), binary, mode)
