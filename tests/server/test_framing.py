"""Framing: what is accepted, what is skipped, and where reading is back in step."""

import asyncio
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_server.rpc.framing import (
    MAX_HEADER_LINE,
    FrameError,
    Frames,
    Lines,
    MessageReader,
    frame_with_header,
    new_reader,
)


def read_all(
    data: bytes,
    *,
    limit: int = 1000,
    cuts: list[int] | None = None,
    messages: Callable[[asyncio.StreamReader], MessageReader] | None = None,
    max_line: int = MAX_HEADER_LINE,
) -> list[bytes | FrameError]:
    """Everything that is read from ``data``, which arrives in pieces, by default as ``Frames``."""

    async def run() -> list[bytes | FrameError]:
        reader = new_reader(max_line)
        edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts or []), len(data)]

        async def feed() -> None:
            for start, end in pairwise(edges):
                reader.feed_data(data[start:end])
                await asyncio.sleep(0)
            reader.feed_eof()

        feeding = asyncio.create_task(feed())
        source: MessageReader = Frames(reader, limit=limit) if messages is None else messages(reader)
        found: list[bytes | FrameError] = []
        while (message := await source.read()) is not None:
            found.append(message)
        await feeding
        return found

    return asyncio.run(run())


@given(bodies=st.lists(st.binary(max_size=50), max_size=5), cuts=st.lists(st.integers(min_value=0), max_size=10))
def test_bodies_arrive_complete_and_in_order_however_the_stream_is_split(bodies: list[bytes], cuts: list[int]) -> None:
    assert read_all(b"".join(map(frame_with_header, bodies)), cuts=cuts) == bodies


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
def test_every_reasonable_form_of_header_is_accepted(header: bytes) -> None:
    assert read_all(header + b"{}") == [b"{}"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"Content-Length: -5\r\n\r\n",
        b"Content-Length: many\r\n\r\n",
        b"Content-Length: 99999999999999999999999999\r\n\r\n",
        b"Content-Type: text/plain\r\n\r\n",
        b"hello there\r\n\r\n",
        b"x" * 200_000 + b"\r\n\r\n",
    ],
)
def test_a_bad_header_is_reported_once_and_the_next_frame_is_read(garbage: bytes) -> None:
    assert read_all(garbage + frame_with_header(b"{}")) == [FrameError.BAD_HEADER, b"{}"]


FOREIGN = [
    b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n",
    b"GET http://127.0.0.1:80/ HTTP/1.1\r\n\r\n",
    b"Content-Type: text/plain\r\nPOST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n",
    b"Host: 127.0.0.1\r\nContent-Length: 2\r\n\r\n",
    b"Content-Length: 2\r\nX-Unknown: a:b\r\n\r\n",
    b"X-Content-Length: 2\r\n\r\n",
    b"Content-Length : 2\r\n Content-Length: 2; x\r\nOrigin: http://evil\r\n\r\n",
    b"\x16\x03\x01\x02\n",
    b"\r\n\r\nhello\r\n\r\n",
    b"x" * 200_000 + b"\r\n\r\n",
]


def strict(reader: asyncio.StreamReader) -> MessageReader:
    return Frames(reader, strict=True)


@pytest.mark.parametrize("header", FOREIGN)
@pytest.mark.parametrize("before", [b"", frame_with_header(b"{}")])
def test_a_strict_reader_reads_nothing_after_a_foreign_header(header: bytes, before: bytes) -> None:
    found = read_all(before + header + b"{}" + frame_with_header(b"{}"), messages=strict)
    assert found == [b"{}"] * bool(before) + [FrameError.FOREIGN]


@given(cuts=st.lists(st.integers(min_value=0), max_size=10), header=st.sampled_from(FOREIGN))
def test_a_foreign_header_is_foreign_however_the_stream_is_split(cuts: list[int], header: bytes) -> None:
    assert read_all(header + frame_with_header(b"{}"), cuts=cuts, messages=strict) == [FrameError.FOREIGN]


@pytest.mark.parametrize(
    "header",
    [
        b"content-length: 2\r\n\r\n",
        b"Content-Length: 2\n\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 2\r\n\r\n",
        b"\r\n\r\nContent-Length: 2\r\n\r\n",
    ],
)
def test_a_strict_reader_accepts_the_headers_of_lsp(header: bytes) -> None:
    assert read_all(header + b"{}", messages=strict) == [b"{}"]


def test_garbage_before_a_valid_length_is_ignored() -> None:
    assert read_all(b"stray output\r\n" + frame_with_header(b"{}")) == [b"{}"]


def test_a_body_over_the_limit_is_skipped() -> None:
    assert read_all(frame_with_header(b"x" * 5000) + frame_with_header(b"{}"), limit=1000) == [
        FrameError.TOO_LARGE,
        b"{}",
    ]


@pytest.mark.parametrize("cut", [b"", b"Content-Le", b"Content-Length: 10\r\n", b"Content-Length: 10\r\n\r\n{}"])
def test_an_unfinished_last_frame_is_dropped(cut: bytes) -> None:
    assert read_all(frame_with_header(b"{}") + cut) == [b"{}"]


@given(cuts=st.lists(st.integers(min_value=0), max_size=10))
def test_an_overlong_header_line_is_an_error_however_the_stream_is_split(cuts: list[int]) -> None:
    data = b"x" * 500 + b"\r\n\r\n" + frame_with_header(b"{}")
    assert read_all(data, cuts=cuts, max_line=100) == [FrameError.BAD_HEADER, b"{}"]


@given(cuts=st.lists(st.integers(min_value=0), max_size=10))
def test_lines_are_read_one_by_one_without_blank_overlong_and_unfinished_ones(cuts: list[int]) -> None:
    data = b"one\n\n  \r\n" + b"x" * 500 + b"\ntwo\r\nunfinished"
    found = read_all(data, cuts=cuts, messages=Lines, max_line=100)
    assert found == [b"one\n", FrameError.TOO_LARGE, b"two\r\n"]


@pytest.mark.parametrize("messages", [Frames, Lines])
def test_a_stream_that_breaks_has_ended(messages: Callable[[asyncio.StreamReader], MessageReader]) -> None:
    async def run() -> object:
        reader = new_reader()
        reader.set_exception(ConnectionResetError())
        return await messages(reader).read()

    assert asyncio.run(run()) is None
