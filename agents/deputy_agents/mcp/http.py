"""A server that is reached by streamable HTTP. What it sends is bounded: a single event, or an answer that is none."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

MAX_MESSAGE = 8 * 1024 * 1024
"""Bytes of one message."""

_TIMEOUT = httpx2.Timeout(30, read=300)
"""Seconds; a stream of events may be silent for long."""


@asynccontextmanager
async def http_transport(
    url: str, headers: Mapping[str, str]
) -> AsyncGenerator[AbstractAsyncContextManager[tuple[Any, Any]]]:
    """The library's transport, over a client of ours."""
    transport = _Bounded(httpx2.AsyncHTTPTransport())
    async with httpx2.AsyncClient(headers=dict(headers), timeout=_TIMEOUT, transport=transport) as http:
        yield streamable_http_client(url, http_client=http, max_sse_event_size=MAX_MESSAGE)


class _Bounded(httpx2.AsyncBaseTransport):
    """Ends an answer that is no stream of events when it is too long; events are bounded by the library."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
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
