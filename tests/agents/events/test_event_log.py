"""The event log alone: numbers, order, commit before publication, and slow subscribers."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from deputy_agents.domain.errors import StoreError
from deputy_agents.domain.event import (
    Activity,
    Event,
    MessageAdded,
    MessageDelta,
    SessionStatus,
    ThoughtDelta,
    UsageChanged,
)
from deputy_agents.domain.message import Message, Text, Usage
from deputy_agents.events import subscription
from deputy_agents.events.commit_queue import RETRY
from deputy_agents.events.event_log import EventLog
from deputy_agents.events.subscription import Subscription
from deputy_agents.events.view import View
from deputy_agents.ports.store import HistoryRecord, Record, SessionRecord
from deputy_agents.store.memory import MemoryStore
from tests.support.core import BOUND, StillClock

RECORD = SessionRecord("s", "a", "", "/", 0, 0, "m")


class SlowStore(MemoryStore):
    """Commits only while ``open``; ``waiting`` is set by each commit. With ``stores_first``, data is stored before the
    wait."""

    def __init__(self, *, stores_first: bool = False) -> None:
        super().__init__()
        self.open = asyncio.Event()
        self.open.set()
        self.waiting = asyncio.Event()
        self.broken = False
        self.commits = 0
        self._stores_first = stores_first

    async def append(self, session_id: str, events: Sequence[Event], records: Sequence[Record] = ()) -> None:
        if self.broken:
            raise StoreError("The disk is full.")
        self.commits += 1
        if self._stores_first:
            await super().append(session_id, events, records)
        self.waiting.set()
        await self.open.wait()
        if not self._stores_first:
            await super().append(session_id, events, records)

    async def events(self, session_id: str, after: int = 0, limit: int | None = None) -> Sequence[Event]:
        if self.broken:
            raise StoreError("The disk is gone.")
        return await super().events(session_id, after, limit)


@dataclass
class Logging:
    log: EventLog
    store: SlowStore
    writer: "asyncio.Task[None]"
    clock: StillClock

    def say(self, text: str, agent: str = "a", run: int = 1) -> None:
        self.log.emit(MessageAdded(text, "assistant", text), agent, run)


@dataclass
class Reader:
    """Reads events on demand."""

    subscription: Subscription
    taken: list[Event] = field(default_factory=list[Event])

    def __post_init__(self) -> None:
        self._events = aiter(self.subscription)

    async def take(self, count: int) -> list[Event]:
        async with asyncio.timeout(BOUND):
            page = [await anext(self._events) for _ in range(count)]
        self.taken += page
        return page

    async def rest(self) -> list[Event]:
        """All events up to the end of a closed subscription."""
        async with asyncio.timeout(BOUND):
            page = [event async for event in self._events]
        self.taken += page
        return page


def reader(logging: Logging, after: int | None = None) -> Reader:
    return Reader(logging.log.subscribe(after))


def texts(events: Sequence[Event]) -> list[str]:
    return [event.body.text for event in events if isinstance(event.body, MessageAdded | MessageDelta)]


def seqs(events: Sequence[Event]) -> list[int]:
    return [event.seq for event in events if event.seq is not None]


@asynccontextmanager
async def logging(store: SlowStore | None = None) -> AsyncGenerator[Logging]:
    store = store or SlowStore()
    await store.create(RECORD)
    clock = StillClock()
    log = EventLog("s", store, clock, View())
    writer = asyncio.create_task(log.run())
    yield Logging(log, store, writer, clock)
    writer.cancel()
    await asyncio.wait([writer])


async def flush(logging: Logging) -> None:
    async with asyncio.timeout(BOUND):
        await logging.log.flush()


@pytest.mark.asyncio
async def test_numbers_are_consecutive_per_session_and_per_agent_and_run() -> None:
    async with logging() as w:
        for text, agent, run in [("1", "a", 1), ("2", "b", 1), ("3", "a", 1), ("4", "a", 2), ("5", "b", 1)]:
            w.say(text, agent, run)
            w.log.emit(Activity("busy", 0), agent, run)
        await flush(w)
        stored = await w.store.events("s")
        assert seqs(stored) == [1, 2, 3, 4, 5]
        assert [event.agent_seq for event in stored] == [1, 1, 2, 1, 2]


@pytest.mark.asyncio
async def test_events_are_published_and_folded_only_after_the_commit() -> None:
    async with logging() as w:
        r = reader(w)
        w.store.open.clear()
        w.say("one")
        async with asyncio.timeout(BOUND):
            await w.store.waiting.wait()
        assert (w.log.last_seq, r.subscription.idle) == (0, True)
        w.store.open.set()
        assert texts(await r.take(1)) == ["one"]
        assert w.log.last_seq == 1


@pytest.mark.asyncio
async def test_a_committed_but_unpublished_event_is_delivered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with logging(SlowStore(stores_first=True)) as w:
        w.say("one")
        await flush(w)
        w.store.open.clear()
        w.store.waiting.clear()
        w.say("two")
        async with asyncio.timeout(BOUND):
            await w.store.waiting.wait()
        r = reader(w, after=0)
        assert texts(await r.take(1)) == ["one"]
        w.store.open.set()
        await flush(w)
        w.log.close()
        assert texts(await r.rest()) == ["two"]


@pytest.mark.asyncio
async def test_queued_events_are_committed_together() -> None:
    async with logging() as w:
        w.store.open.clear()
        w.say("first")
        async with asyncio.timeout(BOUND):
            await w.store.waiting.wait()
        for number in range(100):
            w.say(str(number))
        w.store.open.set()
        await flush(w)
        assert w.store.commits == 2
        assert w.log.last_seq == 101


@pytest.mark.asyncio
async def test_a_flush_does_not_wait_for_later_events() -> None:
    async with logging() as w:
        w.say("before")
        flushed = asyncio.create_task(w.log.flush())
        await asyncio.sleep(0)
        endless = asyncio.create_task(_chatter(w))
        async with asyncio.timeout(BOUND):
            await flushed
        endless.cancel()


async def _chatter(logging: Logging) -> None:
    while True:
        logging.say("more")
        await asyncio.sleep(0)


@pytest.mark.asyncio
async def test_history_is_committed_with_the_events_around_it() -> None:
    async with logging() as w:
        message = Message("user", (Text("hello"),), "m1")
        w.log.add_record(HistoryRecord("a", message))
        w.say("hello")
        await flush(w)
        assert (w.store.commits, await w.store.history("s", "a")) == (1, [message])


@pytest.mark.asyncio
async def test_buffered_deltas_are_merged_and_those_of_a_delivered_message_are_dropped() -> None:
    async with logging() as w:
        r = reader(w)
        for piece in ("Hel", "lo", ", you"):
            w.log.emit(MessageDelta("m", piece), "a", 1)
            w.log.emit(ThoughtDelta("m", piece), "a", 1)
        await flush(w)
        delta, thought, counts = await r.take(3)
        assert delta.body == MessageDelta("m", "Hello, you")
        assert thought.body == ThoughtDelta("m", "Hello, you")
        assert isinstance(counts.body, SessionStatus)
        w.say("m")
        await flush(w)
        w.log.close()
        assert texts(await r.rest()) == ["m"]


@pytest.mark.asyncio
async def test_only_the_latest_activity_and_status_are_buffered() -> None:
    async with logging() as w:
        r = reader(w)
        for number in range(5):
            w.log.emit(Activity(f"step {number}", number), "a", 1)
            w.log.emit(Activity(f"other {number}", number), "b", 1)
        await flush(w)
        w.log.close()
        bodies = [event.body for event in await r.rest()]
        assert bodies[:2] == [Activity("step 4", 4), Activity("other 4", 4)]
        assert len(bodies) == 3


@pytest.mark.asyncio
async def test_lossy_events_have_the_number_of_the_last_published_event_and_no_own_number() -> None:
    async with logging() as w:
        w.say("one")
        r = reader(w, after=0)
        w.log.emit(Activity("busy", 0), "a", 1)
        await flush(w)
        w.log.close()
        lossy = [event for event in await r.rest() if event.seq is None]
        assert [(event.after_seq, event.agent_seq) for event in lossy] == [(1, None), (1, None)]


@pytest.fixture
def small_buffer(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(subscription, "BUFFER", 8)
    monkeypatch.setattr(subscription, "PAGE", 5)
    return 8


@pytest.mark.asyncio
async def test_a_slow_subscriber_has_a_bounded_buffer_and_loses_no_durable_event(small_buffer: int) -> None:
    async with logging() as w:
        r = reader(w)
        for number in range(100):
            w.log.emit(MessageDelta(str(number), "text"), "a", 1)
            w.log.emit(ThoughtDelta(f"silent {number}", "thought"), "a", 1)
            w.say(str(number))
            await flush(w)
            assert r.subscription.buffered <= small_buffer
        await r.take(30)
        for number in range(100, 120):
            w.say(str(number))
        await flush(w)
        w.log.close()
        await r.rest()
        assert seqs(r.taken) == list(range(1, 121))
        late_deltas = [event for event in r.taken if isinstance(event.body, MessageDelta)]
        assert late_deltas == []


@pytest.mark.usefixtures("small_buffer")
@pytest.mark.asyncio
async def test_a_late_subscriber_or_one_in_the_middle_of_a_burst_gets_each_event_once() -> None:
    async with logging() as w:
        readers = list[Reader]()
        burst = asyncio.create_task(_burst(w))
        for after in (0, None, 3, 0, 20):
            readers.append(reader(w, after))
            await readers[-1].take(1)
        async with asyncio.timeout(BOUND):
            await burst
        await flush(w)
        w.log.close()
        for r in readers:
            await r.rest()
            numbers = seqs(r.taken)
            assert numbers == list(range(numbers[0], 201))
        assert [seqs(r.taken)[0] for r in (readers[0], readers[2])] == [1, 4]


async def _burst(logging: Logging) -> None:
    for number in range(200):
        logging.say(str(number))
        await asyncio.sleep(0)


@pytest.mark.usefixtures("small_buffer")
@pytest.mark.asyncio
async def test_subscribers_are_served_from_memory_while_the_store_fails() -> None:
    async with logging() as w:
        w.say("kept")
        await flush(w)
        slow = reader(w, after=0)
        w.store.broken = True
        for number in range(30):
            w.say(str(number))
            await flush(w)
        assert isinstance(w.log.store_error, StoreError)
        w.log.close()
        assert seqs(await slow.rest()) == list(range(2, 32))  # the first event is lost with the store
        w.store.broken = False
        late = reader(w, after=0)
        late.subscription.close()
        assert seqs(await late.rest()) == list(range(1, 32))


@pytest.mark.asyncio
async def test_events_that_a_failing_store_rejected_are_stored_later_once_and_in_order() -> None:
    async with logging() as w:
        w.say("kept")
        await flush(w)
        w.store.broken = True
        for word in ("a", "b"):
            w.say(word)
            await flush(w)
        w.store.broken = False
        w.say("too soon to try again")
        await flush(w)
        assert isinstance(w.log.store_error, StoreError)
        assert [event.seq for event in await w.store.events("s")] == [1]
        w.clock.advance(RETRY)
        w.say("now")
        await flush(w)
        assert w.log.store_error is None
        assert [event.seq for event in await w.store.events("s")] == [1, 2, 3, 4, 5]


@pytest.mark.asyncio
async def test_closing_the_log_ends_all_waits() -> None:
    async with logging() as w:
        w.store.open.clear()
        w.say("never committed")
        flushed = asyncio.create_task(w.log.flush())
        await asyncio.sleep(0)
        w.log.close()
        async with asyncio.timeout(BOUND):
            await flushed


@pytest.mark.asyncio
async def test_a_closed_subscription_ends_and_gets_no_more_events() -> None:
    async with logging() as w:
        r, other = reader(w), reader(w)
        w.say("one")
        await flush(w)
        r.subscription.close()
        w.say("two")
        await flush(w)
        w.log.emit(UsageChanged(Usage(1)), "a", 1)
        assert texts(await r.rest()) == ["one"]
        assert texts(await other.take(3)) == ["one", "two"]
