"""The owner's end of the socket to the broker of a sandboxed command: what was refused, and the socket of the proxy."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio

from deputy_agents.shell.confinement import Confinement
from deputy_agents.shell.host_proxy import HostProxy
from deputy_agents.shell.refusal import describe_refusal

_MAX_MESSAGES: Final = 64 * 1024
"""Bytes; the broker sends less."""


class Channel:
    """Receives what the sandbox refuses."""

    def __init__(self, owner: socket.socket, proxy: HostProxy | None) -> None:
        self._owner = owner
        self._proxy = proxy
        self._received = b""

    def refusals(self) -> tuple[str, ...]:
        """What the command was not allowed to do until now, as words that follow "to"."""
        with suppress(OSError):
            while len(self._received) < _MAX_MESSAGES and (chunk := self._owner.recv(4096)):
                self._received += chunk
        lines = self._received.decode(errors="replace").split("\n")[:-1]
        lines += [line.rstrip("\n") for line in self._proxy.refused] if self._proxy else ()
        return tuple(dict.fromkeys(text for line in lines if (text := describe_refusal(line)) is not None))


@asynccontextmanager
async def open_channel(confinement: Confinement | None) -> AsyncGenerator[tuple[Channel | None, int]]:
    """A channel while the context is open, and the descriptor of the command's end; ``None`` and -1 for a command
    without a sandbox. The proxy of the command runs meanwhile."""
    if confinement is None:
        yield None, -1
        return
    owner, of_command = socket.socketpair()
    with owner, of_command:
        owner.setblocking(False)
        proxy = HostProxy(confinement.hosts, private=confinement.private_hosts) if confinement.hosts else None
        serving = None if proxy is None else asyncio.create_task(_serve_proxy(owner, proxy))
        try:
            yield Channel(owner, proxy), of_command.fileno()
        finally:
            if serving is not None:
                serving.cancel()
                with anyio.CancelScope(shield=True):
                    await asyncio.wait([serving])


async def _serve_proxy(owner: socket.socket, proxy: HostProxy) -> None:
    """Receive the socket on which the proxy listens, before anything else that the broker sends, and serve it."""
    await anyio.wait_readable(owner)
    _, received, _, _ = socket.recv_fds(owner, 1, 1)
    if received:
        listening = socket.socket(fileno=received[0])
        listening.setblocking(False)
        await proxy.serve(listening)
