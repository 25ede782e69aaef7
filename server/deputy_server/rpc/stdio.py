"""Standard input and output as a connection."""

import asyncio
import contextlib
import os
import stat
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import RawIOBase

import anyio
from anyio.abc import TaskGroup

from deputy_server.rpc.framing import new_reader
from deputy_server.rpc.lifecycle import FLUSH_GRACE
from deputy_server.rpc.logs import log_to
from deputy_server.rpc.writer import Writer

_CHUNK = 2**16


@dataclass(frozen=True, slots=True)
class Stdio:
    """An open connection. ``tasks`` owns its tasks."""

    reader: asyncio.StreamReader
    out: Writer
    tasks: TaskGroup


@asynccontextmanager
async def open_stdio(max_line: int) -> AsyncGenerator[Stdio]:
    """Open standard input and output, with a limit on the length of an input line, and send logs to standard error. On
    exit, cancel the tasks and write out the remaining output."""
    stdin, stdout = _claim_stdio()
    out, errors = Writer(stdout), log_to(os.dup(2))
    try:
        async with anyio.create_task_group() as tasks:
            yield Stdio(await _open_input(stdin, new_reader(max_line)), out, tasks)
            tasks.cancel_scope.cancel()
    finally:
        await out.close(FLUSH_GRACE)
        await errors.close(FLUSH_GRACE)


def _claim_stdio() -> tuple[int, int]:
    """Reserve standard input and output for the protocol and return their new file descriptors. From now on, anything
    else that prints writes to standard error, and child processes inherit neither."""
    stdin, stdout = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return stdin, stdout


async def _open_input(fd: int, reader: asyncio.StreamReader) -> asyncio.StreamReader:
    """Feed ``reader`` from ``fd``, by a thread if the event loop cannot watch it (a regular file, for example)."""
    loop = asyncio.get_running_loop()
    pipe = os.fdopen(fd, "rb", 0)
    if _can_be_watched(fd):
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    else:
        threading.Thread(target=_feed, args=(pipe, reader, loop), name="deputy-reader", daemon=True).start()
    return reader


def _can_be_watched(fd: int) -> bool:
    """Whether ``fd`` is a pipe, socket or terminal. asyncio accepts other devices too, and then fails in a callback
    whose exception is lost."""
    mode = os.fstat(fd).st_mode
    return sys.platform != "win32" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd))


def _feed(pipe: RawIOBase, reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop) -> None:
    # The event loop may close first; then there is nothing left to feed.
    with contextlib.suppress(RuntimeError):
        try:
            while data := pipe.read(_CHUNK):
                loop.call_soon_threadsafe(reader.feed_data, data)
        finally:
            loop.call_soon_threadsafe(reader.feed_eof)
