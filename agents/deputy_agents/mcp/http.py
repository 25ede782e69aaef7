"""A server that is reached by streamable HTTP. What it sends is bounded: a single event, or an answer that is none."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client

MAX_MESSAGE = 8 * 1024 * 1024
"""Bytes of one message."""

_SESSION = "mcp-session-id"
_TIMEOUT = httpx2.Timeout(30, read=300)
"""Seconds; a stream of events may be silent for long."""
_FAREWELL = 1.0
"""Seconds that the server may take to forget the session."""
_INTERNAL_ERROR = -32603


@asynccontextmanager
async def http_transport(
    url: str, headers: Mapping[str, str], over: Callable[[str], None]
) -> AsyncGenerator[AbstractAsyncContextManager[tuple[Any, Any]]]:
    """The library's transport, over a client of ours. When the server knows the session no longer, as after it was
    started anew, ``over`` is called with that. At its end the server is told to forget the session, which the library
    does not do where it is cancelled."""
    transport = _Bounded(httpx2.AsyncHTTPTransport(), over)
    async with httpx2.AsyncClient(headers=dict(headers), timeout=_TIMEOUT, transport=transport) as http:
        try:
            yield streamable_http_client(
                url, http_client=http, terminate_on_close=False, max_sse_event_size=MAX_MESSAGE
            )
        finally:
            with anyio.move_on_after(_FAREWELL, shield=True), suppress(httpx2.HTTPError):
                if transport.session:
                    await http.delete(url, headers=transport.session)


class _Bounded(httpx2.AsyncBaseTransport):
    """Ends an answer that is no stream of events when it is too long; events are bounded by the library. A refusal says
    its status, where the server has not said more in the words of the protocol."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, over: Callable[[str], None]) -> None:
        self.session: Mapping[str, str] = {}
        """The headers of the session, once there is one."""
        self._inner = inner
        self._over = over

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if _SESSION in request.headers:
            self.session = {name: value for name, value in request.headers.items() if name.startswith("mcp-")}
        if response.status_code == HTTPStatus.NOT_FOUND and _SESSION in request.headers:
            self.session = {}
            self._over("it knows the session no longer")
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _BoundedStream(response.stream)
        return await _refusal(response, request) if request.method == "POST" and response.is_error else response

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _refusal(response: httpx2.Response, request: httpx2.Request) -> httpx2.Response:
    """``response`` if it tells an error of the protocol, or one that does."""
    body = await response.aread()
    await response.aclose()
    with suppress(ValueError):
        if isinstance(told := json.loads(body), dict) and "jsonrpc" in told:
            return response
    words = f"HTTP {response.status_code} {response.reason_phrase}".rstrip()
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": _INTERNAL_ERROR, "message": words}}
    return httpx2.Response(response.status_code, json=error, request=request)


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
