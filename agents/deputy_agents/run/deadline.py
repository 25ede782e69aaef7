"""A time limit that counts running time only."""

import asyncio


class Deadline:
    """Passes once, after ``seconds`` of running time. It starts paused; :meth:`run` and :meth:`pause` may be called in
    any order and any number of times."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._left = seconds
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._passed = asyncio.Event()

    def run(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._since = loop.time()
            self._timer = loop.call_later(max(self._left, 0), self._passed.set)

    def pause(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._left -= asyncio.get_running_loop().time() - self._since

    async def passed(self) -> None:
        """Waits until the deadline passes."""
        await self._passed.wait()
