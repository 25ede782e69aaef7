"""The ordered event log of one session.

``emit`` numbers an event and queues it. A writer task commits all queued events in one transaction, folds them into the
view and then publishes them, so that no subscriber sees an event that a crash could undo.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import get_args

import anyio
from anyio import to_thread

from deputy_agents.concurrency.signal import Signal
from deputy_agents.domain.event import Body, Durable, Event, SessionStatus
from deputy_agents.domain.file_change import FileChange
from deputy_agents.events import saved_view
from deputy_agents.events.commit_queue import RETRY, CommitQueue
from deputy_agents.events.numbering import Numbering
from deputy_agents.events.subscription import Subscription
from deputy_agents.events.view import View
from deputy_agents.ports.clock import Clock
from deputy_agents.ports.store import Record, SessionRecord, Store, StoredReview

_DURABLE = get_args(Durable)

MIN_SAVED = 100
"""Events that are folded quickly enough: as many can follow the saved view of a session that is closed."""
_SAVE_AFTER = 1000
_SAVE_SHARE = 10
"""While a session is open, its view is saved after so many events, and after this part of all events."""


class EventLog:
    """Numbers, commits, folds and publishes the events of one session."""

    def __init__(self, session_id: str, store: Store, clock: Clock, view: View, saved_seq: int = 0) -> None:
        self.session_id = session_id
        self.view = view
        self._clock = clock
        self._numbering = Numbering(view)
        self._saved_seq = saved_seq
        """The number of the last event in the view that is stored."""
        self._commits = CommitQueue(session_id, store, clock)
        self._events: list[Event] = []
        self._records: list[Record] = []
        self._closed = False
        self._emitted = 0
        self._published = 0
        self._work = asyncio.Event()
        self._progress = Signal()
        self._subscriptions: set[Subscription] = set()
        self._status: SessionStatus | None = None

    @property
    def store_error(self) -> Exception | None:
        """Why the session is currently not stored; ``None`` if it is. The log retries every few seconds."""
        return self._commits.error

    @property
    def outages(self) -> int:
        """How many times the store has begun to fail."""
        return self._commits.outages

    @property
    def last_seq(self) -> int:
        """The number of the last published event."""
        return self.view.last_seq

    @property
    def has_subscribers(self) -> bool:
        return bool(self._subscriptions)

    def start_without_store(self, record: SessionRecord, error: Exception) -> None:
        """Starts a session that the store failed to create with ``error``; it is created once the store works again."""
        self._commits.start_without_store(record, error)

    async def retry_now(self) -> None:
        """Writes data that is not stored yet without waiting for the next retry."""
        if self.store_error is not None:
            self._commits.retry_now()
            self._wake_writer()
            await self.flush()

    def emit(self, body: Body, agent_id: str | None = None, run: int | None = None) -> None:
        """Queues ``body``; never blocks. The queue is bounded by what the agents' running effects can emit before they
        wait for :meth:`flush`, which each does before it sends a request to a model."""
        event = Event(self.session_id, self._clock.time(), body, agent_id, run)
        if isinstance(body, _DURABLE):
            event = self._numbering.numbered(event)
        self._events.append(event)
        self._wake_writer()

    def add_record(self, record: Record) -> None:
        """Queues data that is stored beside the events; it is committed together with the events around it."""
        self._records.append(record)
        self._wake_writer()

    async def flush(self) -> None:
        """Returns when everything emitted before this call is committed and published."""
        goal = self._emitted
        while self._published < goal and not self._closed:
            await self._progress.wait()

    async def run(self) -> None:
        """Commits and publishes events until it is cancelled."""
        if self._view_is_due():
            self._work.set()
        while True:
            with anyio.move_on_after(math.inf if self.store_error is None else RETRY):
                await self._work.wait()
            self._work.clear()
            await self._write()

    def close(self) -> None:
        """Ends all subscriptions, which still deliver what was published, and every wait in :meth:`flush`."""
        self._closed = True
        self._progress.notify()
        for subscription in tuple(self._subscriptions):
            subscription.close()

    def subscribe(self, after: int | None = None) -> Subscription:
        """Subscribes to durable events numbered above ``after`` (default: new ones) and to new lossy events."""
        subscription = Subscription(self, self.last_seq if after is None else after)
        if self._closed:
            subscription.close()
        else:
            self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)

    async def read(self, after: int, limit: int) -> list[Event]:
        """Published durable events numbered above ``after``, in order."""
        found = await self._commits.read(after, limit)
        # Events that are committed but not published yet are pushed to subscribers later.
        return [event for event in found if (event.seq or 0) <= self.last_seq][:limit]

    async def read_at(self, numbers: Sequence[int]) -> Mapping[int, Event]:
        """Published durable events by their numbers.

        Raises:
            StoreError: the store cannot be read.
        """
        return await self._commits.read_at(numbers)

    async def save_view(self) -> None:
        """Stores the view, so that the session opens quickly, unless few events have followed the one that is stored.
        Call it when no more events are emitted."""
        await self.flush()
        if self.store_error is None and self.last_seq - self._saved_seq >= MIN_SAVED:
            await self._add_view()
            self._wake_writer()
            await self.flush()

    async def changes(self) -> Sequence[FileChange]:
        """The stored changes of files, in order.

        Raises:
            StoreError: the store cannot be read.
        """
        return await self._commits.changes()

    async def review(self) -> StoredReview:
        """What is stored as unreviewed.

        Raises:
            StoreError: the store cannot be read.
        """
        return await self._commits.review()

    def _wake_writer(self) -> None:
        self._emitted += 1
        self._work.set()

    async def _write(self) -> None:
        if self._view_is_due():
            await self._add_view()
        goal = self._emitted
        events, self._events = self._events, []
        records, self._records = self._records, []
        await self._commits.commit([event for event in events if event.seq is not None], records)
        for event in events:
            self._publish(event)
        self._publish_status()
        self._published = goal
        self._progress.notify()

    def _view_is_due(self) -> bool:
        new = self.last_seq - self._saved_seq
        return self.store_error is None and new >= _SAVE_AFTER and new * _SAVE_SHARE >= self.last_seq

    async def _add_view(self) -> None:
        """Queues the view of what is published: all its events are stored."""
        version = await to_thread.run_sync(saved_view.version)
        self._saved_seq = self.last_seq
        self._records.append(saved_view.saved(self.view, version))

    def _publish_status(self) -> None:
        status = self.view.status()
        if status != self._status:
            self._status = status
            self._publish(Event(self.session_id, self._clock.time(), status))

    def _publish(self, event: Event) -> None:
        if event.seq is None:
            event = replace(event, after_seq=self.last_seq)
        self.view.apply(event)
        for subscription in tuple(self._subscriptions):
            subscription.push(event)
