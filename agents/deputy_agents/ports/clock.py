"""Time and waiting."""

from typing import Protocol


class Clock(Protocol):
    """Time and waiting, so that tests need neither."""

    def time(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...
