"""A server that only notes whether somebody connects."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path


@asynccontextmanager
async def listening(at: str | Path) -> AsyncGenerator[asyncio.Event]:
    """A server on a loopback port or at a path; the event is set once somebody has connected."""
    reached = asyncio.Event()

    async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()
        writer.close()

    server = (
        await asyncio.start_unix_server(take, at)
        if isinstance(at, Path)
        else await asyncio.start_server(take, "127.0.0.1", int(at))
    )
    async with server:
        yield reached
