"""The writer: order, limits, and a reader that does not read."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread

import pytest

from deputy_server.rpc.writer import Writer

PIPE_HOLDS = 2**16


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """The reading and the writing end; a writer owns the writing end."""
    reading, writing = os.pipe()
    yield reading, writing
    with suppress(OSError):
        os.close(reading)


def drain(fd: int) -> bytes:
    data = b""
    while piece := os.read(fd, 2**20):
        data += piece
    return data


def drain_a_copy(fd: int) -> None:
    """For a thread that outlives its test, which may close ``fd`` meanwhile."""
    copy = os.dup(fd)
    drain(copy)
    os.close(copy)


@pytest.mark.asyncio
async def test_data_arrives_in_order_and_close_writes_the_rest(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    writer = Writer(writing)
    reader = asyncio.create_task(asyncio.to_thread(drain, reading))
    expected = b"".join(b"%d;" % n for n in range(20_000))
    for n in range(20_000):
        assert writer.write(b"%d;" % n)
    await writer.close(10)
    assert await reader == expected
    assert not writer.write(b"late")


@pytest.mark.asyncio
async def test_a_reader_that_stops_makes_the_writer_congested_until_it_continues(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    writer = Writer(writing, high_water=100_000)
    while not writer.congested:
        writer.write(b"x" * 10_000)
        await asyncio.sleep(0)
    waiting = asyncio.create_task(writer.wait_uncongested())
    await asyncio.sleep(0)
    assert not waiting.done()
    thread = Thread(target=drain_a_copy, args=(reading,), daemon=True)
    thread.start()
    async with asyncio.timeout(10):
        await waiting
    assert not writer.congested
    await writer.close(10)


@pytest.mark.asyncio
async def test_a_reader_that_never_reads_is_disconnected_at_the_hard_limit(pipe: tuple[int, int]) -> None:
    _, writing = pipe
    writer = Writer(writing, high_water=1_000, hard_limit=1_000_000)
    sent = 0
    while writer.write(b"x" * 10_000):
        sent += 1
    assert writer.closed
    assert sent * 10_000 <= 1_000_000 + PIPE_HOLDS + 20_000
    async with asyncio.timeout(10):
        await writer.wait_uncongested()
        await writer.wait_closed()


@pytest.mark.asyncio
async def test_close_waits_at_most_its_grace(pipe: tuple[int, int]) -> None:
    _, writing = pipe
    writer = Writer(writing)
    writer.write(b"x" * 1_000_000)
    async with asyncio.timeout(10):
        await writer.close(0.05)
    assert writer.closed


@pytest.mark.asyncio
async def test_a_reader_that_disconnects_closes_the_writer(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    writer = Writer(writing)
    os.close(reading)
    writer.write(b"anyone?")
    async with asyncio.timeout(10):
        await writer.wait_closed()
    assert not writer.write(b"no")


@pytest.mark.asyncio
async def test_a_non_blocking_descriptor_is_written_completely(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.set_blocking(writing, False)
    writer = Writer(writing)
    writer.write(b"x" * 1_000_000)
    reader = asyncio.create_task(asyncio.to_thread(drain, reading))
    await writer.close(10)
    assert len(await reader) == 1_000_000
