"""Connections to MCP servers that Deputy runs as programs. A guard ends the program and its children with Deputy.
Unlike the library's transport, this one limits the size of messages, so a flood ends only the connection of that MCP
server."""

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
"""Maximum bytes per message."""

Streams: TypeAlias = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]
_ENDED = (anyio.EndOfStream, anyio.IncompleteRead, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)


@asynccontextmanager
async def stdio_transport(
    command: Sequence[str], cwd: str, env: Mapping[str, str], on_end: Callable[[str], None], *, isolated: bool = True
) -> AsyncGenerator[Streams]:
    """Runs ``command``, ``isolated`` where the system can. When its output ends, ``on_end`` is called with the reason
    or the last error output.

    Raises:
        ToolError: a program required for the guard is missing.
        OSError: the folder does not exist.
    """
    received, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, to_send = anyio.create_memory_object_stream[SessionMessage](0)
    async with (
        received,
        incoming,
        outgoing,
        to_send,
        guarded_program(command, cwd, env, isolated=isolated) as program,
    ):

        async def read() -> None:
            async with received:  # closing it ends all waits, so the reason is reported first
                reason = await _read(program, received)
                with anyio.move_on_after(EXIT_GRACE):
                    await program.wait()
                on_end(reason or program.errors)

        async def write() -> None:
            async with to_send:
                with suppress(*_ENDED):
                    async for outgoing_message in to_send:
                        text = outgoing_message.message.model_dump_json(by_alias=True, exclude_unset=True)
                        await program.input.send(text.encode() + b"\n")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            tasks.start_soon(write)
            try:
                yield incoming, outgoing
            finally:
                tasks.cancel_scope.cancel()


async def _read(program: GuardedProcess, received: MemoryObjectSendStream[SessionMessage | Exception]) -> str:
    """Forwards all messages of the program. Returns why reading stopped; empty at the end of the output."""
    lines = BufferedByteReceiveStream(program.output)
    try:
        while True:
            if (message := _message(await lines.receive_until(b"\n", MAX_MESSAGE))) is not None:
                await received.send(message)
    except anyio.DelimiterNotFound:
        return f"it sent a message of more than {MAX_MESSAGE:,} bytes"
    except _ENDED:
        return ""


def _message(line: bytes) -> SessionMessage | None:
    """``None`` if the line is not a message: some MCP servers print other text."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None
