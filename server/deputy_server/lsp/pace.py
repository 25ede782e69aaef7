"""Sending at a bounded rate: the first at once, what follows merged and sent once per interval."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Pace(Generic[T]):
    """Holds the latest item of each key between two sendings; ``merge(earlier, later)`` says what becomes of two."""

    def __init__(self, interval: float, send: Callable[[T], None], merge: Callable[[T, T], T]) -> None:
        self._interval = interval
        self._send = send
        self._merge = merge
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Hashable, T] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._free_at = 0.0

    def add(self, key: Hashable, item: T) -> None:
        earlier = self._waiting.get(key)
        self._waiting[key] = item if earlier is None else self._merge(earlier, item)
        if self._loop.time() >= self._free_at:
            self.flush()
        elif self._timer is None:
            self._timer = self._loop.call_at(self._free_at, self.flush)

    def flush(self) -> None:
        """Sends what waits, now."""
        self._stop()
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for item in waiting.values():
                self._send(item)
            self._free_at = self._loop.time() + self._interval

    def close(self) -> None:
        """Drops what waits."""
        self._stop()
        self._waiting.clear()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
