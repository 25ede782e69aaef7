"""A server that is reached by streamable HTTP. What it sends is bounded: a single event, or an answer that is none."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

MAX_MESSAGE = 8 * 1024 * 1024
"""Bytes of one message."""

_SESSION = "mcp-session-id"
_TIMEOUT = httpx2.Timeout(30, read=300)
"""Seconds; a stream of events may be silent for long."""


@asynccontextmanager
async def http_transport(
    url: str, headers: Mapping[str, str], over: Callable[[str], None]
) -> AsyncGenerator[AbstractAsyncContextManager[tuple[Any, Any]]]:
    """The library's transport, over a client of ours. When the server knows the session no longer, as after it was
    started anew, ``over`` is called with that."""
    transport = _Bounded(httpx2.AsyncHTTPTransport(), over)
    async with httpx2.AsyncClient(headers=dict(headers), timeout=_TIMEOUT, transport=transport) as http:
        yield streamable_http_client(url, http_client=http, max_sse_event_size=MAX_MESSAGE)


class _Bounded(httpx2.AsyncBaseTransport):
    """Ends an answer that is no stream of events when it is too long; events are bounded by the library."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, over: Callable[[str], None]) -> None:
        self._inner = inner
        self._over = over

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if response.status_code == HTTPStatus.NOT_FOUND and _SESSION in request.headers:
            self._over("it knows the session no longer")
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _BoundedStream(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_MESSAGE
        async for chunk in self._inner:
            left -= len(chunk)
            if left < 0:
                raise httpx2.ReadError(f"the server sent a message of more than {MAX_MESSAGE:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
