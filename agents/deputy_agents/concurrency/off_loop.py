"""Work on texts whose length others determine: short ones at once, long ones in a thread.

A thread only helps if no single step of the work takes long, because most steps keep all other threads waiting.
"""

from collections.abc import Callable
from typing import TypeVar

from anyio import to_thread

T = TypeVar("T")

LARGE = 2**17
"""Characters above which the switch to a thread costs less than the wait of all other tasks."""


async def off_loop(size: int, work: Callable[[], T]) -> T:
    """Run ``work``, which blocks for a time that grows with ``size``, in characters."""
    return work() if size <= LARGE else await to_thread.run_sync(work)
