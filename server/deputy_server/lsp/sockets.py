"""Serve many clients of this machine, over TCP or WebSocket.

Each connection has its own protocol, documents and capabilities. Sessions belong to the process, and all clients see
the same sessions. Clients must send the token. When a client disconnects, its turns continue for as long as it may take
to reconnect.
"""

import asyncio
import json
import logging
import os
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import anyio
from anyio.abc import TaskGroup

from deputy_agents.domain.outcome import CancelReason
from deputy_agents.session.session import Session
from deputy_server.lazy_app import LazyApp
from deputy_server.lsp.admission import Admission, Arrival
from deputy_server.lsp.server import DeputyProtocol, DeputyServer
from deputy_server.rpc.framing import MAX_HEADER_LINE, MAX_MESSAGE, Frames, MessageReader
from deputy_server.rpc.lifecycle import (
    FLUSH_GRACE,
    FORCE_AFTER,
    first_of,
    force_exit_after,
    receive_messages,
    wait_for_signal,
    wait_output_closed,
)
from deputy_server.rpc.logs import log_to
from deputy_server.rpc.writer import HARD_LIMIT, LoopWriter
from deputy_server.serve_options import Address, ServeOptions, Transport

log = logging.getLogger(__name__)

_WAITING_POLL = 1.0
"""Seconds between looks at whether an unwatched session still waits for the user."""
TOKEN_GRACE = 5
"""Seconds in which a client must send the token."""

UNTRUSTED_LIMIT = 4 * 2**20
"""Maximum size of a message, and of unread output, in bytes, until a client has sent the token."""


async def serve(options: ServeOptions) -> int:
    """Serve until a signal arrives; return the exit code of the process."""
    errors = log_to(os.dup(2))
    # pygls logs whole messages, which contain the user's text.
    logging.getLogger("pygls").setLevel(logging.CRITICAL + 1)
    generated = not options.token
    if generated:
        options = replace(options, token=secrets.token_urlsafe(32))
    code = 1
    try:
        async with anyio.create_task_group() as tasks:
            lazy_app = LazyApp(options)
            tasks.start_soon(lazy_app.run)
            clients = Clients(lazy_app, Admission(options.token), tasks)
            try:
                async with _listen(clients, options) as port:
                    _print_address(options, port, with_token=generated)
                    code = await wait_for_signal()
                    force_exit_after(FORCE_AFTER, code)
                    await clients.close()
            except OSError as error:
                log.error("cannot listen: %s", error.strerror or error)
            tasks.cancel_scope.cancel()
    finally:
        await errors.close(FLUSH_GRACE)
    return code


@dataclass(frozen=True, slots=True)
class Untrusted:
    """A connection whose client has not sent the token yet."""

    arrival: Arrival
    frames: Frames


