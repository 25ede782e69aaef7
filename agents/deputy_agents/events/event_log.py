"""The session's one ordered stream of events.

``emit`` numbers an event and queues it; a writer commits what is queued in one go, folds it into the view and then
publishes it, so that nobody sees what a crash could take back. Each :class:`Subscription` is a cursor over the log
with a small buffer: one that does not keep up loses no durable event (it is caught up from the store), and its
deltas are merged.
"""

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import get_args

import anyio

from deputy_agents.domain.event import (
    Activity,
    Body,
    Derived,
    Durable,
    Event,
    MessageAdded,
    MessageDelta,
    SessionStatus,
    ThoughtDelta,
    ToolOutputDelta,
)
from deputy_agents.domain.file_change import FileChange
from deputy_agents.events.numbering import Numbering
from deputy_agents.events.view import View
from deputy_agents.ports.clock import Clock
from deputy_agents.ports.store import OutputRecord, Record, SessionRecord, Store

logger = logging.getLogger(__name__)

BUFFER = 2048
"""Events that wait for one subscriber in memory; beyond it the store is read."""
PAGE = 512
RETRY = 20
"""Seconds until a store that failed is tried again: a try may take seconds, and all that happens waits for it."""
MAX_UNSTORED = 20_000
"""Commits that are kept for the next try; beyond it the session is no longer stored."""
LIVE_OUTPUT = 32 * 1024
"""Characters of a call's output that wait for a subscriber; of more, the last ones."""

_DURABLE = get_args(Durable)
_DERIVED = get_args(Derived)
_DELTAS = (MessageDelta, ThoughtDelta, ToolOutputDelta)


@dataclass(frozen=True, slots=True)
class _Batch:
    """What is committed in one go."""

    events: list[Event]
    records: list[Record]

    @property
    def last_seq(self) -> int:
        return (self.events[-1].seq or 0) if self.events else 0


