"""The requests of one client that are open, whatever protocol it speaks."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeGuard, TypeVar

import anyio

from deputy_server.rpc.errors import RpcError, to_rpc_error

RequestId: TypeAlias = str | int
R = TypeVar("R")

FLOOD_GRACE = 1
"""Seconds that reading pauses for open requests to end, when there are as many as may be."""


class OpenRequests:
    """At most ``most`` by their ids, each with the scope that cancels it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._scopes: dict[RequestId, anyio.CancelScope] = {}
        self._ended = asyncio.Event()

    def __contains__(self, request_id: RequestId) -> bool:
        return request_id in self._scopes

    @property
    def full(self) -> bool:
        return len(self._scopes) >= self._most

    def open(self, request_id: RequestId) -> anyio.CancelScope:
        """The scope exists from now on: a cancel may be the very next message."""
        scope = self._scopes[request_id] = anyio.CancelScope()
        return scope

    def end(self, request_id: RequestId) -> None:
        """The request is about to be answered."""
        del self._scopes[request_id]
        self._ended.set()

    def cancel(self, request_id: object) -> None:
        """Cancels a request; of one that is not open, nothing."""
        if is_id(request_id) and (scope := self._scopes.get(request_id)):
            scope.cancel()

    async def room(self) -> None:
        """Returns when another request can be taken, or soon: a client that floods is slowed down before it is refused,
        and one whose open requests all take long can still cancel them."""
        if self.full:
            with anyio.move_on_after(FLOOD_GRACE):
                await self._fewer_than(self._most)

    async def settle(self, *, but: int = 0, grace: float) -> None:
        """Cancels every open request but the last ``but`` ones and waits, at most ``grace`` seconds, until they have
        been answered."""
        scopes = list(self._scopes.values())
        for scope in scopes[: len(scopes) - but]:
            scope.cancel()
        with anyio.move_on_after(grace):
            await self._fewer_than(but + 1)

    async def _fewer_than(self, count: int) -> None:
        while len(self._scopes) >= count:
            self._ended.clear()
            await self._ended.wait()


async def outcome(handler: Callable[[object], Awaitable[R]], params: object) -> R | RpcError:
    """What ``handler`` returns, or the error that tells the client what it raised."""
    try:
        return await handler(params)
    except Exception as error:  # noqa: BLE001 - whatever it is, the request gets its answer
        return to_rpc_error(error)


def is_id(value: object) -> TypeGuard[RequestId]:
    return isinstance(value, str | int) and not isinstance(value, bool)
