"""The life of a connection and of the process that serves it: the message loop, and what ends them."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable

import anyio

from deputy_server.rpc.endpoint import Endpoint
from deputy_server.rpc.framing import FrameError, MessageReader
from deputy_server.rpc.writer import OutputQueue

CANCEL_GRACE = 2
"""Seconds in which open requests must be answered when a connection ends."""

FLUSH_GRACE = 1
"""Seconds in which a client must read the remaining output when a connection ends."""

FORCE_AFTER = 15
"""Seconds after which a shutdown that hangs is forced."""

_BURST = 32
"""Messages received before other tasks get their turn."""


async def receive_messages(endpoint: Endpoint, reader: MessageReader) -> int:
    """Receive messages until they end or one of them ends the connection; return the exit code."""
    received = 0
    while endpoint.exit_code is None:
        match await reader.read():
            case None:
                return 0
            case FrameError() as error:
                endpoint.reject_frame(error)
            case body:
                endpoint.receive(body)
                await endpoint.wait_for_room()
        received += 1
        if received % _BURST == 0:
            await asyncio.sleep(0)
    return endpoint.exit_code


async def wait_output_closed(out: OutputQueue) -> int:
    """Wait until the client no longer reads; return the exit code."""
    await out.wait_closed()
    return 0


async def wait_for_signal() -> int:
    """Wait for a signal to terminate; return the exit code that shells expect for it. On Windows, wait forever."""
    if sys.platform == "win32":
        await anyio.sleep_forever()
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for number in signals:
            return 128 + number
    return 0


async def first_of(*waits: Callable[[], Awaitable[int]]) -> int:
    """Run all ``waits``, return the result of the first to finish, and cancel the others."""
    codes: list[int] = []
    async with anyio.create_task_group() as tasks:

        async def run(wait: Callable[[], Awaitable[int]]) -> None:
            codes.append(await wait())
            tasks.cancel_scope.cancel()

        for wait in waits:
            tasks.start_soon(run, wait)
    return codes[0]


def force_exit_after(seconds: float, code: int) -> None:
    """Exit after ``seconds`` even if a thread hangs, for example in a file system that does not respond."""
    timer = threading.Timer(seconds, os._exit, (code,))
    timer.daemon = True
    timer.start()
