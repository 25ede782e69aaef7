"""Fetches one web page with limits on time and size, from public addresses only."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import anyio
from anyio import to_thread
from anyio.lowlevel import checkpoint

from deputy_agents.domain.errors import ToolError
from deputy_agents.text import cut, visible
from deputy_agents.web.address import Resolver, WebAddress, parse_url, resolve_addresses, resolve_host

if TYPE_CHECKING:
    import httpx2

TIMEOUT = 30.0
"""Limit for one page in seconds, including redirects."""

MAX_BYTES = 5 * 1024 * 1024
"""Limit of a page in bytes, uncompressed."""

MAX_REDIRECTS = 5
MAX_ADDRESSES = 3
"""Number of addresses of a host that are tried."""

MAX_URL = 4000
"""Characters of the URL of a redirect."""

_ENCODINGS = ("gzip", "deflate")
_HEADERS = {
    "User-Agent": "Deputy (web_fetch)",
    "Accept": "text/markdown, text/html, text/*;q=0.9, */*;q=0.5",
    "Accept-Encoding": ", ".join(_ENCODINGS),
}


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
                    return OtherSite(_location(target, response))
                return await _read(target, response)
        except httpx2.TimeoutException:
            raise TimeoutError from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise ToolError(f"{target.site} cannot be read: {_reason(error)}.") from None

    @asynccontextmanager
    async def _send(self, target: WebAddress) -> "AsyncGenerator[httpx2.Response]":
        proxy = _proxy(target)
        async with await to_thread.run_sync(_client, proxy) as client:
            response = await self._first_response(client, target, has_proxy=proxy is not None)
            try:
                yield response
            finally:
                await response.aclose()

    async def _first_response(
        self, client: "httpx2.AsyncClient", target: WebAddress, *, has_proxy: bool
    ) -> "httpx2.Response":
        """The response of the first address that can be reached. The limit of a connection includes the lookup of the
        name and all addresses."""
        from deputy_agents.web.connect import CONNECT_LIMIT, Unreachable

        deadline = anyio.current_time() + CONNECT_LIMIT
        addresses: Sequence[str] = ()
        failure = "the name was not found"
        with anyio.move_on_at(deadline) as lookup:
            addresses = await resolve_addresses(target, self.resolve, private=self.allow_private())
        if lookup.cancelled_caught:
            failure = f"the name was not found within {CONNECT_LIMIT:g} s"
        # A proxy resolves the name itself, and may resolve names that this machine cannot.
        candidates = [None] if has_proxy else addresses[:MAX_ADDRESSES]
        for index, address in enumerate(candidates):
            seconds = max(0.1, deadline - anyio.current_time()) / (len(candidates) - index)
            try:
                return await client.send(_request(client, target, address, seconds), stream=True)
            except Unreachable as error:
                failure = f"could not connect to {target.scheme}://{target.authority}: {error.cause}"
        raise OSError(failure)


def _location(target: WebAddress, response: "httpx2.Response") -> str:
    """Where a redirect leads. Raises ToolError."""
    location = response.headers.get("location", "")
    try:
        url = urljoin(target.url, location) if location else ""
    except ValueError:
        url = ""
    if not url or len(url) > MAX_URL:
        raise ToolError(f"{target.site} redirects ({response.status_code}) without a usable address.")
    return url


def _request(client: "httpx2.AsyncClient", target: WebAddress, address: str | None, seconds: float) -> "httpx2.Request":
    """A request for ``target`` to the checked ``address``. The host name is in the request, and the certificate must
    match it."""
    import httpx2

    from deputy_agents.web.connect import SECONDS

    url = httpx2.URL(target.url).copy_with(host=address or target.host)
    headers = {"Host": target.authority}
    return client.build_request("GET", url, headers=headers, extensions={"sni_hostname": target.host, SECONDS: seconds})


async def _read(target: WebAddress, response: "httpx2.Response") -> FetchedPage:
    status = response.status_code
    if status >= HTTPStatus.BAD_REQUEST:
        raise ToolError(f"{target.site} returned {status} {visible(response.reason_phrase)}".rstrip() + ".")
    encodings = [name.strip().lower() for name in response.headers.get_list("content-encoding", split_commas=True)]
    if len(encodings) > 1 or any(name not in (*_ENCODINGS, "identity") for name in encodings):
        raise ToolError(f"{target.site} sent the page in an encoding that was not requested.")
    data = bytearray()
    async for piece in response.aiter_bytes():
        data += piece
        if len(data) > MAX_BYTES:
            break
        await checkpoint()  # many small pieces can arrive at once
    content_type = response.headers.get("content-type", "")
    return FetchedPage(target.url, bytes(data[:MAX_BYTES]), content_type, complete=len(data) <= MAX_BYTES)


def _proxy(target: WebAddress) -> str | None:
    """The proxy of the environment for ``target``; ``None`` for a direct connection."""
    from deputy_agents.web.connect import environment_proxy

    return environment_proxy(f"{target.scheme}://{target.authority}")


def _client(proxy: str | None) -> "httpx2.AsyncClient":
    """A client for one page, without cookies and without credentials from the environment. Blocks: it loads the
    certificates of the system."""
    import httpx2

    from deputy_agents.web.connect import LimitedTransport

    transport = LimitedTransport(proxy)
    return httpx2.AsyncClient(transport=transport, trust_env=False, timeout=httpx2.Timeout(TIMEOUT), headers=_HEADERS)


def _reason(error: Exception) -> str:
    return cut(visible(str(error) or type(error).__name__), 300).rstrip(".")
