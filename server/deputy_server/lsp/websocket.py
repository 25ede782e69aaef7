"""WebSocket as a transport: one message per text frame, without headers."""

from asyncio import BaseTransport
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Protocol
from urllib.parse import urlsplit

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from deputy_agents.domain.errors import NotAllowed, Overloaded
from deputy_server.lsp.admission import Admission, Arrival
from deputy_server.rpc.framing import MAX_MESSAGE, MessageReader
from deputy_server.rpc.writer import LoopWriter
from deputy_server.serve_options import Address, is_loopback

CLOSE_GRACE = 1
"""Seconds that a client may take for the closing handshake."""


class ServeClient(Protocol):
    """Serves one client until one side ends the connection."""

    def __call__(self, reader: MessageReader, out: LoopWriter, *, framed: bool) -> Awaitable[None]: ...


@asynccontextmanager
async def listen(
    serve_client: ServeClient, admission: Admission, address: Address, *, open_timeout: float
) -> AsyncGenerator[int]:
    """Serve each client that ``admission`` admits, while the block runs; yield the port. A client must complete the
    opening handshake within ``open_timeout`` seconds.

    Raises:
        OSError: the address is not available.
    """

    class Connection(ServerConnection):
        arrival: Arrival

        def connection_made(self, transport: BaseTransport) -> None:
            super().connection_made(transport)
            self.arrival = admission.arrive(self.transport.abort)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self.arrival.leave()

    def admit(connection: ServerConnection, request: Request) -> Response | None:
        if not isinstance(connection, Connection):
            raise AssertionError("all connections have the same type")
        return _rejection(connection, request, connection.arrival)

    async def connected(connection: ServerConnection) -> None:
        async def send(data: bytes) -> None:
            try:
                await connection.send(data, text=True)
            except ConnectionClosed as error:
                raise BrokenPipeError from error

        await serve_client(_Messages(connection), LoopWriter(send), framed=False)

    async with serve(
        connected,
        address.host,
        address.port,
        process_request=admit,
        origins=[None],  # browsers send the origin of a page; pages must not connect
        max_size=MAX_MESSAGE,
        open_timeout=open_timeout,
        close_timeout=CLOSE_GRACE,
        create_connection=Connection,
        compression=None,
    ) as server:
        yield next(iter(server.sockets)).getsockname()[1]


def _rejection(connection: ServerConnection, request: Request, arrival: Arrival) -> Response | None:
    """The response to a client that must not connect; ``None`` admits it."""
    hosts = request.headers.get_all("Host")
    if len(hosts) != 1 or not _is_local(hosts[0]):
        # A page whose name resolves to this machine has the name of the page here.
        text = "The Host header does not name this machine. Connect to 127.0.0.1 or localhost.\n"
        return connection.respond(HTTPStatus.FORBIDDEN, text)
    token = next(filter(None, map(_bearer, request.headers.get_all("Authorization"))), None)
    try:
        arrival.admit(token)
    except NotAllowed:
        text = "The token is missing or wrong. Send the header Authorization: Bearer <token>\n"
        response = connection.respond(HTTPStatus.UNAUTHORIZED, text)
        response.headers["WWW-Authenticate"] = "Bearer"
        return response
    except Overloaded as error:
        return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n")
    return None


def _is_local(host: str) -> bool:
    """Whether a ``Host`` header, with or without a port, names this machine."""
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    return name is not None and is_loopback(name)


def _bearer(value: str) -> str | None:
    """The token in an ``Authorization`` header."""
    scheme, _, token = value.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


class _Messages:
    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    async def read(self) -> bytes | None:
        """Return the next message, or ``None`` when the client has disconnected."""
        try:
            return await self._connection.recv(decode=False)
        except ConnectionClosed:
            return None
