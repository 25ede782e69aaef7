"""Writing that never blocks the event loop.

One thread per file descriptor does the blocking writes, from a queue that is bounded in bytes. The loop sees two
things: ``congested`` (the other side reads too slowly: hold back what can wait, drop what is lossy) and
``closed`` (the other side is gone, or has let more pile up than is sane).
"""

import asyncio
import contextlib
import os
import select
import threading
from collections import deque
from collections.abc import Callable

HIGH_WATER = 2**20
"""Bytes waiting above which the writer is congested; it is again at ease below a quarter of that."""

HARD_LIMIT = 128 * 2**20
"""Bytes waiting above which the connection is given up: nobody reads, and memory is not endless."""


class Writer:
    """A bounded queue of bytes in front of one file descriptor, which it owns.

    All methods are called on the event loop.
    """

    def __init__(self, fd: int, *, high_water: int = HIGH_WATER, hard_limit: int = HARD_LIMIT) -> None:
        self._fd = fd
        self._high_water = high_water
        self._hard_limit = hard_limit
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Condition()
        self._queue: deque[bytes] = deque()
        self._waiting = 0
        self._ending = False
        self._at_ease = asyncio.Event()
        self._at_ease.set()
        self._closed = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="deputy-writer", daemon=True)
        self._thread.start()

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
            overfull = self._waiting > self._hard_limit
            if not overfull:
                self._queue.append(data)
                self._waiting += len(data)
                self._lock.notify()
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
            self._lock.notify()
        try:
            async with asyncio.timeout(grace):
                await self._closed.wait()
        except TimeoutError:
            self._give_up()

    def _give_up(self) -> None:
        with self._lock:
            self._ending = True
            self._queue.clear()
            self._lock.notify()
        self._mark_closed()

    def _mark_closed(self) -> None:
        self._closed.set()
        self._at_ease.set()

    def _run(self) -> None:
        """The thread: writes until told to end or the pipe breaks."""
        try:
            while (data := self._next()) is not None:
                _write_all(self._fd, data)
                self._written(len(data))
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

    def _written(self, count: int) -> None:
        low_water = self._high_water // 4
        with self._lock:
            before = self._waiting
            self._waiting -= count
        if before > low_water >= before - count:
            self._on_loop(self._ease)

    def _ease(self) -> None:
        if self._waiting <= self._high_water:
            self._at_ease.set()

    def _on_loop(self, call: Callable[[], None]) -> None:
        # When the loop has ended nobody is left to be told.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            # Standard input and output can be one socket or terminal, which the reader has set non-blocking.
            select.select([], [fd], [])
