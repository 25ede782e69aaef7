"""Attacks on the places and the parser of a server that any process of the machine, and any web page, can reach."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from deputy_server.lsp.admission import MAX_ARRIVALS, MAX_CLIENTS
from deputy_server.lsp.sockets import TOKEN_GRACE
from tests.support.model_replies import Json
from tests.support.rpc import PATIENCE, RpcFailure
from tests.support.sockets import Server, listening

pytestmark = pytest.mark.asyncio

CARRIERS = ("--tcp", "--ws")
OFFLINE = {"model": "offline"}
SILENT = (b"", b"Content-Le", b"GET / HTTP/1.1\r\nHost: ", b"Content-Length: 4000000\r\n\r\n{")
"""What a client without the token can send, and then wait."""

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def silent(server: Server, count: int, data: bytes) -> AsyncGenerator[list[Stream]]:
    """Connections that send ``data`` and nothing else."""
    streams: list[Stream] = []
    try:
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(data)
            streams.append((reader, writer))
        yield streams
    finally:
        for _, writer in streams:
            writer.transport.abort()


async def ended(stream: Stream) -> bytes:
    """Waits until the server has closed the connection; what it sent."""
    async with asyncio.timeout(PATIENCE):
        try:
            return await stream[0].read()
        except ConnectionResetError:
            return b""


async def exchange(server: Server, data: bytes) -> bytes:
    """Sends ``data`` and waits until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(data)
        return await ended((reader, writer))
    finally:
        writer.transport.abort()


# -- places ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("data", SILENT)
async def test_connections_without_the_token_do_not_keep_clients_out(
    workspace: Path, carrier: str, data: bytes
) -> None:
    async with listening(carrier, "0") as server, silent(server, MAX_CLIENTS + MAX_ARRIVALS, data) as streams:
        for oldest in streams[:MAX_CLIENTS]:
            assert b"result" not in await ended(oldest)
        async with (
            server.opened(workspace, options=OFFLINE) as one,
            server.opened(workspace, options=OFFLINE) as two,
            silent(server, MAX_ARRIVALS, data),
        ):
            for client in (one, two):
                assert "sessions" in await client.request("deputy/session/list", {})


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_a_connection_without_the_token_ends_soon(workspace: Path, carrier: str) -> None:
    async with listening(carrier, "0") as server, silent(server, 3, b"") as streams:
        async with asyncio.timeout(2 * TOKEN_GRACE):
            await asyncio.gather(*map(ended, streams))


async def test_a_client_beyond_the_limit_gets_an_error_over_tcp(workspace: Path) -> None:
    async with listening("--tcp", "0") as server, AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(server.opened(workspace, options=OFFLINE)) for _ in range(MAX_CLIENTS)
        ]
        async with server.client() as client:
            options = {"token": server.where["token"]}
            with pytest.raises(RpcFailure, match="limit") as failure:
                await client.initialize(workspace, processId=None, initializationOptions=options)
            assert failure.value.code == -32005
            await client.at_end()
        async with server.client() as client:
            with pytest.raises(RpcFailure) as failure:
                await client.initialize(workspace, initializationOptions={"token": "wrong"})
            assert failure.value.code == -32007, "without the token nobody learns how many are connected"
        await clients[0].request("shutdown")
        clients[0].notify("exit")
        await clients[0].at_end()
        async with server.opened(workspace, options=OFFLINE) as client:
            assert "sessions" in await client.request("deputy/session/list", {})


async def test_a_client_beyond_the_limit_gets_503_over_websocket() -> None:
    async with listening("--ws", "0") as server, AsyncExitStack() as stack:
        url, token = f"ws://127.0.0.1:{server.port}", {"Authorization": f"Bearer {server.where['token']}"}
        sockets = [
            await stack.enter_async_context(connect(url, additional_headers=token, proxy=None))
            for _ in range(MAX_CLIENTS)
        ]
        with pytest.raises(InvalidStatus, match="503"):
            await connect(url, additional_headers=token, proxy=None)
        with pytest.raises(InvalidStatus, match="401"):
            await connect(url, proxy=None)
        await sockets[0].close()
        async with connect(url, additional_headers=token, proxy=None):
            pass


# -- other protocols ---------------------------------------------------------------------------------------------------


def message(method: str, params: Json, id: int = 1) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()


def framed(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def posted(first: bytes, body: bytes) -> bytes:
    """What a browser sends for a page that posts ``body`` to the server."""
    headers = b"Host: 127.0.0.1\r\nContent-Length: %d\r\nOrigin: http://evil.example\r\nContent-Type: text/plain"
    return b"%b\r\n%b\r\n\r\n%b" % (first, headers % len(body), body)


@pytest.mark.parametrize(
    "first",
    [
        b"POST / HTTP/1.1",
        b"PUT /x?y=Content-Length:%202 HTTP/1.0",
        b"GET http://127.0.0.1:1/ HTTP/1.1",
        b"PRI * HTTP/2.0",
        b"Host: 127.0.0.1",
        b"\x16\x03\x01\x00\xee",
    ],
)
@pytest.mark.parametrize("wrap", [bytes, framed], ids=["bare", "framed"])
async def test_an_http_request_is_not_read_as_messages(first: bytes, wrap: Callable[[bytes], bytes]) -> None:
    async with listening("--tcp", "0") as server:
        params: Json = {"capabilities": {}, "initializationOptions": {"token": server.where["token"]}}
        answer = await exchange(server, posted(first, wrap(message("initialize", params))))
        assert b"result" not in answer
        assert answer.count(b"jsonrpc") == 1, "one answer, and nothing of the body"
        assert b"The connection is closed" in answer


async def test_a_foreign_header_ends_the_connection_of_a_client_too(workspace: Path) -> None:
    async with listening("--tcp", "0") as server, server.opened(workspace, options=OFFLINE) as client:
        client.send_bytes(posted(b"POST / HTTP/1.1", message("deputy/session/list", {}, 77)))
        await client.at_end()
        assert [m for m in client.received if m.get("id") == 77] == []


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", 101),
        ("localhost:{port}", 101),
        ("LOCALHOST", 101),
        ("[::1]:{port}", 101),
        ("evil.example", 403),
        ("evil.example:{port}", 403),
        ("127.0.0.1.evil.example:{port}", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1@evil.example", 403),
        ("10.0.0.1:{port}", 403),
        ("[::1", 403),
        ("", 403),
    ],
)
async def test_only_a_host_name_of_this_machine_is_served(host: str, status: int) -> None:
    """A page whose name resolves to this machine (DNS rebinding) sends its own name."""
    async with listening("--ws", "0") as server:
        key = base64.b64encode(bytes(16)).decode()
        lines = [
            "GET / HTTP/1.1",
            f"Host: {host.format(port=server.port)}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
            f"Authorization: Bearer {server.where['token']}",
        ]
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write("\r\n".join([*lines, "", ""]).encode())
        async with asyncio.timeout(PATIENCE):
            assert int((await reader.readline()).split()[1]) == status
        writer.transport.abort()
