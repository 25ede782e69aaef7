"""The checkpoints of a session: one before each turn, and one for each state that a rewind leaves."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anyio import to_thread

from deputy_agents.domain.errors import InvalidRequest, StoreError
from deputy_agents.domain.file_change import FileChange
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.message import Message, Text
from deputy_agents.domain.review import CheckpointCreated
from deputy_agents.domain.turn import Turn
from deputy_agents.events.event_log import EventLog
from deputy_agents.files.line_diff import changed_lines
from deputy_agents.ports.clock import Clock
from deputy_agents.ports.store import CheckpointRecord, Store
from deputy_agents.review.weave import split
from deputy_agents.session.coverage import Coverage
from deputy_agents.text import clean, cut, visible

MAX_TITLE = 200
REWIND = ""
"""The agent of changes that a rewind makes."""

_NUMBER = re.compile(r"[1-9][0-9]{0,4}")
_TITLES = {"task_end": "After a background task", "command": "A command", "user": "A prompt without text"}
_LEFT = "Before going back to: {title}"


@dataclass(frozen=True, slots=True)
class Listed:
    """A checkpoint with the number of its event, and of the files and lines that agents changed until the next one."""

    record: CheckpointRecord
    seq: int
    files: int
    added: int
    removed: int


class Checkpoints:
    """``primary_id`` is the agent whose history a checkpoint is about."""

    def __init__(self, log: EventLog, store: Store, clock: Clock, primary_id: str, coverage: Coverage) -> None:
        self.coverage = coverage
        self._log = log
        self._store = store
        self._clock = clock
        self._primary_id = primary_id

    def now(self) -> float:
        """The time, in seconds since the epoch."""
        return self._clock.time()

    def begin(self, turn: Turn, *, idle: bool) -> None:
        """Creates the checkpoint before a turn, as which everything is that was emitted until now. Returns at once."""
        lines = (line.strip() for line in clean(turn.text).splitlines())
        title = next((line for line in lines if line), _TITLES[turn.origin])
        self._add(turn.turn_id, title, Message("user", turn.written or (Text(turn.text),)))
        self.coverage.turn_begins(idle=idle)

    def leave(self, target: CheckpointRecord) -> str:
        """Creates the checkpoint of the state that a rewind to ``target`` leaves, and returns its id."""
        last = self._log.view.last_turn
        return self._add(last.turn_id if last else target.turn_id, _LEFT.format(title=target.title), None, is_left=True)

    async def all(self) -> Sequence[CheckpointRecord]:
        """The checkpoints to which the session can go, oldest first: those of turns that were not gone back over, and
        the states that rewinds left.

        Raises:
            StoreError: they cannot be read.
        """
        await self._log.flush()
        if (error := self._log.store_error) is not None:
            raise StoreError(f"The session is not stored now: {error}")
        lineage = self._log.view.lineage
        records = await self._store.checkpoints(self._log.session_id)
        marks = {record.checkpoint_id: lineage.marks.get(record.checkpoint_id) for record in records}
        return [
            record
            for record in records
            if (mark := marks[record.checkpoint_id]) is not None and (record.is_left or not lineage.is_hidden(mark.seq))
        ]

    async def get(self, checkpoint_id: str) -> CheckpointRecord:
        """
        Raises:
            InvalidRequest: there is no such checkpoint.
            StoreError: they cannot be read.
        """
        found = next((one for one in await self.all() if one.checkpoint_id == checkpoint_id), None)
        if found is None:
            raise InvalidRequest("checkpointId: this session has no such checkpoint. List them again.", "checkpointId")
        return found

    async def find(self, text: str) -> CheckpointRecord:
        """The checkpoint that a user names: by its number, which is 1 for the newest, or by the beginning of its id.

        Raises:
            InvalidRequest: there is none, or more than one.
            StoreError: they cannot be read.
        """
        records = _newest_first(await self.all())
        if _NUMBER.fullmatch(text) and int(text) <= len(records):
            return records[int(text) - 1]
        found = [record for record in records if record.checkpoint_id.startswith(text)]
        if len(found) != 1:
            many = f"{len(found)} checkpoints" if found else "No checkpoint"
            raise InvalidRequest(f"{many} match {cut(visible(text), 50)}. Use a number of the list, or an id.")
        return found[0]

    async def list(self) -> Sequence[Listed]:
        """All checkpoints, newest first.

        Raises:
            StoreError: they cannot be read.
        """
        records = await self.all()
        changes = await self._store.changes(self._log.session_id) if records else ()
        marks = self._log.view.lineage.marks
        seqs = {record.checkpoint_id: marks[record.checkpoint_id].seq for record in records}
        return await to_thread.run_sync(_counted, records, changes, seqs)

    def _add(self, turn_id: str, title: str, prompt: Message | None, *, is_left: bool = False) -> str:
        now = self._clock.time()
        title = cut(title, MAX_TITLE)
        record = CheckpointRecord(new_id(), turn_id, self._primary_id, now, title, prompt, is_left)
        self._log.add_record(record)
        self._log.emit(CheckpointCreated(record.checkpoint_id, turn_id), self._primary_id, 1)
        return record.checkpoint_id


def _counted(
    records: Sequence[CheckpointRecord], changes: Sequence[FileChange], seqs: Mapping[str, int]
) -> list[Listed]:
    found: list[Listed] = []
    until = float("inf")
    for record in _newest_first(records):
        made = [one for one in changes if one.agent_id != REWIND and record.time <= one.time < until]
        found.append(Listed(record, seqs[record.checkpoint_id], *_totals(made)))
        until = record.time
    return found


def _newest_first(records: Sequence[CheckpointRecord]) -> Sequence[CheckpointRecord]:
    return records[::-1]


def _totals(changes: Sequence[FileChange]) -> tuple[int, int, int]:
    """The numbers of changed files, added lines and removed lines. Lines of forgotten changes are not known."""
    first: dict[str, FileChange] = {}
    last: dict[str, FileChange] = {}
    files = {change.path for change in changes if change.forgotten}
    for change in changes:
        if change.forgotten:
            continue
        first.setdefault(change.path, change)
        last[change.path] = change
    added = removed = 0
    for path, change in first.items():
        before, after = change.before, last[path].after
        if before == after and change.before_form == last[path].after_form:
            continue
        files.add(path)
        for one in changed_lines(split(before or ""), split(after or "")):
            added += one.new_end - one.new_start
            removed += one.old_end - one.old_start
    return len(files), added, removed
