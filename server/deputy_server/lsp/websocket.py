"""WebSocket as a carrier of messages: one in each text frame, without headers."""

from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Protocol

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from deputy_server.lsp.connection_loop import Incoming
from deputy_server.lsp.framing import MAX_MESSAGE
from deputy_server.lsp.server import is_token
from deputy_server.rpc.writer import LoopWriter
from deputy_server.serve_options import Endpoint

CLOSE_GRACE = 1
"""Seconds that a client may take to say goodbye."""


class Visit(Protocol):
    """Serves one client until one side ends it."""

    def __call__(self, incoming: Incoming, out: LoopWriter, *, framed: bool) -> Awaitable[None]: ...


@asynccontextmanager
async def websocket_server(visit: Visit, token: str, endpoint: Endpoint) -> AsyncGenerator[int]:
    """Has each client that shows ``token`` visit, while the block runs; gives the port.

    Raises:
        OSError: the endpoint cannot be had.
    """

    def refuse(connection: ServerConnection, request: Request) -> Response | None:
        if any(_is_bearer(shown, token) for shown in request.headers.get_all("Authorization")):
            return None
        answer = connection.respond(HTTPStatus.UNAUTHORIZED, "Deputy wants its token: Authorization: Bearer <token>\n")
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer

    async def connected(connection: ServerConnection) -> None:
        async def send(data: bytes) -> None:
            try:
                await connection.send(data, text=True)
            except ConnectionClosed as error:
                raise BrokenPipeError from error

        await visit(_Messages(connection), LoopWriter(send), framed=False)

    async with serve(
        connected,
        endpoint.host,
        endpoint.port,
        process_request=refuse,
        origins=[None],  # a page in a browser says where it comes from: none has any business here
        max_size=MAX_MESSAGE,
        close_timeout=CLOSE_GRACE,
        compression=None,
    ) as server:
        yield next(iter(server.sockets)).getsockname()[1]


def _is_bearer(shown: str, token: str) -> bool:
    scheme, _, given = shown.partition(" ")
    return scheme.lower() == "bearer" and is_token(given.strip(), token)


class _Messages:
    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    async def read(self) -> bytes | None:
        """The next message; ``None`` when the client has gone."""
        try:
            return await self._connection.recv(decode=False)
        except ConnectionClosed:
            return None
