"""The proxy of a sandboxed command: the only way out of its network, to listed hosts alone.

The command connects to a socket in the network of the sandbox, which the server listens on. The server resolves the
name, as for ``web_fetch``: private addresses are rejected, and the connection goes to an address that was checked.
"""

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import anyio

from deputy_agents.domain.errors import ToolError
from deputy_agents.shell.refusal import NETWORK, refusal_line
from deputy_agents.web.address import WebAddress, parse_url, resolve_addresses, resolve_host

_MAX_HEAD: Final = 64 * 1024
_HEAD_TIMEOUT: Final = 30.0
_CONNECT_TIMEOUT: Final = 15.0
_CHUNK: Final = 64 * 1024
_MAX_CONNECTIONS: Final = 64
_OWN_FIELDS: Final = (b"host:", b"connection:", b"keep-alive:", b"proxy-")
"""Fields of a request that are for the proxy, or that it writes itself."""


class HostProxy:
    """Connects to ``hosts``: names, ``*.name`` for every name below it, each with a port if it is not 80 or 443.
    ``private`` also allows addresses of this machine and of private networks."""

    def __init__(self, hosts: Sequence[str], *, private: bool = False) -> None:
        self._hosts = hosts
        self._private = private
        self._slots = asyncio.Semaphore(_MAX_CONNECTIONS)
        self._running: set[asyncio.Task[None]] = set()
        self.refused: dict[str, None] = {}
        """Lines about what was refused, as the broker writes them."""

    async def serve(self, listening: socket.socket) -> None:
        """Serve until cancelled; closes the socket and all connections."""
        server = await asyncio.start_server(self._serve_one, sock=listening, limit=_MAX_HEAD)
        try:
            async with server:
                await anyio.sleep_forever()
        finally:
            for task in self._running:
                task.cancel()
            if self._running:
                with anyio.CancelScope(shield=True):
                    await asyncio.wait(self._running)

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            async with self._slots:
                with suppress(OSError, EOFError, asyncio.LimitOverrunError, TimeoutError):
                    await self._forward(reader, writer)
        except asyncio.CancelledError:
            return  # the streams would log it
        finally:
            writer.close()
            self._running.discard(task)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with anyio.fail_after(_HEAD_TIMEOUT):
            head = await reader.readuntil(b"\r\n\r\n")
        try:
            target, first = _parse(head)
            if not self._is_listed(target):
                raise ToolError(f"{target.site} is not in the setting shell.sandboxHosts.")
            addresses = await resolve_addresses(target, resolve_host, private=self._private)
        except ToolError as error:
            self._note(head)
            writer.write(_response(403, "Forbidden", str(error)))
            await writer.drain()
            return
        upstream = await _connect(addresses, target.port)
        if upstream is None:
            writer.write(_response(502, "Bad Gateway", f"No connection to {target.site}."))
            await writer.drain()
            return
        there, back = upstream[1], upstream[0]
        try:
            if first is None:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                there.write(first)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_copy, reader, there)
                tasks.start_soon(_copy, back, writer)
        finally:
            there.close()

    def _is_listed(self, target: WebAddress) -> bool:
        return any(
            target.site == host or (host.startswith("*.") and target.site.endswith(host[1:]))
            for host in map(str.lower, self._hosts)
        )

    def _note(self, head: bytes) -> None:
        words = head.split(b"\r\n", 1)[0].decode("ascii", "replace").split(" ")
        if len(self.refused) < _MAX_CONNECTIONS and len(words) > 1:
            self.refused[refusal_line(NETWORK, words[1][:200])] = None


def _parse(head: bytes) -> tuple[WebAddress, bytes | None]:
    """The target of a request, and the request as its server expects it; ``None`` for a tunnel.

    Raises:
        ToolError: it is no valid request.
    """
    line, *fields = head[:-4].split(b"\r\n")
    words = line.split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        raise ToolError("This is no request for an HTTP proxy.")
    text = words[1].decode("ascii", "replace")
    if words[0] == b"CONNECT":
        host, _, port = text.rpartition(":")
        return parse_url(f"https://{host}:{port}/" if port != "80" else f"http://{host}/"), None
    target = parse_url(text)
    if target.scheme != "http":
        raise ToolError("Use CONNECT for https.")
    path = b"/" + words[1].split(b"/", 3)[3] if words[1].count(b"/") > 2 else b"/"
    kept = [field for field in fields if not field.lower().startswith(_OWN_FIELDS)]
    own = [b"Host: " + target.authority.encode(), b"Connection: close"]
    return target, b"\r\n".join([b" ".join((words[0], path, words[2])), *own, *kept, b"", b""])


def _response(code: int, reason: str, text: str) -> bytes:
    body = f"{text}\n".encode(errors="replace")
    return f"HTTP/1.1 {code} {reason}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


async def _connect(addresses: Sequence[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    """A connection to the first of ``addresses`` that accepts one."""
    with anyio.move_on_after(_CONNECT_TIMEOUT):
        for address in addresses:
            with suppress(OSError):
                return await asyncio.open_connection(address, port)
    return None


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the end, and pass the end on."""
    with suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
