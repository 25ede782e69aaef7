"""A server that is a program of ours. It runs under a guard, so that nothing of it outlives Deputy, and its messages
are bounded, which the client library's own transport does not do: a server that floods ends its connection alone."""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from deputy_agents.shell.process import EXIT_GRACE, GuardedProcess, guarded_program

logger = logging.getLogger(__name__)

MAX_MESSAGE = 8 * 1024 * 1024
"""Bytes of one message."""

Streams: TypeAlias = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]
_GONE = (anyio.EndOfStream, anyio.IncompleteRead, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)


@asynccontextmanager
async def stdio_transport(
    command: Sequence[str], cwd: str, env: Mapping[str, str], over: Callable[[str], None]
) -> AsyncGenerator[Streams]:
    """Runs ``command``. When it says nothing more, ``over`` is called with what it printed last as errors.

    Raises:
        ToolError: this machine has not what it takes.
        OSError: there is no such folder.
    """
    to_us, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_us = anyio.create_memory_object_stream[SessionMessage](0)
    async with to_us, incoming, outgoing, from_us, guarded_program(command, cwd, env) as program:

        async def read() -> None:
            async with to_us:  # closed when it is known why, as all who wait hear of the end by that
                why = await _read(program, to_us)
                with anyio.move_on_after(EXIT_GRACE):
                    await program.wait()
                over(why or program.errors)

        async def write() -> None:
            async with from_us:
                with suppress(*_GONE):
                    async for sent in from_us:
                        text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                        await program.input.send(text.encode() + b"\n")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            tasks.start_soon(write)
            try:
                yield incoming, outgoing
            finally:
                tasks.cancel_scope.cancel()


async def _read(program: GuardedProcess, to_us: MemoryObjectSendStream[SessionMessage | Exception]) -> str:
    """Passes on what the program says, to its end. Returns why it is heard no longer, where that is not its own end."""
    lines = BufferedByteReceiveStream(program.output)
    try:
        while True:
            if (message := _message(await lines.receive_until(b"\n", MAX_MESSAGE))) is not None:
                await to_us.send(message)
    except anyio.DelimiterNotFound:
        return f"it sent a message of more than {MAX_MESSAGE:,} bytes"
    except _GONE:
        return ""


def _message(line: bytes) -> SessionMessage | None:
    """``None`` for what is no message: servers print all sorts of things."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None