class EventLog:
    """Numbers, commits, folds and publishes the events of one session."""

    def __init__(
        self, session_id: str, store: Store, clock: Clock, view: View, numbering: Numbering | None = None
    ) -> None:
        self.session_id = session_id
        self.view = view
        self.failed: Exception | None = None
        """Why the store does not keep this session now. What it lacks is tried again from time to time."""
        self._store = store
        self._uncreated: SessionRecord | None = None
        self._clock = clock
        self._numbering = numbering or Numbering()
        self._queued: list[Event] = []
        self._records: list[Record] = []
        self._closed = False
        self._unstored: list[_Batch] = []
        self._retry_at = -math.inf
        self._told = 0
        self._published = 0
        self._wake = asyncio.Event()
        self._progress = asyncio.Event()
        self._subscriptions: set[Subscription] = set()
        self._counts: SessionStatus | None = None

    def start_without_store(self, record: SessionRecord, why: Exception) -> None:
        """The store has no such session yet: it is made there when the store can be used again."""
        self._uncreated = record
        self.failed = why
        self._retry_at = self._clock.monotonic() + RETRY

    async def retry_now(self) -> None:
        """Tries once more, now, to store what is not stored."""
        if self.failed is not None:
            self._retry_at = -math.inf
            self._stir()
            await self.flush()

    @property
    def last_seq(self) -> int:
        """The number of the last published event."""
        return self.view.last_seq

    @property
    def has_subscribers(self) -> bool:
        """Someone is subscribed."""
        return bool(self._subscriptions)

    def emit(self, body: Body, agent_id: str | None = None, run: int | None = None) -> None:
        """Queues ``body``; never blocks. What is queued is bounded by what the agents' open effects can say before
        they wait for :meth:`flush`, as each does before it asks a model."""
        event = Event(self.session_id, self._clock.time(), body, agent_id, run)
        if isinstance(body, _DURABLE):
            event = self._numbering.numbered(event)
        self._queued.append(event)
        self._stir()

    def add_record(self, record: Record) -> None:
        """Queues what is stored beside the events; it is committed with those around it."""
        self._records.append(record)
        self._stir()

    async def flush(self) -> None:
        """Returns when all that was emitted before is committed and published."""
        goal = self._told
        while self._published < goal and not self._closed:
            await self._progress.wait()

    async def run(self) -> None:
        """The writer; runs until it is cancelled."""
        while True:
            with anyio.move_on_after(math.inf if self.failed is None else RETRY):
                await self._wake.wait()
            self._wake.clear()
            await self._write()

    def close(self) -> None:
        """Ends all subscriptions; each still hands out what was published. Nobody waits for the writer any more."""
        self._closed = True
        self._progress.set()
        for subscription in tuple(self._subscriptions):
            subscription.close()

    def subscribe(self, after: int | None = None) -> "Subscription":
        """Durable events numbered above ``after`` (default: from now on), and lossy ones from now on."""
        subscription = Subscription(self, self.last_seq if after is None else after)
        if self._closed:
            subscription.close()
        else:
            self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: "Subscription") -> None:
        self._subscriptions.discard(subscription)

    async def read(self, after: int, limit: int) -> list[Event]:
        """Published events numbered above ``after``, in order."""
        stored: Sequence[Event] = ()
        try:
            stored = await self._store.events(self.session_id, after, limit)
        except Exception:
            logger.exception("session %s cannot be read again", self.session_id)
        # What is committed and not yet published comes by itself.
        kept = {event.seq or 0: event for batch in self._unstored for event in batch.events}
        kept |= {event.seq or 0: event for event in stored}
        events = [kept[seq] for seq in sorted(kept) if after < seq <= self.last_seq]
        return events[:limit]

    async def changes(self) -> Sequence[FileChange]:
        """The stored changes of files, in order.

        Raises:
            StoreError: the store cannot be read.
        """
        return await self._store.changes(self.session_id)

    def _stir(self) -> None:
        self._told += 1
        self._wake.set()

    async def _write(self) -> None:
        goal = self._told
        events, self._queued = self._queued, []
        records, self._records = self._records, []
        await self._commit([event for event in events if event.seq is not None], records)
        for event in events:
            self._publish(event)
        self._publish_counts()
        self._published = goal
        self._progress.set()
        self._progress = asyncio.Event()

    async def _commit(self, events: list[Event], records: list[Record]) -> None:
        if events or records:
            self._unstored.append(_Batch(events, records))
        if not self._unstored or self._clock.monotonic() < self._retry_at:
            return
        try:
            if self._uncreated is not None:
                await self._store.create(self._uncreated)
                self._uncreated = None
            elif self.failed is not None:
                await self._forget_stored()
            await self._store.append(
                self.session_id,
                [event for batch in self._unstored for event in batch.events],
                [record for batch in self._unstored for record in batch.records],
            )
        except Exception as error:
            # The agents go on: until the store can be used again, what follows lives in this process alone.
            if self.failed is None:
                logger.exception("session %s is not stored for now", self.session_id)
            self.failed = error
            self._let_go_of_outputs()
            self._retry_at = self._clock.monotonic() + (RETRY if len(self._unstored) < MAX_UNSTORED else math.inf)
        else:
            self.failed = None
            self._unstored = []

    def _let_go_of_outputs(self) -> None:
        """What waits for the store must not fill the memory; the events tell the ends of an output anyway."""
        for batch in self._unstored:
            batch.records[:] = [record for record in batch.records if not isinstance(record, OutputRecord)]

    async def _forget_stored(self) -> None:
        """A commit that was given up may have been done after all: nothing is stored twice."""
        first = next((event.seq for batch in self._unstored for event in batch.events if event.seq), None)
        if first is not None and (stored := await self._store.events(self.session_id, first - 1)):
            last = stored[-1].seq or 0
            # What is committed in one go is there as a whole, with what came before it.
            done = (at for at, batch in enumerate(self._unstored, 1) if 0 < batch.last_seq <= last)
            self._unstored = self._unstored[max(done, default=0) :]

    def _publish_counts(self) -> None:
        counts = self.view.status()
        if counts != self._counts:
            self._counts = counts
            self._publish(Event(self.session_id, self._clock.time(), counts))

    def _publish(self, event: Event) -> None:
        if event.seq is None:
            event = replace(event, after_seq=self.last_seq)
        self.view.apply(event)
        for subscription in tuple(self._subscriptions):
            subscription.offer(event)


