"""Writing that never holds anybody up.

What is to be sent waits in a queue that is bounded in bytes. Who writes sees two things: ``congested`` (the other
side reads too slowly: hold back what can wait, drop what is lossy) and ``closed`` (the other side is gone, or has let
more pile up than is sane). A file descriptor has a thread that does the blocking writes; a connection of asyncio has a
task.
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
"""Bytes waiting above which the writer is congested; it is again at ease below a quarter of that."""

HARD_LIMIT = 128 * 2**20
"""Bytes waiting above which the connection is given up: nobody reads, and memory is not endless."""


class Outlet(ABC):
    """A bounded queue of bytes in front of something that takes them. All methods are called on the event loop."""

    def __init__(self, *, high_water: int = HIGH_WATER, hard_limit: int = HARD_LIMIT) -> None:
        self._high_water = high_water
        self.hard_limit = hard_limit
        """Bytes waiting above which the connection is given up."""
        self._lock = threading.Condition()
        self._queue: deque[bytes] = deque()
        self._waiting = 0
        self._ending = False
        self._at_ease = asyncio.Event()
        self._at_ease.set()
        self._closed = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Bytes that wait to be written, the piece being written included."""
        return self._waiting

    @property
    def congested(self) -> bool:
        return not self._at_ease.is_set()

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    def write(self, data: bytes) -> bool:
        """Queues ``data``; false when the connection is closed, or is given up because of this."""
        with self._lock:
            if self._ending or self.closed:
                return False
            overfull = self._waiting > self.hard_limit
            if not overfull:
                self._queue.append(data)
                self._waiting += len(data)
                self._stir()
        if overfull:
            self._give_up()
            return False
        if self._waiting > self._high_water:
            self._at_ease.clear()
        return True

    async def at_ease(self) -> None:
        """Waits until the other side has caught up, or is gone."""
        await self._at_ease.wait()

    async def wait_closed(self) -> None:
        """Waits until the other side is gone."""
        await self._closed.wait()

    async def close(self, grace: float) -> None:
        """Writes out what waits, for at most ``grace`` seconds, and takes nothing more."""
        with self._lock:
            self._ending = True
            self._stir()
        try:
            async with asyncio.timeout(grace):
                await self._closed.wait()
        except TimeoutError:
            self._give_up()

    @abstractmethod
    def _stir(self) -> None:
        """There is something to do for who writes; called with the lock held."""

    def _give_up(self) -> None:
        with self._lock:
            self._ending = True
            self._queue.clear()
            self._stir()
        self._mark_closed()

    def _mark_closed(self) -> None:
        self._closed.set()
        self._at_ease.set()

    def _written(self, count: int) -> bool:
        """Whether the other side has now caught up."""
        low_water = self._high_water // 4
        with self._lock:
            before = self._waiting
            self._waiting -= count
        return before > low_water >= before - count

    def _ease(self) -> None:
        if self._waiting <= self._high_water:
            self._at_ease.set()


class Writer(Outlet):
    """Writes to one file descriptor, which it owns, in a thread of its own."""

    def __init__(self, fd: int, *, high_water: int = HIGH_WATER, hard_limit: int = HARD_LIMIT) -> None:
        super().__init__(high_water=high_water, hard_limit=hard_limit)
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="deputy-writer", daemon=True)
        self._thread.start()

    def _stir(self) -> None:
        self._lock.notify()

    def _run(self) -> None:
        """The thread: writes until told to end or the pipe breaks."""
        try:
            while (data := self._next()) is not None:
                _write_all(self._fd, data)
                if self._written(len(data)):
                    self._on_loop(self._ease)
        except OSError:
            pass
        finally:
            self._on_loop(self._mark_closed)
            os.close(self._fd)

    def _next(self) -> bytes | None:
        with self._lock:
            while not self._queue and not self._ending:
                self._lock.wait()
            if not self._queue:
                return None
            # Small messages travel together: one system call, one wake-up of the reader.
            batch, size = [self._queue.popleft()], 0
            while self._queue and size < 2**16:
                batch.append(self._queue.popleft())
                size += len(batch[-1])
            return b"".join(batch)

    def _on_loop(self, call: Callable[[], None]) -> None:
        # When the loop has ended nobody is left to be told.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)


class LoopWriter(Outlet):
    """Hands each piece to ``send``, in order, while :meth:`run` runs. ``send`` returns when the other side has room
    again, and raises ``OSError`` when it is gone."""

    def __init__(
        self, send: Callable[[bytes], Awaitable[None]], *, high_water: int = HIGH_WATER, hard_limit: int = HARD_LIMIT
    ) -> None:
        super().__init__(high_water=high_water, hard_limit=hard_limit)
        self._send = send
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Writes until told to end, or the other side is gone."""
        try:
            while not self._closed.is_set():
                await self._news.wait()
                self._news.clear()
                await self._send_all()
                if self._ending:
                    return
        except OSError:
            pass
        finally:
            self._give_up()

    def _stir(self) -> None:
        self._news.set()

    async def _send_all(self) -> None:
        while self._queue:
            data = self._queue.popleft()
            await self._send(data)
            if self._written(len(data)):
                self._ease()


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            # Standard input and output can be one socket or terminal, which the reader has set non-blocking.
            select.select([], [fd], [])
