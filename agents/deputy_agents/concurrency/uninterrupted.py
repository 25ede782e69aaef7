"""A step that a cancellation must not cut in half, such as starting a process and recording who owns it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

T = TypeVar("T")


async def uninterrupted(step: Callable[[], Awaitable[T]]) -> T:
    """Run ``step`` to its end in a task of its own. A cancellation meanwhile, by a cancel scope or of the task itself,
    takes effect at the next wait of the caller. Use it only for steps that end by themselves."""
    running = asyncio.ensure_future(step())
    cancelled = 0
    with anyio.CancelScope(shield=True):
        while not running.done():
            try:
                await asyncio.wait([running])  # unlike a plain await, it does not pass a cancellation on
            except asyncio.CancelledError:
                cancelled += 1
    if (task := asyncio.current_task()) is not None:
        for _ in range(cancelled):
            task.uncancel()
            task.cancel()
    return running.result()