class Subscription:
    """An async iterator over a session's events. Close it when done."""

    def __init__(self, log: EventLog, after: int) -> None:
        self._log = log
        self._cursor = after
        self._behind = after < log.last_seq
        self._items: OrderedDict[Hashable, Event] = OrderedDict()
        self._wake = asyncio.Event()
        self._closed = False

    @property
    def delivered(self) -> int:
        """The number of the last durable event handed out."""
        return self._cursor

    @property
    def idle(self) -> bool:
        """Everything published so far has been handed out."""
        return not self._items and not self._behind

    def offer(self, event: Event) -> None:
        """Takes a published event; never blocks."""
        key = _key(event)
        if event.seq is not None:
            if not self._behind and event.seq > self._cursor:
                self._items[key] = event
            elif isinstance(event.body, MessageAdded):
                self._forget_deltas(event.body)
        elif isinstance(event.body, _DELTAS) and (queued := self._items.get(key)) is not None:
            self._items[key] = _merged(queued, event.body)
        else:
            self._items.pop(key, None)
            self._items[key] = event
        if len(self._items) > BUFFER:
            self._fall_behind()
        self._wake.set()

    def close(self) -> None:
        """No more comes in; what was published before is still handed out."""
        self._closed = True
        self._wake.set()
        self._log.unsubscribe(self)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events()

    async def _events(self) -> AsyncIterator[Event]:
        while True:
            while self._behind:
                page = await self._log.read(self._cursor, PAGE)
                for event in page:
                    yield self._taken(event)
                # An empty page: the store has lost what is missing, and the gap in the numbers tells it.
                self._behind = bool(page) and self._cursor < self._log.last_seq
            if self._items:
                _, event = self._items.popitem(last=False)
                yield self._taken(event)
            elif self._closed:
                return
            else:
                self._wake.clear()
                await self._wake.wait()

    def _taken(self, event: Event) -> Event:
        if event.seq is not None:
            self._cursor = event.seq
            if isinstance(event.body, MessageAdded):
                # Its deltas, if any still wait, would now be told twice.
                self._forget_deltas(event.body)
        return event

    def _forget_deltas(self, message: MessageAdded) -> None:
        self._items.pop((MessageDelta, message.message_id), None)
        self._items.pop((ThoughtDelta, message.message_id), None)

    def _fall_behind(self) -> None:
        """Leaves durable events to the store; of the others the oldest make room."""
        self._behind = True
        lossy = [(key, event) for key, event in self._items.items() if event.seq is None]
        self._items = OrderedDict(lossy[-BUFFER:])


def _key(event: Event) -> Hashable:
    """What a newer event of the same key replaces, or is merged with."""
    match event.body:
        case MessageDelta(of) | ThoughtDelta(of) | ToolOutputDelta(of):
            return type(event.body), of
        case Activity():
            return Activity, event.agent_id
        case body if isinstance(body, _DERIVED):
            return type(body)
        case _:
            return event.seq


def _merged(queued: Event, body: MessageDelta | ThoughtDelta | ToolOutputDelta) -> Event:
    earlier = queued.body
    text = earlier.text + body.text if isinstance(earlier, _DELTAS) else body.text
    if isinstance(body, ToolOutputDelta):
        text = text[-LIVE_OUTPUT:]
    return replace(queued, body=replace(body, text=text))
