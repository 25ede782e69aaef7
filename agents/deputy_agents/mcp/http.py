"""Connections to MCP servers by streamable HTTP. The size of each event and each other response is limited."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any

import anyio
import httpx2
from anyio import to_thread
from mcp.client.streamable_http import streamable_http_client

from deputy_agents.web.connect import LimitedTransport, environment_proxy

MAX_MESSAGE = 8 * 1024 * 1024
"""Maximum bytes per message."""

_SESSION = "mcp-session-id"
_TIMEOUT = httpx2.Timeout(30, read=300)
"""Seconds; an event stream may be silent for a long time."""
_UNCOMPRESSED: Mapping[str, str] = {"Accept-Encoding": "identity"}
"""Without compression, the size of a response is known while it is received."""
_DELETE_TIMEOUT = 1.0
"""Seconds to delete the session on the MCP server."""
_INTERNAL_ERROR = -32603


@asynccontextmanager
async def http_transport(
    url: str, headers: Mapping[str, str], on_end: Callable[[str], None], auth: httpx2.Auth | None = None
) -> AsyncGenerator[AbstractAsyncContextManager[tuple[Any, Any]]]:
    """The library's transport with Deputy's HTTP client. ``auth`` signs requests. ``on_end`` is called if the MCP
    server has lost the session, for instance after a restart. On exit the session is deleted, which the library skips
    when it is cancelled."""
    connections = await to_thread.run_sync(LimitedTransport, environment_proxy(url))
    transport = _LimitedResponses(connections, on_end)
    async with httpx2.AsyncClient(
        headers={**_UNCOMPRESSED, **headers}, auth=auth, timeout=_TIMEOUT, transport=transport, trust_env=False
    ) as http:
        try:
            yield streamable_http_client(
                url, http_client=http, terminate_on_close=False, max_sse_event_size=MAX_MESSAGE
            )
        finally:
            with anyio.move_on_after(_DELETE_TIMEOUT, shield=True), suppress(httpx2.HTTPError):
                if transport.session:
                    await http.delete(url, headers=transport.session)


class _LimitedResponses(httpx2.AsyncBaseTransport):
    """Limits the size of responses that are not event streams; the library limits events. An error response without a
    protocol error gets one with the HTTP status."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, on_end: Callable[[str], None]) -> None:
        self.session: Mapping[str, str] = {}
        """The session's headers; empty before it starts."""
        self._inner = inner
        self._on_end = on_end

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if _SESSION in request.headers:
            self.session = {name: value for name, value in request.headers.items() if name.startswith("mcp-")}
        if response.status_code == HTTPStatus.NOT_FOUND and _SESSION in request.headers:
            self.session = {}
            self._on_end("its session has expired")
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx2.ReadError("the MCP server sent a compressed response, which was not requested")
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _LimitedStream(response.stream)
        return await _protocol_error(response, request) if request.method == "POST" and response.is_error else response

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _protocol_error(response: httpx2.Response, request: httpx2.Request) -> httpx2.Response:
    """``response`` if it contains an error of the protocol, or else one with such an error."""
    body = await response.aread()
    await response.aclose()
    with suppress(ValueError):
        if isinstance(message := json.loads(body), dict) and "jsonrpc" in message:
            return response
    status = f"HTTP {response.status_code} {response.reason_phrase}".rstrip()
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": _INTERNAL_ERROR, "message": status}}
    return httpx2.Response(response.status_code, json=error, request=request)


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        remaining = MAX_MESSAGE
        async for chunk in self._inner:
            remaining -= len(chunk)
            if remaining < 0:
                raise httpx2.ReadError(f"the MCP server sent a message of more than {MAX_MESSAGE:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
