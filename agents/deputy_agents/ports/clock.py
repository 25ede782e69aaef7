"""The clock."""

from typing import Protocol


class Clock(Protocol):
    """Time and sleeping; tests replace both."""

    def time(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...
