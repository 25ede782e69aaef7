"""The open requests of one client."""

import asyncio
from typing import TypeAlias, TypeGuard

import anyio

RequestId: TypeAlias = str | int

FLOOD_GRACE = 1
"""Seconds for which reading pauses while the maximum number of requests is open."""


class OpenRequests:
    """At most ``limit`` requests by id, each with the scope that cancels it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._scopes: dict[RequestId, anyio.CancelScope] = {}
        self._closed = asyncio.Event()

    def __contains__(self, request_id: RequestId) -> bool:
        return request_id in self._scopes

    @property
    def full(self) -> bool:
        return len(self._scopes) >= self._limit

    def open(self, request_id: RequestId) -> anyio.CancelScope:
        """Add a request and return its scope, which exists at once: the next message may cancel it."""
        scope = self._scopes[request_id] = anyio.CancelScope()
        return scope

    def close(self, request_id: RequestId) -> None:
        """Remove a request, right before its response is sent."""
        del self._scopes[request_id]
        self._closed.set()

    def cancel(self, request_id: object) -> None:
        """Cancel a request; ignore an id that is not open."""
        if is_id(request_id) and (scope := self._scopes.get(request_id)):
            scope.cancel()

    async def wait_for_room(self) -> None:
        """Return when another request can be opened, or after :data:`FLOOD_GRACE` seconds: a client that floods is
        slowed down before its requests are rejected, and can still cancel open requests that all take long."""
        if self.full:
            with anyio.move_on_after(FLOOD_GRACE):
                await self._wait_below(self._limit)

    async def cancel_all(self, *, keep_last: int = 0, grace: float) -> None:
        """Cancel every open request except the last ``keep_last``, and wait until these are closed, at most ``grace``
        seconds."""
        scopes = list(self._scopes.values())
        for scope in scopes[: len(scopes) - keep_last]:
            scope.cancel()
        with anyio.move_on_after(grace):
            await self._wait_below(keep_last + 1)

    async def _wait_below(self, count: int) -> None:
        while len(self._scopes) >= count:
            self._closed.clear()
            await self._closed.wait()


def is_id(value: object) -> TypeGuard[RequestId]:
    return isinstance(value, str | int) and not isinstance(value, bool)