class Clients:
    """The connections of a server, and the sessions whose clients have disconnected."""

    def __init__(self, lazy_app: LazyApp, admission: Admission, tasks: TaskGroup) -> None:
        self.admission = admission
        self._lazy_app = lazy_app
        self._tasks = tasks
        self._open = 0
        self._closing = anyio.Event()
        self._disconnected = anyio.Event()
        self._unwatched_since: dict[str, float] = {}
        """When the last client of a session disconnected, by the clock of the event loop."""

    async def serve(
        self, reader: MessageReader, out: LoopWriter, *, framed: bool, untrusted: "Untrusted | None" = None
    ) -> None:
        """Serve one client until one side ends the connection. An ``untrusted`` client has not sent the token yet."""
        if self._closing.is_set():
            return
        self._open += 1
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(out.run)
                protocol = DeputyServer(self._lazy_app).rpc
                protocol.connect(out, tasks, framed=framed)
                ends: list[Callable[[], Awaitable[int]]] = [
                    lambda: receive_messages(protocol.endpoint, reader),
                    lambda: wait_output_closed(out),
                    self._wait_closing,
                ]
                if untrusted is not None:
                    protocol.admit = untrusted.arrival.admit
                    out.hard_limit = untrusted.frames.limit = UNTRUSTED_LIMIT
                    ends.append(lambda: _wait_token_timeout(protocol, out, untrusted.frames))
                try:
                    await first_of(*ends)
                finally:
                    # Even if the connection failed, its turns continue.
                    await self._end_connection(protocol)
                await out.close(FLUSH_GRACE)
                tasks.cancel_scope.cancel()
        except Exception:
            log.exception("a connection failed")
        finally:
            self._open -= 1
            self._disconnected.set()

    async def close(self) -> None:
        """End all connections, because the server stops, and wait until their requests are answered."""
        self._closing.set()
        while self._open:
            self._disconnected = anyio.Event()
            await self._disconnected.wait()

    async def _wait_closing(self) -> int:
        await self._closing.wait()
        return 0

    async def _end_connection(self, protocol: DeputyProtocol) -> None:
        if self._closing.is_set():
            await protocol.close()
            return
        for session in await protocol.client_disconnected():
            if not session.log.has_subscribers:
                self._unwatched_since[session.id] = since = anyio.current_time()
                self._tasks.start_soon(self._unload_unless_watched, session, since)

    async def _unload_unless_watched(self, session: Session, since: float, grace: float = 0) -> None:
        """End and unload a session if no client reconnects in time. One that waits for the user's approval is kept."""
        await anyio.sleep(max(grace, session.host.settings.permissions.reconnect_grace))
        if session.permission_requests() and self._unwatched_since.get(session.id) == since:
            self._tasks.start_soon(self._unload_unless_watched, session, since, _WAITING_POLL)
            return
        if self._unwatched_since.get(session.id) == since:
            del self._unwatched_since[session.id]
            if not session.log.has_subscribers:
                await session.cancel(CancelReason.SHUTDOWN)
                await (await self._lazy_app.get()).runtime.unload(session.id)


async def _wait_token_timeout(protocol: DeputyProtocol, out: LoopWriter, frames: Frames) -> int:
    """Return if the client does not send the token in time; otherwise lift its limits and wait forever."""
    with anyio.move_on_after(TOKEN_GRACE):
        await protocol.ready.wait()
        out.hard_limit, frames.limit = HARD_LIMIT, MAX_MESSAGE
    if protocol.ready.is_set():
        await anyio.sleep_forever()
    return 1


def _print_address(options: ServeOptions, port: int, *, with_token: bool) -> None:
    """Print, as one line of JSON, where clients connect."""
    if options.address is not None:
        where = {"transport": str(options.address.transport), "host": options.address.host, "port": port}
        line = where | {"token": options.token} if with_token else where
        os.write(1, f"{json.dumps(line)}\n".encode())


# -- transports --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _listen(clients: Clients, options: ServeOptions) -> AsyncGenerator[int]:
    """Accept clients while the block runs; yield the port."""
    if (address := options.address) is None:
        raise AssertionError("a socket server needs an address")
    listen = _listen_tcp if address.transport is Transport.TCP else _listen_websocket
    async with listen(clients, address) as port:
        yield port


@asynccontextmanager
async def _listen_tcp(clients: Clients, address: Address) -> AsyncGenerator[int]:
    async def serve_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def send(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        arrival = clients.admission.arrive(writer.transport.abort)
        try:
            frames = Frames(reader, strict=True)  # a web page can send anything in the body of an HTTP request
            await clients.serve(frames, LoopWriter(send), framed=True, untrusted=Untrusted(arrival, frames))
        finally:
            arrival.leave()
            writer.transport.abort()

    server = await asyncio.start_server(serve_client, address.host, address.port, limit=MAX_HEADER_LINE)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@asynccontextmanager
async def _listen_websocket(clients: Clients, address: Address) -> AsyncGenerator[int]:
    from deputy_server.lsp.websocket import listen  # imported only when used

    async with listen(clients.serve, clients.admission, address, open_timeout=TOKEN_GRACE) as port:
        yield port
