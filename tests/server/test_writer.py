"""The writer: order, bounds, and a reader that does not read."""

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
    """The reading and the writing end; a writer owns the latter."""
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
    """For a thread that outlives its test: closing ``fd`` meanwhile does not trouble it."""
    copy = os.dup(fd)
    drain(copy)
    os.close(copy)


@pytest.mark.asyncio
async def test_what_is_written_arrives_in_order_and_closing_sends_the_rest(pipe: tuple[int, int]) -> None:
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
async def test_a_reader_that_stops_makes_the_writer_congested_until_it_reads_on(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    writer = Writer(writing, high_water=100_000)
    while not writer.congested:
        writer.write(b"x" * 10_000)
        await asyncio.sleep(0)
    waiting = asyncio.create_task(writer.at_ease())
    await asyncio.sleep(0)
    assert not waiting.done()
    thread = Thread(target=drain_a_copy, args=(reading,), daemon=True)
    thread.start()
    async with asyncio.timeout(10):
        await waiting
    assert not writer.congested
    await writer.close(10)


@pytest.mark.asyncio
async def test_a_reader_that_never_reads_is_given_up_before_memory_is(pipe: tuple[int, int]) -> None:
    _, writing = pipe
    writer = Writer(writing, high_water=1_000, hard_limit=1_000_000)
    sent = 0
    while writer.write(b"x" * 10_000):
        sent += 1
    assert writer.closed
    assert sent * 10_000 <= 1_000_000 + PIPE_HOLDS + 20_000
    async with asyncio.timeout(10):
        await writer.at_ease()
        await writer.wait_closed()


@pytest.mark.asyncio
async def test_closing_waits_no_longer_than_its_grace(pipe: tuple[int, int]) -> None:
    _, writing = pipe
    writer = Writer(writing)
    writer.write(b"x" * 1_000_000)
    async with asyncio.timeout(10):
        await writer.close(0.05)
    assert writer.closed


@pytest.mark.asyncio
async def test_a_reader_that_is_gone_is_noticed(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    writer = Writer(writing)
    os.close(reading)
    writer.write(b"anyone?")
    async with asyncio.timeout(10):
        await writer.wait_closed()
    assert not writer.write(b"no")


@pytest.mark.asyncio
async def test_a_descriptor_that_does_not_block_is_waited_for(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.set_blocking(writing, False)
    writer = Writer(writing)
    writer.write(b"x" * 1_000_000)
    reader = asyncio.create_task(asyncio.to_thread(drain, reading))
    await writer.close(10)
    assert len(await reader) == 1_000_000
