"""Fetches one web page with limits on time and size, from public addresses only."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import anyio
from anyio import to_thread

from deputy_agents.domain.errors import ToolError
from deputy_agents.text import cut, visible
from deputy_agents.web.address import Resolver, WebAddress, parse_url, resolve_addresses, resolve_host

if TYPE_CHECKING:
    import httpx2

TIMEOUT = 30.0
"""Limit for one page in seconds, including redirects."""

CONNECT_TIMEOUT = 10.0
MAX_BYTES = 5 * 1024 * 1024
"""Limit of a page in bytes, uncompressed."""

MAX_REDIRECTS = 5
MAX_ADDRESSES = 3
"""Number of addresses of a host that are tried."""

_HEADERS = {"User-Agent": "Deputy (web_fetch)", "Accept": "text/markdown, text/html, text/*;q=0.9, */*;q=0.5"}


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A page. ``complete`` is false if it was longer than ``MAX_BYTES``."""

    url: str
    data: bytes
    content_type: str
    complete: bool = True


@dataclass(frozen=True, slots=True)
class OtherSite:
    """A redirect to ``url``, on a site that was not approved."""

    url: str


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches pages. ``allow_private`` returns, at each fetch, whether addresses that are not public are allowed."""

    allow_private: Callable[[], bool] = lambda: False
    resolve: Resolver = field(default=resolve_host)

    async def get(self, url: str) -> FetchedPage | OtherSite:
        """Fetch the page at ``url``; redirects on the same site are followed.

        Raises:
            ToolError: the page cannot be read.
        """
        target = site = parse_url(url)
        try:
            with anyio.fail_after(TIMEOUT):
                for _ in range(MAX_REDIRECTS + 1):
                    result = await self._request_once(target)
                    if isinstance(result, FetchedPage):
                        return result
                    target = parse_url(result.url)
                    if target.site != site.site:
                        return result
        except TimeoutError:
            raise ToolError(f"{site.site} did not respond within {TIMEOUT:g} s.") from None
        raise ToolError(f"{site.site} redirects too often.")

    async def _request_once(self, target: WebAddress) -> FetchedPage | OtherSite:
        import httpx2  # imported late because few agents use the web

        try:
            async with self._send(target) as response:
                if response.is_redirect:
                    return OtherSite(urljoin(target.url, response.headers["location"]))
                return await _read(target, response)
        except httpx2.TimeoutException:
            raise TimeoutError from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise ToolError(f"{target.site} cannot be read: {_reason(error)}.") from None

    @asynccontextmanager
    async def _send(self, target: WebAddress) -> "AsyncGenerator[httpx2.Response]":
        addresses = await resolve_addresses(target, self.resolve, private=self.allow_private())
        proxy = _proxy(target)
        async with await to_thread.run_sync(_client, proxy) as client:
            # A proxy resolves the name itself, and may resolve names that this machine cannot.
            candidates = [None] if proxy else addresses[:MAX_ADDRESSES]
            response = await _first_response(client, target, candidates)
            try:
                yield response
            finally:
                await response.aclose()


async def _first_response(
    client: "httpx2.AsyncClient", target: WebAddress, addresses: Sequence[str | None]
) -> "httpx2.Response":
    """The response of the first address that can be reached."""
    import httpx2

    failure: Exception = OSError("the name was not found")
    for address in addresses:
        try:
            return await client.send(_request(client, target, address), stream=True)
        except httpx2.ConnectError as error:
            failure = error
    raise failure


def _request(client: "httpx2.AsyncClient", target: WebAddress, address: str | None) -> "httpx2.Request":
    """A request for ``target`` to the checked ``address``. The host name is in the request, and the certificate must
    match it."""
    import httpx2

    url = httpx2.URL(target.url)
    if address is None:
        return client.build_request("GET", url)
    headers = {"Host": url.netloc.decode()}
    pinned = url.copy_with(host=address)
    return client.build_request("GET", pinned, headers=headers, extensions={"sni_hostname": target.host})


async def _read(target: WebAddress, response: "httpx2.Response") -> FetchedPage:
    status = response.status_code
    if status >= HTTPStatus.BAD_REQUEST:
        raise ToolError(f"{target.site} returned {status} {visible(response.reason_phrase)}".rstrip() + ".")
    data = bytearray()
    async for piece in response.aiter_bytes():
        data += piece
        if len(data) > MAX_BYTES:
            break
    content_type = response.headers.get("content-type", "")
    return FetchedPage(target.url, bytes(data[:MAX_BYTES]), content_type, complete=len(data) <= MAX_BYTES)


def _proxy(target: WebAddress) -> str | None:
    """The proxy from the environment for ``target``; ``None`` for a direct connection."""
    from urllib.request import getproxies, proxy_bypass

    return None if proxy_bypass(target.host) else getproxies().get(target.scheme) or getproxies().get("all")


def _client(proxy: str | None) -> "httpx2.AsyncClient":
    """A client for one page, without cookies and without credentials from the environment. Blocks: it loads the
    certificates of the system."""
    import httpx2

    timeout = httpx2.Timeout(TIMEOUT, connect=CONNECT_TIMEOUT)
    return httpx2.AsyncClient(proxy=proxy, trust_env=False, timeout=timeout, headers=_HEADERS)


def _reason(error: Exception) -> str:
    return cut(visible(str(error) or type(error).__name__), 300).rstrip(".")
