"""A lock for each key, which exists only while it is used."""

from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import anyio

K = TypeVar("K", bound=Hashable)


class KeyedLock(Generic[K]):
    """Tasks that hold the same key take turns; those of other keys do not wait for them."""

    def __init__(self) -> None:
        self._held: dict[K, anyio.Event] = {}

    @asynccontextmanager
    async def hold(self, key: K) -> AsyncGenerator[None]:
        """Waits until no other task holds ``key``, then holds it."""
        while (current := self._held.get(key)) is not None:
            await current.wait()
        released = self._held[key] = anyio.Event()
        try:
            yield
        finally:
            del self._held[key]
            released.set()
