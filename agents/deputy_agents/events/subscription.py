"""A subscriber's position in the event log of a session, with a small buffer.

A slow subscriber loses no durable event: beyond the buffer, events are read from the store. Buffered deltas of one
message or tool call are merged.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Hashable
from dataclasses import replace
from typing import Protocol, get_args

from deputy_agents.domain.event import (
    Activity,
    Derived,
    Event,
    MessageAdded,
    MessageDelta,
    ThoughtAdded,
    ThoughtDelta,
    ToolOutputDelta,
)

BUFFER = 2048
"""Buffered events per subscriber. Beyond this number, durable events are read from the store."""
PAGE = 512
"""Events per read from the store."""
LIVE_OUTPUT = 32 * 1024
"""Buffered characters of a tool call's output; only the last ones are kept."""

_DERIVED = get_args(Derived)
_DELTAS = (MessageDelta, ThoughtDelta, ToolOutputDelta)


class PublishedEvents(Protocol):
    """The event log that a subscription reads."""

    @property
    def last_seq(self) -> int:
        """The number of the last published event."""
        ...

    async def read(self, after: int, limit: int) -> list[Event]:
        """Published durable events numbered above ``after``, in order."""
        ...

    def unsubscribe(self, subscription: "Subscription") -> None: ...


class Subscription:
    """An async iterator over a session's events. Close it after use."""

    def __init__(self, log: PublishedEvents, after: int) -> None:
        self._log = log
        self._last_delivered = after
        self._behind = after < log.last_seq
        self._buffer: OrderedDict[Hashable, Event] = OrderedDict()
        self._wake = asyncio.Event()
        self._closed = False

    @property
    def buffered(self) -> int:
        """How many events wait for the subscriber."""
        return len(self._buffer)

    @property
    def idle(self) -> bool:
        """Everything published so far has been delivered."""
        return not self._buffer and not self._behind

    def push(self, event: Event) -> None:
        """Adds a published event; never blocks."""
        key = _key(event)
        if event.seq is not None:
            if not self._behind and event.seq > self._last_delivered:
                self._buffer[key] = event
            elif isinstance(event.body, MessageAdded | ThoughtAdded):
                self._drop_deltas(event.body)
        elif isinstance(event.body, _DELTAS) and (queued := self._buffer.get(key)) is not None:
            self._buffer[key] = _merged(queued, event.body)
        else:
            self._buffer.pop(key, None)
            self._buffer[key] = event
        if len(self._buffer) > BUFFER:
            self._fall_behind()
        self._wake.set()

    def close(self) -> None:
        """Ends the subscription; events published before are still delivered."""
        self._closed = True
        self._wake.set()
        self._log.unsubscribe(self)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events()

    async def _events(self) -> AsyncIterator[Event]:
        while True:
            while self._behind:
                page = await self._log.read(self._last_delivered, PAGE)
                for event in page:
                    yield self._delivered(event)
                # An empty page means that the store lost the missing events; the gap in the numbers shows it.
                self._behind = bool(page) and self._last_delivered < self._log.last_seq
            if self._buffer:
                _, event = self._buffer.popitem(last=False)
                yield self._delivered(event)
            elif self._closed:
                return
            else:
                self._wake.clear()
                await self._wake.wait()

    def _delivered(self, event: Event) -> Event:
        if event.seq is not None:
            self._last_delivered = event.seq
            if isinstance(event.body, MessageAdded | ThoughtAdded):
                self._drop_deltas(event.body)
        return event

    def _drop_deltas(self, complete: MessageAdded | ThoughtAdded) -> None:
        """Removes buffered deltas of what is complete, whose text would otherwise be delivered twice."""
        if isinstance(complete, MessageAdded):
            self._buffer.pop((MessageDelta, complete.message_id), None)
        self._buffer.pop((ThoughtDelta, complete.message_id), None)

    def _fall_behind(self) -> None:
        """Drops durable events, which are read from the store later, and the oldest of the others."""
        self._behind = True
        lossy = [(key, event) for key, event in self._buffer.items() if event.seq is None]
        self._buffer = OrderedDict(lossy[-BUFFER:])


def _key(event: Event) -> Hashable:
    """A newer event with the same key replaces a buffered one or is merged into it."""
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
