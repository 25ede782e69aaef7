"""One page of the web: within a time, up to a size, and from public addresses alone."""

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
from deputy_agents.web.address import Resolver, Target, addresses_of, look_up, target_of

if TYPE_CHECKING:
    import httpx2

TIMEOUT = 30.0
"""Seconds that one page may take, redirects included."""

CONNECT_TIMEOUT = 10.0
MAX_BYTES = 5 * 1024 * 1024
"""Bytes of a page that are read, unpacked."""

MAX_REDIRECTS = 5
MAX_ADDRESSES = 3
"""Addresses of a host that are tried."""

_HEADERS = {"User-Agent": "Deputy (web_fetch)", "Accept": "text/markdown, text/html, text/*;q=0.9, */*;q=0.5"}


@dataclass(frozen=True, slots=True)
class Response:
    """A page. ``whole`` is false when it was longer than what is read."""

    url: str
    data: bytes
    content_type: str
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The page is at ``url``, on a site that was not asked about."""

    url: str


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Reads pages. ``allow_private`` says at each read whether addresses that are not public may be read."""

    allow_private: Callable[[], bool] = lambda: False
    resolve: Resolver = field(default=look_up)

    async def get(self, url: str) -> Response | Elsewhere:
        """The page at ``url``; redirects are followed on the same site.

        Raises:
            ToolError: it cannot be read.
        """
        target = site = target_of(url)
        try:
            with anyio.fail_after(TIMEOUT):
                for _ in range(MAX_REDIRECTS + 1):
                    answer = await self._step(target)
                    if isinstance(answer, Response):
                        return answer
                    target = target_of(answer.url)
                    if target.site != site.site:
                        return answer
        except TimeoutError:
            raise ToolError(f"{site.site} did not answer within {TIMEOUT:g} s.") from None
        raise ToolError(f"{site.site} redirects without end.")

    async def _step(self, target: Target) -> Response | Elsewhere:
        import httpx2  # late, as few agents read the web

        try:
            async with self._sent(target) as response:
                if response.is_redirect:
                    return Elsewhere(urljoin(target.url, response.headers["location"]))
                return await _read(target, response)
        except httpx2.TimeoutException:
            raise TimeoutError from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise ToolError(f"{target.site} cannot be read: {_reason(error)}.") from None

    @asynccontextmanager
    async def _sent(self, target: Target) -> "AsyncGenerator[httpx2.Response]":
        addresses = await addresses_of(target, self.resolve, private=self.allow_private())
        proxy = _proxy(target)
        async with await to_thread.run_sync(_client, proxy) as client:
            # A proxy looks the name up by itself, and may know names that are not known here.
            tried = [None] if proxy else addresses[:MAX_ADDRESSES]
            response = await _first(client, target, tried)
            try:
                yield response
            finally:
                await response.aclose()


async def _first(client: "httpx2.AsyncClient", target: Target, addresses: Sequence[str | None]) -> "httpx2.Response":
    """The answer of the first address that can be reached."""
    import httpx2

    refused: Exception = OSError("its name was not found")
    for address in addresses:
        try:
            return await client.send(_request(client, target, address), stream=True)
        except httpx2.ConnectError as error:
            refused = error
    raise refused


def _request(client: "httpx2.AsyncClient", target: Target, address: str | None) -> "httpx2.Request":
    """Asks ``address``, which was checked, for what is at ``target``: its name stands in the request, and must stand in
    the certificate."""
    import httpx2

    url = httpx2.URL(target.url)
    if address is None:
        return client.build_request("GET", url)
    headers = {"Host": url.netloc.decode()}
    pinned = url.copy_with(host=address)
    return client.build_request("GET", pinned, headers=headers, extensions={"sni_hostname": target.host})


async def _read(target: Target, response: "httpx2.Response") -> Response:
    status = response.status_code
    if status >= HTTPStatus.BAD_REQUEST:
        raise ToolError(f"{target.site} answered {status} {visible(response.reason_phrase)}".rstrip() + ".")
    data = bytearray()
    async for piece in response.aiter_bytes():
        data += piece
        if len(data) > MAX_BYTES:
            break
    content_type = response.headers.get("content-type", "")
    return Response(target.url, bytes(data[:MAX_BYTES]), content_type, whole=len(data) <= MAX_BYTES)


def _proxy(target: Target) -> str | None:
    """The proxy of the environment for ``target``, unless its host is to be asked directly."""
    from urllib.request import getproxies, proxy_bypass

    return None if proxy_bypass(target.host) else getproxies().get(target.scheme) or getproxies().get("all")


def _client(proxy: str | None) -> "httpx2.AsyncClient":
    """A client for one page: it has no cookies, and no key of the environment. Reads the certificates of the system."""
    import httpx2

    timeout = httpx2.Timeout(TIMEOUT, connect=CONNECT_TIMEOUT)
    return httpx2.AsyncClient(proxy=proxy, trust_env=False, timeout=timeout, headers=_HEADERS)


def _reason(error: Exception) -> str:
    return cut(visible(str(error) or type(error).__name__), 300).rstrip(".")
