"""The one way to start a process: somebody owns it from its first moment to its end, whatever is cancelled meanwhile.

The library's ``open_process`` kills the new process when it is cancelled, and processes that this one has started by
then belong to nobody.
"""

import os
import signal
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from subprocess import DEVNULL, PIPE
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream, Process

from deputy_agents.concurrency.uninterrupted import uninterrupted

_owned: Final[set[int]] = set()
_starting: Final[set[object]] = set()


@dataclass(frozen=True, slots=True)
class Finished:
    """The exit code of a process (negative: the signal that ended it), its output, and its error output."""

    code: int
    output: bytes
    errors: bytes = b""


async def start_process(
    command: Sequence[str],
    *,
    stdin: int | None = PIPE,
    stdout: int | None = PIPE,
    stderr: int | None = PIPE,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    start_new_session: bool = False,
    pass_fds: Sequence[int] = (),
) -> Process:
    """Start a process, which a cancellation does not interrupt. The caller owns it when this returns, and must pass it
    to :func:`release` after its end. Use :func:`owned_process` where its end is nothing special.

    Raises:
        OSError: it cannot be started.
    """

    async def start() -> Process:
        token = object()
        _starting.add(token)
        try:
            process = await anyio.open_process(
                command,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=cwd,
                env=env,
                start_new_session=start_new_session,
                pass_fds=pass_fds,
            )
            _owned.add(process.pid)
            return process
        finally:
            _starting.remove(token)

    return await uninterrupted(start)


def kill(process: Process, number: int = signal.SIGKILL) -> None:
    """Send a signal to a process, unless it has ended.

    The methods of the process first look whether it has ended. That takes the exit code away from the thread that waits
    for it, which then logs a warning and reports another code.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


async def release(process: Process) -> None:
    """Close the streams of a process and wait for its end, which the caller has caused."""
    try:
        await process.aclose()
    finally:
        _owned.discard(process.pid)


def owned() -> frozenset[int] | None:
    """The processes that were started here and have not ended; ``None`` while another is starting."""
    return None if _starting else frozenset(_owned)


@asynccontextmanager
async def owned_process(
    command: Sequence[str],
    *,
    stdin: int | None = PIPE,
    stdout: int | None = PIPE,
    stderr: int | None = PIPE,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    start_new_session: bool = False,
) -> AsyncGenerator[Process]:
    """Run a process while the context is open; leaving the context kills it.

    Raises:
        OSError: it cannot be started.
    """
    process = await start_process(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=cwd,
        env=env,
        start_new_session=start_new_session,
    )
    try:
        yield process
    finally:
        await uninterrupted(partial(_kill, process))


async def run_to_end(
    command: Sequence[str],
    *,
    send: bytes | AsyncIterable[bytes] = b"",
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    limit: int = 16 * 1024 * 1024,
    error_limit: int = 0,
) -> Finished:
    """Run a process with ``send`` as its input, and return at most ``limit`` bytes of its output and ``error_limit`` of
    its error output. A cancellation kills the process.

    Raises:
        OSError: it cannot be started.
        ExceptionGroup: ``send`` raised an error.
    """
    output, errors = BytesIO(), BytesIO()
    stdin, stderr = PIPE if send else DEVNULL, PIPE if error_limit else DEVNULL
    async with owned_process(command, stdin=stdin, stderr=stderr, cwd=cwd, env=env) as process:
        assert process.stdout is not None
        async with anyio.create_task_group() as tasks:
            if send:
                tasks.start_soon(_send, process, send)
            tasks.start_soon(_read, process.stdout, output, limit)
            if process.stderr is not None:
                tasks.start_soon(_read, process.stderr, errors, error_limit)
        return Finished(await process.wait(), output.getvalue(), errors.getvalue())


async def _send(process: Process, data: bytes | AsyncIterable[bytes]) -> None:
    assert process.stdin is not None
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        if isinstance(data, bytes):
            await process.stdin.send(data)
        else:
            async for chunk in data:
                await process.stdin.send(chunk)
        await process.stdin.aclose()


async def _read(stream: ByteReceiveStream, to: BytesIO, limit: int) -> None:
    async for chunk in stream:
        to.write(chunk[: max(0, limit - to.tell())])


async def _kill(process: Process) -> None:
    kill(process)
    await release(process)
