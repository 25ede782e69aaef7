"""A time limit that counts running time only."""

import asyncio
from collections.abc import Callable


class Deadline:
    """Calls ``expired`` once after ``seconds`` of running time. It is created at rest; :meth:`run` and
    :meth:`rest` may be called in any order and any number of times."""

    def __init__(self, seconds: float, expired: Callable[[], None]) -> None:
        self.seconds = seconds
        self._left = seconds
        self._expired = expired
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._over = False

    def run(self) -> None:
        if self._timer is None and not self._over:
            loop = asyncio.get_running_loop()
            self._since = loop.time()
            self._timer = loop.call_later(max(self._left, 0), self._expire)

    def rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._left -= asyncio.get_running_loop().time() - self._since

    def _expire(self) -> None:
        self._over = True
        self._expired()
