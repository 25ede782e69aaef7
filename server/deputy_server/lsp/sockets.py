"""Serving many clients of this machine, over TCP or WebSocket.

Each connection is a protocol of its own, with its own documents and abilities; sessions belong to the process, and all
clients see the same. Whoever connects must know the token. A client that goes ends nothing: what it has begun goes on
for as long as it may take to come back.
"""

import asyncio
import json
import logging
import os
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
from anyio.abc import TaskGroup

from deputy_agents.domain.outcome import CancelReason
from deputy_agents.events.signal import Signal
from deputy_agents.session.session import Session
from deputy_server.lazy_app import Host
from deputy_server.lsp.connection_loop import (
    FLUSH_GRACE,
    FORCE_AFTER,
    Incoming,
    messages_end,
    output_breaks,
    part,
    wind_up,
)
from deputy_server.lsp.framing import LINE_LIMIT, MAX_MESSAGE, Frames
from deputy_server.lsp.server import DeputyProtocol, DeputyServer
from deputy_server.rpc.logs import log_to
from deputy_server.rpc.stdio import end_by_force_after, first_of, signal_comes
from deputy_server.rpc.writer import HARD_LIMIT, LoopWriter
from deputy_server.serve_options import Endpoint, Options, Transport

log = logging.getLogger(__name__)

MAX_CLIENTS = 32
"""Connections that may be open at once."""

STRANGER_GRACE = 10
"""Seconds in which a client must have shown its token."""

STRANGER_LIMIT = 4 * 2**20
"""Bytes of a message that a client may send, and leave unread, before it has shown its token."""


async def serve(options: Options) -> int:
    """Serves until a signal comes; the exit code of the process."""
    errors = log_to(os.dup(2))
    # pygls logs whole messages, which hold the user's text.
    logging.getLogger("pygls").setLevel(logging.CRITICAL + 1)
    made_up = not options.token
    if made_up:
        options = replace(options, token=secrets.token_urlsafe(32))
    code = 1
    try:
        async with anyio.create_task_group() as tasks:
            host = Host(options)
            tasks.start_soon(host.run)
            clients = Clients(host, options.token, tasks)
            try:
                async with _listening(clients, options) as port:
                    _tell(options, port, made_up)
                    code = await signal_comes()
                    end_by_force_after(FORCE_AFTER, code)
                    await clients.close()
            except OSError as error:
                log.error("nobody can connect: %s", error.strerror or error)
            tasks.cancel_scope.cancel()
    finally:
        await errors.close(FLUSH_GRACE)
    return code


class Clients:
    """The connections of a server, and what becomes of sessions whose clients have gone."""

    def __init__(self, host: Host, token: str, tasks: TaskGroup) -> None:
        self.token = token
        self._host = host
        self._tasks = tasks
        self._open = 0
        self._ending = anyio.Event()
        self._left = Signal()
        self._alone: dict[str, float] = {}
        """Since when nobody has watched a session, by the clock of the loop."""

    async def visit(self, incoming: Incoming, out: LoopWriter, *, framed: bool, stranger: Frames | None = None) -> None:
        """Serves one client until one side ends it. A ``stranger`` has yet to show the token."""
        if self._ending.is_set() or self._open >= MAX_CLIENTS:
            log.warning("a client was turned away: %s are connected", self._open)
            return
        self._open += 1
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(out.run)
                protocol = DeputyServer(self._host).rpc
                protocol.connect(out, tasks, framed=framed)
                ends: list[Callable[[], Awaitable[int]]] = [
                    lambda: messages_end(protocol, incoming),
                    lambda: output_breaks(out),
                    self._end,
                ]
                if stranger is not None:
                    protocol.token, out.hard_limit, stranger.limit = self.token, STRANGER_LIMIT, STRANGER_LIMIT
                    ends.append(lambda: _stranger_stays_one(protocol, out, stranger))
                try:
                    await first_of(*ends)
                finally:
                    # However the connection ended: what it has begun outlives it.
                    await self._part(protocol)
                await out.close(FLUSH_GRACE)
                tasks.cancel_scope.cancel()
        except Exception:
            log.exception("a connection broke down")
        finally:
            self._open -= 1
            self._left.notify()

    async def close(self) -> None:
        """The server ends: every client is told how its requests ended. Returns when they have gone."""
        self._ending.set()
        while self._open:
            await self._left.wait()

    async def _end(self) -> int:
        await self._ending.wait()
        return 0

    async def _part(self, protocol: DeputyProtocol) -> None:
        if self._ending.is_set():
            await wind_up(protocol)
            return
        for session in await part(protocol):
            if not session.watched:
                self._alone[session.id] = since = anyio.current_time()
                self._tasks.start_soon(self._end_unless_watched, session, since)

    async def _end_unless_watched(self, session: Session, since: float) -> None:
        """Nobody has come back in time: what runs would run for nobody."""
        await anyio.sleep(session.settings.permissions.reconnect_grace)
        if self._alone.get(session.id) == since:
            del self._alone[session.id]
            if not session.watched:
                await session.cancel(CancelReason.SHUTDOWN)
                await (await self._host.app()).runtime.unload(session.id)


async def _stranger_stays_one(protocol: DeputyProtocol, out: LoopWriter, frames: Frames) -> int:
    """Ends when the client has not shown the token in time; one that has may do what clients may."""
    with anyio.move_on_after(STRANGER_GRACE):
        await protocol.ready.wait()
        out.hard_limit, frames.limit = HARD_LIMIT, MAX_MESSAGE
    if protocol.ready.is_set():
        await anyio.sleep_forever()
    return 1


def _tell(options: Options, port: int, made_up: bool) -> None:
    """Says, in one line of JSON, where clients connect. A token that was given is known to those who gave it."""
    if options.endpoint is not None:
        where = {"transport": str(options.endpoint.transport), "host": options.endpoint.host, "port": port}
        line = where | {"token": options.token} if made_up else where
        os.write(1, f"{json.dumps(line)}\n".encode())


# -- transports ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _listening(clients: Clients, options: Options) -> AsyncGenerator[int]:
    """Takes clients while the block runs; gives the port."""
    if (endpoint := options.endpoint) is None:
        raise AssertionError("a server of sockets has an endpoint")
    listen = _tcp if endpoint.transport is Transport.TCP else _websocket
    async with listen(clients, endpoint) as port:
        yield port


@asynccontextmanager
async def _tcp(clients: Clients, endpoint: Endpoint) -> AsyncGenerator[int]:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def send(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        frames = Frames(reader)
        await clients.visit(frames, LoopWriter(send), framed=True, stranger=frames)
        writer.transport.abort()

    server = await asyncio.start_server(connected, endpoint.host, endpoint.port, limit=LINE_LIMIT)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@asynccontextmanager
async def _websocket(clients: Clients, endpoint: Endpoint) -> AsyncGenerator[int]:
    from deputy_server.lsp.websocket import websocket_server  # only for those who want it

    async with websocket_server(clients.visit, clients.token, endpoint) as port:
        yield port
