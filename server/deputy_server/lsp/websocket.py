"""WebSocket as a transport: one message per text frame, without headers."""

from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Protocol

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from deputy_server.lsp.server import is_token
from deputy_server.rpc.framing import MAX_MESSAGE, MessageReader
from deputy_server.rpc.writer import LoopWriter
from deputy_server.serve_options import Address

CLOSE_GRACE = 1
"""Seconds that a client may take for the closing handshake."""


class ServeClient(Protocol):
    """Serves one client until one side ends the connection."""

    def __call__(self, reader: MessageReader, out: LoopWriter, *, framed: bool) -> Awaitable[None]: ...


@asynccontextmanager
async def listen(serve_client: ServeClient, token: str, address: Address) -> AsyncGenerator[int]:
    """Serve each client that sends ``token``, while the block runs; yield the port.

    Raises:
        OSError: the address is not available.
    """

    def check_token(connection: ServerConnection, request: Request) -> Response | None:
        if any(_is_bearer(given, token) for given in request.headers.get_all("Authorization")):
            return None
        text = "The token is missing or wrong. Send the header Authorization: Bearer <token>\n"
        response = connection.respond(HTTPStatus.UNAUTHORIZED, text)
        response.headers["WWW-Authenticate"] = "Bearer"
        return response

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
        process_request=check_token,
        origins=[None],  # browsers send the origin of a page; pages must not connect
        max_size=MAX_MESSAGE,
        close_timeout=CLOSE_GRACE,
        compression=None,
    ) as server:
        yield next(iter(server.sockets)).getsockname()[1]


def _is_bearer(value: str, token: str) -> bool:
    scheme, _, given = value.partition(" ")
    return scheme.lower() == "bearer" and is_token(given.strip(), token)


class _Messages:
    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    async def read(self) -> bytes | None:
        """Return the next message, or ``None`` when the client has disconnected."""
        try:
            return await self._connection.recv(decode=False)
        except ConnectionClosed:
            return None
