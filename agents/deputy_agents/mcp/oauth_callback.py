"""The address on this machine to which the browser returns after the user has signed in."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from secrets import compare_digest
from typing import Final
from urllib.parse import parse_qs, urlsplit

import anyio
from anyio.abc import SocketAttribute, SocketStream

PATH: Final = "/callback"
_MAX_REQUEST: Final = 16 * 1024
_READ_LIMIT: Final = 10.0
"""Seconds until a browser must have sent its request."""
_CONNECTIONS: Final = 16
"""Connections that are served at the same time."""
_PAGE: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Deputy</title>"
    "<body style='font:16px system-ui;margin:15vh auto;max-width:32em'><h1 style='font-size:1.4em'>{}</h1><p>{}</p>"
)
_PAGES: Final = {
    "ok": ("200 OK", _PAGE.format("You are signed in", "You can close this page and return to Deputy.")),
    "denied": ("200 OK", _PAGE.format("You are not signed in", "The server has not allowed it. Close this page.")),
    "other": ("400 Bad Request", _PAGE.format("Nothing happened", "This page belongs to another or an older sign-in.")),
    "missing": ("404 Not Found", _PAGE.format("Not found", "")),
}


@dataclass(slots=True)
class Returned:
    """What the authorization server has sent with the browser: a ``code``, or the name of an ``error``."""

    code: str = field(default="", repr=False)
    state: str = field(default="", repr=False)
    issuer: str | None = None
    error: str = ""


class Callback:
    """Waits for the browser at :attr:`address`. Requests with another state than :attr:`state` change nothing."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.state = ""
        self._returned: Returned | None = None
        self._done = anyio.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}{PATH}"

    async def returned(self) -> Returned:
        await self._done.wait()
        assert self._returned is not None
        return self._returned

    async def serve(self, stream: SocketStream) -> None:
        with anyio.move_on_after(_READ_LIMIT):
            try:
                status, page = _PAGES[self._answer(await _request_line(stream))]
                head = f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n"
                rules = "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n"
                await stream.send(f"{head}{rules}Content-Length: {len(page.encode())}\r\n\r\n{page}".encode())
            except (anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError):
                return

    def _answer(self, line: str) -> str:
        """The name of the page for a request."""
        method, _, rest = line.partition(" ")
        url = urlsplit(rest.partition(" ")[0])
        if method != "GET" or url.path != PATH:
            return "missing"
        values = {name: value[0] for name, value in parse_qs(url.query).items()}
        state = values.get("state", "")
        if not self.state or not compare_digest(state.encode(), self.state.encode()):
            return "other"
        error = values.get("error", "")
        if self._returned is None:
            self._returned = Returned(values.get("code", ""), state, values.get("iss"), error)
            self._done.set()
        return "denied" if error else "ok"


async def _request_line(stream: SocketStream) -> str:
    data = b""
    while b"\r\n\r\n" not in data and len(data) < _MAX_REQUEST:
        data += await stream.receive()
    return data.partition(b"\r\n")[0].decode("ascii", "replace")


@asynccontextmanager
async def listening(port: int) -> AsyncGenerator[Callback]:
    """Listens on ``port`` of this machine, or on another one if it is in use; 0 is any."""
    try:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    except OSError:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    callback = Callback(listener.extra(SocketAttribute.local_port))  # noqa: S610 - no database
    limiter = anyio.Semaphore(_CONNECTIONS)

    async def serve(stream: SocketStream) -> None:
        async with stream, limiter:
            await callback.serve(stream)

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        try:
            yield callback
        finally:
            with anyio.move_on_after(1, shield=True):  # the browser gets its page
                await anyio.sleep(0.1)
            tasks.cancel_scope.cancel()


def port_of(addresses: object) -> int:
    """The port of the first address that was registered; 0 without one."""
    first = str(addresses[0]) if isinstance(addresses, list) and addresses else ""  # pyright: ignore[reportUnknownArgumentType]
    try:
        url = urlsplit(first)
        return url.port or 0 if url.hostname == "127.0.0.1" and url.path == PATH else 0
    except ValueError:
        return 0
