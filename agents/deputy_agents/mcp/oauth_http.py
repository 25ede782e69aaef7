"""HTTP requests for signing in at MCP servers. What a server names leads only to public addresses, or to its own."""

import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

import anyio
import httpx2
from anyio import to_thread

from deputy_agents.domain.errors import ToolError
from deputy_agents.web.address import (
    Resolver,
    WebAddress,
    is_local_name,
    is_loopback,
    is_public,
    parse_url,
    resolve_addresses,
    resolve_host,
)
from deputy_agents.web.connect import CONNECT_LIMIT, SECONDS, LimitedTransport, environment_proxy

MAX_BODY = 1024 * 1024
"""Bytes of a response."""
TIMEOUT = httpx2.Timeout(30)
"""Seconds."""

# The library logs the answers of authorization servers with its errors, and they may contain tokens.
logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL + 1)


class NotAllowed(httpx2.RequestError):
    """An MCP server names an address that must not be used. The message says which, and why."""


def oauth_client(
    server: str, auth: httpx2.Auth | None = None, resolve: Resolver = resolve_host
) -> AbstractAsyncContextManager[httpx2.AsyncClient]:
    """A client for the MCP server at ``server``, which the user has configured, and the authorization server that it
    names. It follows no redirects."""
    return httpx2.AsyncClient(
        transport=_Guarded(parse_url(server), resolve), auth=auth, timeout=TIMEOUT, trust_env=False
    )


def check_address(url: str, server: WebAddress) -> WebAddress:
    """Checks the form of an address that ``server`` names.

    Raises:
        NotAllowed: it is not encrypted, or it is on this machine while ``server`` is not.
    """
    try:
        target = parse_url(url)
    except ToolError:
        raise NotAllowed("it names an address that is not valid") from None
    if _same_origin(target, server) or (is_loopback(target.host) and is_loopback(server.host)):
        return target
    if target.scheme != "https":
        raise NotAllowed(f"it names {target.site}, without encryption")
    address = ":" in target.host or target.host.replace(".", "").isdigit()
    if is_local_name(target.host) or (address and not is_public(target.host)):
        raise NotAllowed(f"it names {target.site}, which is this machine or in a private network")
    return target


def _same_origin(one: WebAddress, other: WebAddress) -> bool:
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


class _Guarded(httpx2.AsyncBaseTransport):
    """Sends requests to the origin of ``server`` as they are, and others only to checked addresses."""

    def __init__(self, server: WebAddress, resolve: Resolver) -> None:
        self._server = server
        self._resolve = resolve
        self._transports: dict[str | None, LimitedTransport] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        target = check_address(str(request.url), self._server)
        proxy = environment_proxy(f"{target.scheme}://{target.authority}")
        transport = await self._transport(proxy)
        own = _same_origin(target, self._server) or is_loopback(target.host)
        if not own:
            address = await self._public_address(target)
            if address is None and proxy is None:
                raise httpx2.ConnectError(f"could not connect to {target.site}: name not found")
            if proxy is None and address is not None:
                request = _pinned(request, target, address)
        response = await transport.handle_async_request(request)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            await _limit(response)
        return response

    async def aclose(self) -> None:
        for transport in self._transports.values():
            await transport.aclose()

    async def _transport(self, proxy: str | None) -> LimitedTransport:
        if proxy not in self._transports:
            self._transports[proxy] = await to_thread.run_sync(LimitedTransport, proxy)
        return self._transports[proxy]

    async def _public_address(self, target: WebAddress) -> str | None:
        """An address of ``target``; ``None`` if this machine cannot resolve its name, as a proxy may."""
        found: Sequence[str] = ()
        with anyio.move_on_after(CONNECT_LIMIT):
            try:
                found = await resolve_addresses(target, self._resolve, private=False)
            except ToolError:
                raise NotAllowed(f"it names {target.site}, which is this machine or in a private network") from None
        return found[0] if found else None


def _pinned(request: httpx2.Request, target: WebAddress, address: str) -> httpx2.Request:
    """``request``, to the checked ``address``. The certificate must match the name."""
    request.headers["Host"] = target.authority
    request.extensions = {**request.extensions, "sni_hostname": target.host, SECONDS: CONNECT_LIMIT}
    request.url = request.url.copy_with(host=address)
    return request


async def _limit(response: httpx2.Response) -> None:
    """Reads a response that is not too long."""
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_BODY:
            await response.aclose()
            raise httpx2.ReadError("the response is too long")
    response.stream = httpx2.ByteStream(bytes(body))
    response.is_stream_consumed = False
    response.is_closed = False
