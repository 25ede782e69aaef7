"""Serving one client over standard input and output, from the first byte to the exit code.

Whatever ends the connection (``exit``, the end of input, a signal, an editor that is gone or no longer reads), the
end is the same: open requests are cancelled and answered, sessions are stopped, what is written is sent, each step
with a bound.
"""

import asyncio
import contextlib
import os
import signal
import stat
import sys
import threading
from collections.abc import Awaitable, Callable
from io import RawIOBase

import anyio

from deputy_server.host import Host
from deputy_server.lsp.logs import log_to
from deputy_server.lsp.process import is_alive
from deputy_server.lsp.server import DeputyProtocol, DeputyServer
from deputy_server.lsp.stream import Fault, Frames, new_reader
from deputy_server.lsp.writer import Writer
from deputy_server.options import Options

SETTLE_GRACE = 2
"""Seconds in which open requests must be answered when the connection ends."""

FLUSH_GRACE = 1
"""Seconds that a client may take to read what was written before the end."""

FORCE_AFTER = 15
"""Seconds after which an end that hangs is forced."""

WATCH_INTERVAL = 2
"""Seconds between two looks at whether the editor's process is still there."""

_BURST = 32
"""Messages taken in one go before other tasks get their turn."""

_CHUNK = 2**16


async def serve(options: Options | None = None) -> int:
    """Serves until the connection ends; the exit code of the process."""
    stdin, stdout = claim_stdio()
    code = 1
    out, errors = Writer(stdout), log_to(os.dup(2))
    try:
        async with anyio.create_task_group() as tasks:
            host = Host(options)
            tasks.start_soon(host.run)
            protocol = DeputyServer(host).rpc
            protocol.connect(out, tasks)
            code = await _until_the_end(protocol, await _open(stdin), out)
            _end_by_force_after(FORCE_AFTER, code)
            await _wind_up(protocol)
            tasks.cancel_scope.cancel()
    finally:
        await out.close(FLUSH_GRACE)
        await errors.close(FLUSH_GRACE)
    return code


async def _until_the_end(protocol: DeputyProtocol, reader: asyncio.StreamReader, out: Writer) -> int:
    """Runs the connection; the exit code is that of the first thing that ends it."""
    codes: list[int] = []
    async with anyio.create_task_group() as watchers:

        async def ends(wait: Callable[[], Awaitable[int]]) -> None:
            codes.append(await wait())
            watchers.cancel_scope.cancel()

        watchers.start_soon(ends, lambda: _input_ends(protocol, Frames(reader)))
        watchers.start_soon(ends, lambda: _output_breaks(out))
        if sys.platform != "win32":
            watchers.start_soon(ends, _signal_comes)
            watchers.start_soon(ends, lambda: _editor_dies(protocol))
    return codes[0]


async def _input_ends(protocol: DeputyProtocol, frames: Frames) -> int:
    taken = 0
    while protocol.exit_code is None:
        match await frames.read():
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


async def _output_breaks(out: Writer) -> int:
    await out.wait_closed()
    return 0


async def _signal_comes() -> int:
    """Ends as a shell expects of a process that a signal has ended."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for number in signals:
            return 128 + number
    return 0


async def _editor_dies(protocol: DeputyProtocol) -> int:
    await protocol.ready.wait()
    if protocol.editor is None:
        await anyio.sleep_forever()
    else:
        while is_alive(protocol.editor):  # noqa: ASYNC110 - a process that is no child tells nobody of its end
            await anyio.sleep(WATCH_INTERVAL)
    return 0


async def _wind_up(protocol: DeputyProtocol) -> None:
    await protocol.settle(grace=SETTLE_GRACE)
    if protocol.connection is not None:
        protocol.connection.close()
    protocol.disconnect()


def _end_by_force_after(seconds: float, code: int) -> None:
    """A thread that hangs (in a file system that is gone, say) must not keep the process."""
    timer = threading.Timer(seconds, os._exit, (code,))
    timer.daemon = True
    timer.start()


def claim_stdio() -> tuple[int, int]:
    """Takes standard input and output for the protocol alone: from now on what anything else prints goes to standard
    error, and child processes inherit neither. Their new file descriptors are returned."""
    stdin, stdout = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return stdin, stdout


async def _open(fd: int) -> asyncio.StreamReader:
    """A stream over ``fd``. What the event loop cannot watch, a regular file for instance, is read by a thread."""
    reader = new_reader()
    loop = asyncio.get_running_loop()
    pipe = os.fdopen(fd, "rb", 0)
    if _can_be_watched(fd):
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    else:
        threading.Thread(target=_feed, args=(pipe, reader, loop), name="deputy-reader", daemon=True).start()
    return reader


def _can_be_watched(fd: int) -> bool:
    """Pipes, sockets and terminals can. Of other devices asyncio believes so too, and finds out in a callback that
    nobody hears."""
    mode = os.fstat(fd).st_mode
    return sys.platform != "win32" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd))


def _feed(pipe: RawIOBase, reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop) -> None:
    # The loop may end first; then nobody reads any more.
    with contextlib.suppress(RuntimeError):
        try:
            while data := pipe.read(_CHUNK):
                loop.call_soon_threadsafe(reader.feed_data, data)
        finally:
            loop.call_soon_threadsafe(reader.feed_eof)
