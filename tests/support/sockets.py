"""A real server that listens, and clients of it over TCP and WebSocket."""

import asyncio
import json
import os
import socket
import struct
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.support.model_replies import Json
from tests.support.rpc import EVERYTHING, PATIENCE, RpcClient
from tests.support.warm import Process, started


class WebSocketClient(RpcClient):
    """The same client, over a WebSocket."""

    def __init__(self, process: Process, socket: ClientConnection) -> None:
        super().__init__(process)
        self._socket = socket
        self._outgoing: asyncio.Queue[str] = asyncio.Queue()

    @property
    def transport(self) -> asyncio.WriteTransport:
        return self._socket.transport

    def send(self, message: object) -> None:
        self._outgoing.put_nowait(json.dumps(message))

    async def write(self) -> None:
        while True:
            await self._socket.send(await self._outgoing.get())

    async def read_body(self) -> bytes:
        try:
            return await self._socket.recv(decode=False)
        except ConnectionClosed:
            raise asyncio.IncompleteReadError(b"", None) from None


def reset(client: RpcClient) -> None:
    """Breaks a client's connection, as the end of a client does that has something unread."""
    connection: socket.socket = client.transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.transport.abort()


class Server:
    """A server that listens at ``where``, as it said itself."""

    def __init__(self, process: Process, where: Json) -> None:
        self.process = process
        self.where = where
        self.ending = False

    def end(self) -> None:
        """Tells it to end, once."""
        if not self.ending:
            self.ending = True
            self.process.terminate()

    @property
    def port(self) -> int:
        return self.where["port"]

    @asynccontextmanager
    async def client(self, token: str | None = None) -> AsyncGenerator[RpcClient]:
        """A client that is connected and has said nothing yet."""
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(self._connected(token or self.where.get("token", "")))
            reading = asyncio.create_task(client.read())
            try:
                yield client
            finally:
                for task in client.tasks:
                    task.cancel()
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    @asynccontextmanager
    async def _connected(self, token: str) -> AsyncGenerator[RpcClient]:
        if self.where["transport"] == "tcp":
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                yield RpcClient(self.process, reader, writer)
            finally:
                writer.transport.abort()
            return
        headers = {"Authorization": f"Bearer {token}"}
        async with connect(f"ws://127.0.0.1:{self.port}", additional_headers=headers, proxy=None) as socket:
            client = WebSocketClient(self.process, socket)
            writing = asyncio.create_task(client.write())
            try:
                yield client
            finally:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)

    @asynccontextmanager
    async def opened(
        self, folder: Path, capabilities: Json = EVERYTHING, options: Json | None = None
    ) -> AsyncGenerator[RpcClient]:
        """A client that is initialized in ``folder``."""
        async with self.client() as client:
            known = {"token": self.where["token"]} if "token" in self.where else {}
            # No editor's process: a server of several clients ends with none of them.
            given = known | (options or {})
            await client.initialize(folder, capabilities, processId=None, initializationOptions=given or None)
            yield client


@asynccontextmanager
async def listening(
    *arguments: str, env: Mapping[str, str] | None = None, python: Sequence[str] = ()
) -> AsyncGenerator[Server]:
    """``deputy serve`` with ``arguments``, on any free port. It must end in order."""
    with TemporaryDirectory(prefix="deputy-home-") as home:
        user = {"HOME": home, "USERPROFILE": home}
        command = (*python, "-m", "deputy_server", "serve", *arguments)
        process = await started(command, os.environ | user | dict(env or {}))
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async with asyncio.timeout(PATIENCE):
                where = json.loads(await process.stdout.readline())
            server = Server(process, where)
            yield server
            server.end()
            async with asyncio.timeout(PATIENCE):
                errors = await process.stderr.read()
                await process.wait()
            assert process.returncode == 143
            assert b"Traceback" not in errors, errors.decode()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
