"""Framing: what is taken, what is skipped, and where reading falls into step again."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_server.lsp.framing import Fault, Frames, new_reader


def read_all(data: bytes, *, limit: int = 1000, cuts: list[int] | None = None) -> list[bytes | Fault]:
    """Everything that is read of ``data``, which arrives in pieces."""

    async def run() -> list[bytes | Fault]:
        reader = new_reader()
        edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts or []), len(data)]

        async def feed() -> None:
            for start, end in pairwise(edges):
                reader.feed_data(data[start:end])
                await asyncio.sleep(0)
            reader.feed_eof()

        feeding = asyncio.create_task(feed())
        frames, got = Frames(reader, limit=limit), []
        while (frame := await frames.read()) is not None:
            got.append(frame)
        await feeding
        return got

    return asyncio.run(run())


def frame(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


@given(bodies=st.lists(st.binary(max_size=50), max_size=5), cuts=st.lists(st.integers(min_value=0), max_size=10))
def test_bodies_arrive_whole_and_in_order_however_the_bytes_are_cut(bodies: list[bytes], cuts: list[int]) -> None:
    assert read_all(b"".join(map(frame, bodies)), cuts=cuts) == bodies


@pytest.mark.parametrize(
    "header",
    [
        b"content-length: 2\r\n\r\n",
        b"CONTENT-LENGTH:2\r\n\r\n",
        b"Content-Length: 2\n\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 2\r\n\r\n",
        b"Content-Length: 2\r\nX-Unknown: a:b\r\n\r\n",
        b"\r\n\r\nContent-Length: 2\r\n\r\n",
    ],
)
def test_headers_are_taken_in_every_reasonable_form(header: bytes) -> None:
    assert read_all(header + b"{}") == [b"{}"]


@pytest.mark.parametrize(
    "rubbish",
    [
        b"Content-Length: -5\r\n\r\n",
        b"Content-Length: many\r\n\r\n",
        b"Content-Length: 99999999999999999999999999\r\n\r\n",
        b"Content-Type: text/plain\r\n\r\n",
        b"hello there\r\n\r\n",
        b"x" * 200_000 + b"\r\n\r\n",
    ],
)
def test_a_bad_header_is_reported_once_and_the_next_frame_is_read(rubbish: bytes) -> None:
    assert read_all(rubbish + frame(b"{}")) == [Fault.BAD_HEADER, b"{}"]


def test_rubbish_in_front_of_a_proper_length_costs_nothing() -> None:
    assert read_all(b"stray output\r\n" + frame(b"{}")) == [b"{}"]


def test_a_body_over_the_limit_is_skipped_without_being_kept() -> None:
    assert read_all(frame(b"x" * 5000) + frame(b"{}"), limit=1000) == [Fault.TOO_LARGE, b"{}"]


@pytest.mark.parametrize("cut", [b"", b"Content-Le", b"Content-Length: 10\r\n", b"Content-Length: 10\r\n\r\n{}"])
def test_a_stream_that_ends_inside_a_frame_has_ended(cut: bytes) -> None:
    assert read_all(frame(b"{}") + cut) == [b"{}"]
