"""Output that never blocks its writers.

Data waits in a queue that is limited in bytes. Writers see two states: ``congested`` (the client reads too slowly:
delay what can wait and drop what is lossy) and ``closed`` (the client has disconnected, or exceeded the hard limit). A
file descriptor is written by a thread; an asyncio connection by a task.
"""

import asyncio
import contextlib
import os
import select
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable

HIGH_WATER = 2**20
"""Pending bytes above which the output is congested, until they fall below a quarter of this."""

HARD_LIMIT = 128 * 2**20
"""Pending bytes above which the connection is aborted, to bound memory."""


class OutputQueue(ABC):
    """A bounded queue of bytes to send. All methods are called on the event loop."""

    def __init__(self, *, high_water: int = HIGH_WATER, hard_limit: int = HARD_LIMIT) -> None:
        self._high_water = high_water
        self.hard_limit = hard_limit
        """Pending bytes above which the connection is aborted."""
        self._lock = threading.Condition()
        self._queue: deque[bytes] = deque()
        self._pending = 0
        """Bytes not written yet, those being written included."""
        self._ending = False
        self._uncongested = asyncio.Event()
        self._uncongested.set()
        self._closed = asyncio.Event()

    @property
    def congested(self) -> bool:
        return not self._uncongested.is_set()

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    def write(self, data: bytes) -> bool:
        """Queue ``data``; return false if the connection is closed, or aborted because of this write."""
        with self._lock:
            if self._ending or self.closed:
                return False
            overfull = self._pending > self.hard_limit
            if not overfull:
                self._queue.append(data)
                self._pending += len(data)
                self._wake_sender()
        if overfull:
            self._abort()
            return False
        if self._pending > self._high_water:
            self._uncongested.clear()
        return True

    async def wait_uncongested(self) -> None:
        """Wait until the client has caught up, or has disconnected."""
        await self._uncongested.wait()

    async def wait_closed(self) -> None:
        """Wait until the client has disconnected."""
        await self._closed.wait()

    async def close(self, grace: float) -> None:
        """Accept no more data, and write out the queue for at most ``grace`` seconds."""
        with self._lock:
            self._ending = True
            self._wake_sender()
        try:
            async with asyncio.timeout(grace):
                await self._closed.wait()
        except TimeoutError:
            self._abort()

    @abstractmethod
    def _wake_sender(self) -> None:
        """Wake the thread or task that sends. Called with the lock held."""

    def _abort(self) -> None:
        with self._lock:
            self._ending = True
            self._queue.clear()
            self._wake_sender()
        self._mark_closed()

    def _mark_closed(self) -> None:
        self._closed.set()
        self._uncongested.set()

    def _count_written(self, count: int) -> bool:
        """Subtract ``count`` bytes; return whether this makes the client catch up."""
        low_water = self._high_water // 4
        with self._lock:
            before = self._pending
            self._pending -= count
        return before > low_water >= before - count

    def _end_congestion(self) -> None:
        if self._pending <= self._high_water:
            self._uncongested.set()


class Writer(OutputQueue):
    """Writes to a file descriptor, which it owns, in its own thread."""

    def __init__(self, fd: int, *, high_water: int = HIGH_WATER, hard_limit: int = HARD_LIMIT) -> None:
        super().__init__(high_water=high_water, hard_limit=hard_limit)
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="deputy-writer", daemon=True)
        self._thread.start()

    def _wake_sender(self) -> None:
        self._lock.notify()

    def _run(self) -> None:
        """Write until the queue is closed or the pipe breaks. Runs in the thread."""
        try:
            while (data := self._next_batch()) is not None:
                _write_all(self._fd, data)
                if self._count_written(len(data)):
                    self._call_on_loop(self._end_congestion)
        except OSError:
            pass
        finally:
            self._call_on_loop(self._mark_closed)
            os.close(self._fd)

    def _next_batch(self) -> bytes | None:
        with self._lock:
            while not self._queue and not self._ending:
                self._lock.wait()
            if not self._queue:
                return None
            # Small messages are written together: one system call, and one wake-up of the reader.
            batch, size = [self._queue.popleft()], 0
            while self._queue and size < 2**16:
                batch.append(self._queue.popleft())
                size += len(batch[-1])
            return b"".join(batch)

    def _call_on_loop(self, call: Callable[[], None]) -> None:
        # After the event loop has closed, no writer is left to notify.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)


class LoopWriter(OutputQueue):
    """Passes each piece of data to ``send``, in order, while :meth:`run` runs. ``send`` returns when the client can
    take more, and raises ``OSError`` when it has disconnected."""

    def __init__(
        self, send: Callable[[bytes], Awaitable[None]], *, high_water: int = HIGH_WATER, hard_limit: int = HARD_LIMIT
    ) -> None:
        super().__init__(high_water=high_water, hard_limit=hard_limit)
        self._send = send
        self._work = asyncio.Event()

    async def run(self) -> None:
        """Write until the queue is closed or the client has disconnected."""
        try:
            while not self._closed.is_set():
                await self._work.wait()
                self._work.clear()
                await self._send_all()
                if self._ending:
                    return
        except OSError:
            pass
        finally:
            self._abort()

    def _wake_sender(self) -> None:
        self._work.set()

    async def _send_all(self) -> None:
        while self._queue:
            data = self._queue.popleft()
            await self._send(data)
            if self._count_written(len(data)):
                self._end_congestion()


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            # Standard input and output can be one socket or terminal, which the reader has set non-blocking.
            select.select([], [fd], [])
