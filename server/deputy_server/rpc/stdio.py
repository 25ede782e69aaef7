"""Standard input and output as a connection, and how a process that serves one ends."""

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

_CHUNK = 2**16


async def first_of(*ends: Callable[[], Awaitable[int]]) -> int:
    """What the first of ``ends`` to return gives; the others are cancelled."""
    codes: list[int] = []
    async with anyio.create_task_group() as watchers:

        async def watch(wait: Callable[[], Awaitable[int]]) -> None:
            codes.append(await wait())
            watchers.cancel_scope.cancel()

        for wait in ends:
            watchers.start_soon(watch, wait)
    return codes[0]


async def signal_comes() -> int:
    """Waits for a signal to end; the exit code is what a shell expects of a process that one has ended."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for number in signals:
            return 128 + number
    return 0


def end_by_force_after(seconds: float, code: int) -> None:
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


async def open_input(fd: int, reader: asyncio.StreamReader) -> asyncio.StreamReader:
    """Feeds ``reader`` from ``fd``. What the event loop cannot watch, a regular file for instance, is read by a
    thread."""
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
