"""``deputy acp``: serving one client over standard input and output, from the first line to the exit code.

``initialize`` is answered at once; what runs agents is loaded meanwhile. Whatever ends the connection (the end of
input, a signal, a client that no longer reads), the end is the same: open requests are cancelled and answered,
sessions are stopped, what is written is sent, each step with a bound.
"""

import asyncio
import os
import sys
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import anyio

from deputy_protocol.errors import ErrorCode
from deputy_server.acp.client import Client, read_client
from deputy_server.acp.peer import Handler, Listener, Peer, Response
from deputy_server.lazy_app import Host
from deputy_server.rpc.errors import RpcError
from deputy_server.rpc.json import JsonObject
from deputy_server.rpc.lines import TooLong, new_reader, read_line
from deputy_server.rpc.logs import log_to
from deputy_server.rpc.stdio import claim_stdio, end_by_force_after, first_of, open_input, signal_comes
from deputy_server.rpc.writer import Writer
from deputy_server.serve_options import Options
from deputy_server.version import VERSION

if TYPE_CHECKING:
    from deputy_protocol.settings import Settings
    from deputy_server.acp.agent import Agent

PROTOCOL_VERSION = 1

SETTLE_GRACE = 2
"""Seconds in which open requests must be answered when the connection ends."""

FLUSH_GRACE = 1
"""Seconds that a client may take to read what was written before the end."""

FORCE_AFTER = 15
"""Seconds after which an end that hangs is forced."""

_BURST = 32
"""Lines taken in one go before other tasks get their turn."""


@dataclass(frozen=True, slots=True)
class AcpOptions:
    """``definition`` names that of the sessions' own agents."""

    settings: "Settings | None" = None
    definition: str | None = None
    traffic: Options = field(default_factory=Options)


class Front:
    """What serves a client, whether it is loaded by now or not."""

    def __init__(self, peer: Peer, host: Host, options: AcpOptions) -> None:
        self._peer = peer
        self._host = host
        self._options = options
        self._greeted = False
        self._agent: Agent | None = None
        self._loaded = anyio.Event()
        peer.route, peer.hear = self._route, self._hear

    def _route(self, method: str) -> Handler | None:
        if method == "initialize":
            return self._initialize
        return partial(self._later, method) if self._agent is None else self._agent.methods.get(method)

    def _hear(self, method: str) -> Listener | None:
        return None if self._agent is None else self._agent.listeners.get(method)

    async def _initialize(self, params: object) -> JsonObject:
        if self._greeted:
            raise RpcError(ErrorCode.INVALID_REQUEST, "The connection is initialized already.")
        self._greeted = True
        self._peer.tasks.start_soon(self._load, read_client(params))
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": False},
                "sessionCapabilities": {
                    name: {} for name in ("list", "resume", "close", "delete", "additionalDirectories")
                },
            },
            "agentInfo": {"name": "deputy", "title": "Deputy", "version": VERSION},
            "authMethods": [],
        }

    async def _load(self, client: Client) -> None:
        app = await self._host.app()
        from deputy_server.acp.agent import Agent  # the host has loaded it, in its thread

        if self._options.settings is not None:
            app.configure(self._options.settings)
        self._agent = Agent(app, self._peer, client, self._options.definition)
        self._loaded.set()

    async def _later(self, method: str, params: object) -> Response | JsonObject:
        if not self._greeted:
            raise RpcError(ErrorCode.INVALID_REQUEST, "Send initialize first.")
        await self._loaded.wait()
        if (handler := self._route(method)) is None:
            raise RpcError(ErrorCode.METHOD_NOT_FOUND, f"Unknown method {method[:100]}.")
        return await handler(params)


def main(options: AcpOptions | None = None) -> int:
    """``deputy acp``; the exit code of the process."""
    return anyio.run(serve, options or AcpOptions())


async def serve(options: AcpOptions) -> int:
    """Serves until the connection ends; the exit code of the process."""
    stdin, stdout = claim_stdio()
    code = 1
    out, errors = Writer(stdout), log_to(os.dup(2))
    try:
        async with anyio.create_task_group() as tasks:
            host = Host(options.traffic, module="deputy_server.acp.agent")
            tasks.start_soon(host.run)
            peer = Peer(out, tasks)
            Front(peer, host, options)
            code = await _until_the_end(peer, await open_input(stdin, new_reader()))
            end_by_force_after(FORCE_AFTER, code)
            await peer.settle(SETTLE_GRACE)
            peer.disconnect()
            tasks.cancel_scope.cancel()
    finally:
        await out.close(FLUSH_GRACE)
        await errors.close(FLUSH_GRACE)
    return code


async def _until_the_end(peer: Peer, reader: asyncio.StreamReader) -> int:
    """Runs the connection; the exit code is that of the first thing that ends it."""
    ends = [lambda: _input_ends(peer, reader), lambda: _output_breaks(peer.out)]
    if sys.platform != "win32":
        ends.append(signal_comes)
    return await first_of(*ends)


async def _input_ends(peer: Peer, reader: asyncio.StreamReader) -> int:
    taken = 0
    while (line := await read_line(reader)) is not None:
        if isinstance(line, TooLong):
            peer.refuse(None, ErrorCode.INVALID_REQUEST, "The message is too large.")
        else:
            peer.receive(line)
            await peer.room()
        taken += 1
        if taken % _BURST == 0:
            await asyncio.sleep(0)
    return 0


async def _output_breaks(out: Writer) -> int:
    await out.wait_closed()
    return 0
