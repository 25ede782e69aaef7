"""The system clock."""

import time

import anyio


class SystemClock:
    """Implements :class:`deputy_agents.ports.clock.Clock`."""

    def time(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)
