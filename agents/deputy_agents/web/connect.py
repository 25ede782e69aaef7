"""HTTP connections with one limit for name lookup, TCP and TLS together, and errors that name the URL and the cause.

Import this module late: it loads the HTTP client.
"""

import os
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, cast
from urllib.request import getproxies, proxy_bypass

import anyio
import httpx2

from deputy_agents.web.address import is_loopback

CONNECT_LIMIT = 5.0
"""Seconds to establish a connection."""

SECONDS = "connect_seconds"
"""The extension of a request with its own limit."""

_NO_NAME = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
_MAX_REASON = 200
_LIMITS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
_KEEP_ALIVE: Sequence[tuple[int, int, int]] = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 60), ("TCP_KEEPCNT", 5))
        if hasattr(socket, name)
    ),
)
"""A peer that disappears during a long reply is noticed after minutes."""
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables that name the certificates to trust."""


class Unreachable(httpx2.ConnectError):
    """No connection. The message names the URL and the cause. ``permanent``: another attempt fails in the same way,
    because the other side cannot prove who it is."""

    def __init__(self, url: str, cause: str, *, permanent: bool = False) -> None:
        super().__init__(f"could not connect to {url}: {cause}")
        self.cause = cause
        self.permanent = permanent


class CertificatesMissing(OSError):
    """The certificates that the environment names cannot be read."""

    def __init__(self, cause: str) -> None:
        named = (f"{os.environ[name]}, named by {name}" for name in _CERTIFICATES if os.environ.get(name))
        super().__init__(f"the certificates cannot be read from {next(named, 'the system')}: {cause}")


class LimitedTransport(httpx2.AsyncBaseTransport):
    """A transport that has ``seconds`` (:data:`CONNECT_LIMIT`) to establish a connection, directly or through
    ``proxy``, and raises :class:`Unreachable`. The limit ends when the request is sent. The constructor blocks, because
    it loads the certificates of the system, and raises :class:`CertificatesMissing`."""

    def __init__(self, proxy: str | None = None, seconds: float | None = None) -> None:
        try:
            self._inner = httpx2.AsyncHTTPTransport(proxy=proxy, limits=_LIMITS, socket_options=_KEEP_ALIVE)
        except OSError as error:
            raise CertificatesMissing(_words(error)) from None
        self._proxy = f" through the proxy {_origin(httpx2.URL(proxy))}" if proxy else ""
        self._seconds = CONNECT_LIMIT if seconds is None else seconds
        self._missing = _missing_certificates()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        seconds = float(request.extensions.get(SECONDS, self._seconds))
        with anyio.CancelScope() as scope:
            trace = _Trace(scope, seconds)
            request.extensions = {**request.extensions, "trace": trace}
            try:
                return await self._inner.handle_async_request(request)
            except httpx2.ConnectTimeout:
                raise self._late(request, seconds) from None
            except (httpx2.ConnectError, httpx2.ProxyError) as error:
                cause, permanent = _cause(error)
                if permanent:
                    cause += self._missing
                raise Unreachable(self._shown(request), cause, permanent=permanent) from None
            finally:
                await trace.close()
        raise self._late(request, seconds)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _shown(self, request: httpx2.Request) -> str:
        return f"{_origin(request.url)}{self._proxy}"

    def _late(self, request: httpx2.Request, seconds: float) -> Unreachable:
        return Unreachable(self._shown(request), f"no connection within {seconds:.3g} s")


class _Trace:
    """Sets the deadline of ``scope`` while a connection is being established."""

    def __init__(self, scope: anyio.CancelScope, seconds: float) -> None:
        self._scope = scope
        self._seconds = seconds
        self._stream: _Closable | None = None

    async def __call__(self, event: str, details: Mapping[str, object]) -> None:
        if event.endswith("connect_tcp.started"):
            self._scope.deadline = anyio.current_time() + self._seconds
        elif event.endswith("connect_tcp.complete"):
            self._stream = cast("_Closable", details["return_value"])
        elif event.endswith("send_request_headers.started") and not _opens_tunnel(details):
            self._scope.deadline = float("inf")
            self._stream = None

    async def close(self) -> None:
        """Close the connection unless the request was sent: the library leaves it open if it is cancelled."""
        if self._stream is not None:
            with anyio.CancelScope(shield=True):
                await self._stream.aclose()


class _Closable(Protocol):
    async def aclose(self) -> None: ...


def _opens_tunnel(details: Mapping[str, object]) -> bool:
    """Whether a request asks a proxy for a tunnel, which is part of establishing the connection."""
    return getattr(details.get("request"), "method", b"") == b"CONNECT"


def environment_proxy(url: str) -> str | None:
    """The proxy of the environment for ``url``; ``None`` for a direct connection. A proxy cannot reach this machine."""
    parsed = httpx2.URL(url)
    if is_loopback(parsed.host) or proxy_bypass(parsed.host):
        return None
    proxies = getproxies()
    found = proxies.get(parsed.scheme) or proxies.get("all")
    return found if not found or "://" in found else f"http://{found}"


def _cause(error: Exception) -> tuple[str, bool]:
    """Why a connection failed, and whether another attempt would fail in the same way."""
    for one in _chain(error):
        match one:
            case ssl.SSLCertVerificationError():
                return f"its certificate is not valid ({one.verify_message.rstrip('.')})", True
            case ssl.SSLError():
                return f"the TLS handshake failed ({_words(one)})", False
            case ConnectionRefusedError():
                return "connection refused", False
            case socket.gaierror():
                return "name not found" if one.errno in _NO_NAME else f"name lookup failed ({_words(one)})", False
            case OSError() if one.errno:
                return _words(one), False
            case _:
                pass
    return _words(error), False


def _missing_certificates() -> str:
    """A variable that names certificates which do not exist, if there is one."""
    for name in _CERTIFICATES:
        paths = os.environ.get(name, "").split(os.pathsep)
        if paths != [""] and not any(map(os.path.exists, paths)):
            return f"; {name} names {os.environ[name]}, which does not exist"
    return ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """``error`` and its causes, the first cause of a group first."""
    current: BaseException | None = error
    while current is not None:
        yield current
        if isinstance(current, BaseExceptionGroup):
            current = cast("BaseExceptionGroup[BaseException]", current).exceptions[0]
        else:
            current = current.__cause__ or current.__context__


def _words(error: BaseException) -> str:
    match error:
        case ssl.SSLError() if error.reason:
            text = error.reason.replace("_", " ").lower()
        case OSError() if error.errno and not isinstance(error, socket.gaierror):
            text = os.strerror(error.errno).lower()
        case _:
            text = str(error) or type(error).__name__
    return text[:_MAX_REASON].rstrip(".")


def _origin(url: httpx2.URL) -> str:
    """``url`` without what may be secret: user name, password, path and query."""
    return str(httpx2.URL(scheme=url.scheme, host=url.host, port=url.port))
