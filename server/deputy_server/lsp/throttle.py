"""Rate limiting with merging: the first item is sent at once, later ones are merged and sent once per interval."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Throttle(Generic[T]):
    """Keeps the latest item of each key between two sends; ``merge(earlier, later)`` combines two."""

    def __init__(self, interval: float, send: Callable[[T], None], merge: Callable[[T, T], T]) -> None:
        self._interval = interval
        self._send = send
        self._merge = merge
        self._loop = asyncio.get_running_loop()
        self._pending: dict[Hashable, T] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._next_send = 0.0

    def add(self, key: Hashable, item: T) -> None:
        earlier = self._pending.get(key)
        self._pending[key] = item if earlier is None else self._merge(earlier, item)
        if self._loop.time() >= self._next_send:
            self.flush()
        elif self._timer is None:
            self._timer = self._loop.call_at(self._next_send, self.flush)

    def flush(self) -> None:
        """Send the pending items now."""
        self._cancel_timer()
        if self._pending:
            pending, self._pending = self._pending, {}
            for item in pending.values():
                self._send(item)
            self._next_send = self._loop.time() + self._interval

    def close(self) -> None:
        """Drop the pending items."""
        self._cancel_timer()
        self._pending.clear()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
