"""Models behind one :class:`AdaptiveLimiter`: their requests wait for their turn, visibly and cancellably.

A request that waits here costs no attempt. Its agent keeps its slot, and its time limit goes on: that is the bound of
this wait, as a place among the running ones would be of no use to an agent that needs the same service.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

import anyio

from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.domain.settings import RetrySettings
from deputy_agents.model.adaptive_limiter import AdaptiveLimiter, QueueEntry
from deputy_agents.ports.model import Model, ModelEvent, ModelRequest, RequestAccepted, RequestDelayed

QUIET = 0.5
"""Seconds that a wait may last before people are told of it."""

_BUSY = (ModelErrorKind.RATE_LIMITED, ModelErrorKind.OVERLOADED)


class FairQueue:
    """Hands out turns at one service, as its :class:`AdaptiveLimiter` says. Shared by all models of that service."""

    def __init__(self, retry: RetrySettings | None = None) -> None:
        self._limiter = AdaptiveLimiter(random.random, retry)
        self._timer: asyncio.TimerHandle | None = None
        self._news = anyio.Event()

    def join(self, request: ModelRequest) -> QueueEntry:
        ticket = self._limiter.join(request.session_id, request.depth)
        self._go_on()
        return ticket

    async def started(self, ticket: QueueEntry) -> None:
        """Waits until its turn has come."""
        while ticket.started is None:
            await self._news.wait()

    async def changed(self, ticket: QueueEntry, pause_end: float) -> None:
        """Waits until its turn has come, or a pause has begun or ended."""
        while ticket.started is None and self.pause_end == pause_end:
            await self._news.wait()

    @property
    def pause_end(self) -> float:
        """When requests start again; 0 while they may."""
        return self._limiter.resume_at if self._limiter.pause(time.monotonic()) else 0.0

    def take(self, ticket: QueueEntry) -> None:
        self._limiter.take(ticket)
        self._go_on()

    def refuse(self, ticket: QueueEntry, retry_after: float | None) -> float:
        pause = self._limiter.refuse(ticket, time.monotonic(), retry_after)
        self._go_on()
        return pause

    def leave(self, ticket: QueueEntry) -> None:
        self._limiter.leave(ticket)
        self._go_on()

    def _go_on(self) -> None:
        now = time.monotonic()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._limiter.start(now)
        if self._limiter.waiting and (pause := self._limiter.pause(now)):
            self._timer = asyncio.get_running_loop().call_later(pause, self._go_on)
        self._news.set()
        self._news = anyio.Event()


class QueuedModel:
    """A :class:`deputy_agents.ports.model.Model` whose requests take ``turns``."""

    def __init__(self, model: Model, turns: FairQueue) -> None:
        self._model = model
        self._turns = turns

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        ticket = self._turns.join(request)
        try:
            with anyio.move_on_after(QUIET):
                await self._turns.started(ticket)
            if ticket.started is None:
                while ticket.started is None:
                    pause_end = self._turns.pause_end
                    yield RequestDelayed(_why(pause_end))
                    await self._turns.changed(ticket, pause_end)
                yield RequestDelayed(None)
            async with aclosing(self._model.stream(request)) as events:
                async for event in events:
                    if not ticket.taken:
                        self._turns.take(ticket)
                    if not isinstance(event, RequestAccepted):
                        yield event
        except ModelError as error:
            if error.kind in _BUSY and error.retryable:
                error.retry_after = max(self._turns.refuse(ticket, error.retry_after), error.retry_after or 0.0)
            raise
        finally:
            self._turns.leave(ticket)


def _why(pause_end: float) -> str:
    if not pause_end:
        return "waiting for its turn at the model service"
    return f"the model service is busy: all requests wait {max(1, round(pause_end - time.monotonic()))} s"
