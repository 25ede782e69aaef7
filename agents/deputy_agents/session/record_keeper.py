"""The record of a live session: what lists show of it, kept in the store."""

import logging
from dataclasses import replace

from anyio.abc import TaskGroup

from deputy_agents.domain.event import SessionChanged
from deputy_agents.events.event_log import EventLog
from deputy_agents.ports.clock import Clock
from deputy_agents.ports.store import SessionRecord, Store
from deputy_agents.session.title import renamed, title_of

logger = logging.getLogger(__name__)


class RecordKeeper:
    """Holds ``record``, publishes changes of it and stores them, in ``tasks`` unless a caller waits."""

    def __init__(self, record: SessionRecord, log: EventLog, store: Store, clock: Clock, tasks: TaskGroup) -> None:
        self.record = record
        self._log = log
        self._store = store
        self._clock = clock
        self._tasks = tasks
        self._stored: SessionRecord | None = None

    def change(self, record: SessionRecord) -> None:
        """Replaces the record and notifies clients."""
        self.record = record
        self._log.emit(SessionChanged())
        self.touch()

    def rename(self, title: str) -> None:
        """Gives the session a title of the user's.

        Raises:
            InvalidRequest: it is blank.
        """
        self.change(renamed(self.record, title))

    def archive(self, archived: bool) -> None:
        """Archives the session or takes it out of the archive."""
        self.change(replace(self.record, archived=archived))

    def update(self, record: SessionRecord) -> None:
        """Replaces the record without an event: clients learn of the change otherwise."""
        self.record = record
        self.touch()

    def touch(self, title: str = "") -> None:
        """Marks the session as used now. ``title``, the first prompt, names a session that has no title yet."""
        record = replace(self.record, updated_at=self._clock.time())
        if title and not record.title:
            record = replace(record, title=title_of(title))
            self._log.emit(SessionChanged())
        self.record = record
        self._tasks.start_soon(self.save)

    async def save(self) -> None:
        """Returns when the record is stored as it is now, or cannot be stored."""
        record = self.record
        if record is self._stored or self._log.store_error is not None:
            return
        try:
            await self._store.update(record)
            self._stored = record
        except Exception:
            logger.exception("the record of session %s was not stored", record.session_id)

    @property
    def store_problem(self) -> str | None:
        """Why the session is not stored now, for the user."""
        if self._log.store_error is None:
            return None
        return (
            f"{self._log.store_error} Agents keep running; the session is held in memory until it can be stored again."
        )

    @property
    def outage(self) -> str:
        """Identifies the last time that the store began to fail: the user is notified once each time."""
        return f"{self.record.session_id} {self._log.outages}"
