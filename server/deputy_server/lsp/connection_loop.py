"""One client's connection, over whatever carries it: from its first message to the end of all that belongs to it."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from deputy_server.lsp.framing import Fault
from deputy_server.lsp.protocol import Phase
from deputy_server.lsp.server import DeputyProtocol
from deputy_server.rpc.writer import Outlet

if TYPE_CHECKING:
    from deputy_agents.session.session import Session

SETTLE_GRACE = 2
"""Seconds in which open requests must be answered when a connection ends."""

FLUSH_GRACE = 1
"""Seconds that a client may take to read what was written before the end."""

FORCE_AFTER = 15
"""Seconds after which an end of the server that hangs is forced."""

_BURST = 32
"""Messages taken in one go before other tasks get their turn."""


class Incoming(Protocol):
    """Where messages come from."""

    async def read(self) -> bytes | Fault | None:
        """The next body, a fault that has been skipped, or ``None`` at the end."""
        ...


async def messages_end(protocol: DeputyProtocol, incoming: Incoming) -> int:
    """Takes messages until they end, or one of them says so; the exit code that it means."""
    taken = 0
    while protocol.exit_code is None:
        match await incoming.read():
            case None:
                return 0
            case Fault() as fault:
                protocol.receive_fault(fault)
            case body:
                protocol.receive(body)
                await protocol.room()
        taken += 1
        if taken % _BURST == 0:
            await asyncio.sleep(0)
    return protocol.exit_code


async def wind_up(protocol: DeputyProtocol) -> None:
    """The server ends: open requests are answered, turns that they wait for end."""
    protocol.phase = Phase.SHUT_DOWN
    await protocol.settle(grace=SETTLE_GRACE)
    if protocol.connection is not None:
        protocol.connection.close()
    protocol.disconnect()


async def part(protocol: DeputyProtocol) -> "Sequence[Session]":
    """The client has gone, the server goes on: what its requests have begun goes on too. The sessions it watched."""
    sessions: Sequence[Session] = () if protocol.connection is None else protocol.connection.leave()
    protocol.disconnect()
    await protocol.settle(grace=SETTLE_GRACE)
    return sessions


async def output_breaks(out: Outlet) -> int:
    """Waits until nothing more can be sent."""
    await out.wait_closed()
    return 0
