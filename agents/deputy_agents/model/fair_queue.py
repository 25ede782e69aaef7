"""A queue for the requests to one model service, with visible and cancellable waits.

A request that waits here uses no attempt. Its agent keeps its slot and its time limit keeps running. The time limit
therefore bounds the wait; another agent could not use the slot, because it needs the same service.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

import anyio

from deputy_agents.concurrency.signal import Signal
from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.domain.settings import RetrySettings
from deputy_agents.model.adaptive_limiter import AdaptiveLimiter, QueueEntry
from deputy_agents.ports.model import Model, ModelEvent, ModelRequest, RequestAccepted, RequestDelayed

REPORT_AFTER = 0.5
"""Seconds a request waits before the wait is reported."""

_BUSY = (ModelErrorKind.RATE_LIMITED, ModelErrorKind.OVERLOADED)


class FairQueue:
    """Starts requests to one service as its :class:`AdaptiveLimiter` allows. All models of that service share it."""

    def __init__(self, retry: RetrySettings | None = None) -> None:
        self.limiter = AdaptiveLimiter(random.random, retry)
        self._timer: asyncio.TimerHandle | None = None
        self._changed = Signal()

    def join(self, request: ModelRequest) -> QueueEntry:
        entry = self.limiter.join(request.session_id, request.depth)
        self._start_waiting()
        return entry

    async def wait_for_start(self, entry: QueueEntry) -> None:
        """Waits until the request may start."""
        while entry.started_at is None:
            await self._changed.wait()

    async def wait_for_change(self, entry: QueueEntry, pause_end: float) -> None:
        """Waits until the request may start, or until :attr:`pause_end` is no longer ``pause_end``."""
        while entry.started_at is None and self.pause_end == pause_end:
            await self._changed.wait()

    @property
    def pause_end(self) -> float:
        """When the current pause ends, by ``time.monotonic``; 0 without a pause."""
        return self.limiter.resume_at if self.limiter.pause(time.monotonic()) else 0.0

    def accept(self, entry: QueueEntry) -> None:
        self.limiter.accept(entry)
        self._start_waiting()

    def reject(self, entry: QueueEntry, retry_after: float | None) -> float:
        pause = self.limiter.reject(entry, time.monotonic(), retry_after)
        self._start_waiting()
        return pause

    def leave(self, entry: QueueEntry) -> None:
        self.limiter.leave(entry)
        self._start_waiting()

    def _start_waiting(self) -> None:
        """Starts the requests that may start now, and sets a timer for the end of a pause."""
        now = time.monotonic()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.limiter.start(now)
        if self.limiter.waiting and (pause := self.limiter.pause(now)):
            self._timer = asyncio.get_running_loop().call_later(pause, self._start_waiting)
        self._changed.notify()


class QueuedModel:
    """A :class:`deputy_agents.ports.model.Model` whose requests wait in ``queue``. ``prefix`` is left out of the names
    of models, because the service does not know it."""

    def __init__(self, model: Model, queue: FairQueue, prefix: str = "") -> None:
        self._model = model
        self._queue = queue
        self._prefix = prefix

    async def prepare(self) -> None:
        await self._model.prepare()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        request = replace(request, model=request.model.removeprefix(self._prefix))
        entry = self._queue.join(request)
        try:
            with anyio.move_on_after(REPORT_AFTER):
                await self._queue.wait_for_start(entry)
            if entry.started_at is None:
                while entry.started_at is None:
                    pause_end = self._queue.pause_end
                    yield RequestDelayed(_reason(pause_end))
                    await self._queue.wait_for_change(entry, pause_end)
                yield RequestDelayed(None)
            async with aclosing(self._model.stream(request)) as events:
                async for event in events:
                    if not entry.accepted:
                        self._queue.accept(entry)
                    if not isinstance(event, RequestAccepted):
                        yield event
        except ModelError as error:
            if error.kind in _BUSY and error.retryable:
                error.retry_after = max(self._queue.reject(entry, error.retry_after), error.retry_after or 0.0)
            raise
        finally:
            self._queue.leave(entry)


def _reason(pause_end: float) -> str:
    if not pause_end:
        return "waiting for other requests to the model service"
    return f"the model service is busy: all requests wait {max(1, round(pause_end - time.monotonic()))} s"
