"""Commits of one session: written to the store in order, and kept in memory while the store fails."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

from deputy_agents.domain.errors import DeputyError, StoreError
from deputy_agents.domain.event import Event
from deputy_agents.domain.file_change import FileChange
from deputy_agents.ports.clock import Clock
from deputy_agents.ports.store import OutputRecord, Record, SessionRecord, Store, StoredReview, ViewRecord

logger = logging.getLogger(__name__)

RETRY = 20
"""Seconds between attempts to write to a failed store. An attempt can take seconds, and the session waits for it."""
MAX_PENDING = 20_000
"""Commits kept for the next attempt. Beyond this number the session is no longer stored."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """The events and records of one commit."""

    events: list[Event]
    records: list[Record]

    @property
    def last_seq(self) -> int:
        return (self.events[-1].seq or 0) if self.events else 0


class CommitQueue:
    """Writes the commits of one session to the store; repeats failed ones every :data:`RETRY` seconds."""

    def __init__(self, session_id: str, store: Store, clock: Clock) -> None:
        self.error: Exception | None = None
        """Why the session is currently not stored; ``None`` if it is."""
        self.outages = 0
        """How many times the store has begun to fail."""
        self._session_id = session_id
        self._store = store
        self._clock = clock
        self._uncreated: SessionRecord | None = None
        self._pending: list[_Batch] = []
        self._retry_at = -math.inf

    def start_without_store(self, record: SessionRecord, error: Exception) -> None:
        """Starts with a failed store: the session is created there once the store works again."""
        self._uncreated = record
        self.outages += 1
        self.error = error
        self._retry_at = self._clock.monotonic() + RETRY

    def retry_now(self) -> None:
        """Lets the next commit write to the store again without waiting."""
        self._retry_at = -math.inf

    async def commit(self, events: list[Event], records: list[Record]) -> None:
        """Stores numbered events with records; never raises. If the store fails, :attr:`error` is set."""
        if events or records:
            self._pending.append(_Batch(events, records))
        if not self._pending or self._clock.monotonic() < self._retry_at:
            return
        try:
            if self._uncreated is not None:
                await self._create(self._uncreated)
                self._uncreated = None
            elif self.error is not None:
                await self._drop_stored()
            await self._store.append(
                self._session_id,
                [event for batch in self._pending for event in batch.events],
                [record for batch in self._pending for record in batch.records],
            )
        except Exception as error:
            # The agents continue; until the store works again, this session exists in memory only.
            if self.error is None:
                self.outages += 1
                logger.exception("session %s cannot be stored at the moment", self._session_id)
            self.error = error
            self._drop_bulk()
            self._retry_at = self._clock.monotonic() + (RETRY if len(self._pending) < MAX_PENDING else math.inf)
        else:
            self.error = None
            self._pending = []

    async def _create(self, record: SessionRecord) -> None:
        try:
            await self._store.create(record)
        except StoreError:
            # An attempt that nobody waited for any longer may have succeeded: no other session has this id.
            try:
                await self._store.get(record.session_id)
            except DeputyError:
                pass
            else:
                return
            raise

    async def read(self, after: int, limit: int) -> list[Event]:
        """Pending events and at most ``limit`` stored ones numbered above ``after``, in order."""
        stored: Sequence[Event] = ()
        try:
            stored = await self._store.events(self._session_id, after, limit)
        except Exception:
            logger.exception("the events of session %s cannot be read", self._session_id)
        found = {event.seq or 0: event for batch in self._pending for event in batch.events}
        found |= {event.seq or 0: event for event in stored}
        return [found[seq] for seq in sorted(found) if seq > after]

    async def read_at(self, numbers: Sequence[int]) -> dict[int, Event]:
        """The events with these numbers, pending or stored.

        Raises:
            StoreError: the store cannot be read.
        """
        pending = {event.seq or 0: event for batch in self._pending for event in batch.events}
        found = {number: pending[number] for number in numbers if number in pending}
        if stored := [number for number in numbers if number not in found]:
            found |= {event.seq or 0: event for event in await self._store.events_at(self._session_id, stored)}
        return found

    async def changes(self) -> Sequence[FileChange]:
        """Raises StoreError when the store cannot be read."""
        return await self._store.changes(self._session_id)

    async def review(self) -> StoredReview:
        """Raises StoreError when the store cannot be read."""
        return await self._store.review(self._session_id)

    def _drop_bulk(self) -> None:
        """Limits the memory used by pending commits; the events contain both ends of each output, and what a view
        has."""
        for batch in self._pending:
            batch.records[:] = [record for record in batch.records if not isinstance(record, OutputRecord | ViewRecord)]

    async def _drop_stored(self) -> None:
        """Removes commits that were stored although the store reported a failure, so that none is stored twice."""
        first = next((event.seq for batch in self._pending for event in batch.events if event.seq), None)
        if first is not None and (stored := await self._store.events(self._session_id, first - 1)):
            last = stored[-1].seq or 0
            # A commit is stored completely or not at all, and after all earlier ones.
            done = (at for at, batch in enumerate(self._pending, 1) if 0 < batch.last_seq <= last)
            self._pending = self._pending[max(done, default=0) :]
