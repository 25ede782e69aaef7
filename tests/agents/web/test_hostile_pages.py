"""Pages that cost a converter or a decoder all time and memory: each ends in bounded time and leaves nothing behind."""

import gzip
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import psutil
import pytest

from deputy_agents.domain.errors import ToolError
from deputy_agents.tool import conversion, page_process
from deputy_agents.tool.page_process import page_text
from deputy_agents.tool.web import WebFetch
from deputy_agents.web import fetch
from deputy_agents.web.fetch import MAX_BYTES, Fetcher
from tests.support.commands import Started, until
from tests.support.connections import serving
from tests.support.files import hands_on
from tests.support.web_server import Page, Site, site

pytestmark = pytest.mark.asyncio

SIZE = 200 * 1024
BOUND = 15
"""Seconds for one page on a busy machine. The worst of these took minutes."""


def filled(piece: str, size: int = SIZE) -> bytes:
    return (piece * (size // len(piece) + 1))[:size].encode()


ATTRIBUTES = " ".join(f"a{number}=1" for number in range(SIZE // 8))
HOSTILE = {
    **{
        f"nested {tag}": filled(f"<{tag}>") + b"deep inside" for tag in ("div", "table><tr><td", "blockquote", "ul><li")
    },
    **{f"unclosed {tag}": filled(f"<{tag}>x") for tag in ("b", "em><strong", "a href=x", "a><b><i><p", "font size=1")},
    "attributes": f"<p {ATTRIBUTES}>x</p>".encode(),
    "open quotes": filled('<a href="'),
    "less-than signs": filled("<", 1024 * 1024),
    "open tags": filled("<a "),
    "ends of tags": filled("</"),
    "open comments": filled("<!--"),
    "markup declarations": filled("<!"),
    "document types": filled("<!DOCTYPE "),
    "processing instructions": filled("<?"),
    "CDATA": filled("<![CDATA["),
    "spaces": b"<p>" + b" " * SIZE + b"x",
    "line ends": b"<pre>" + b"\n" * SIZE + b"x",
    "entities": filled("&amp;"),
    "ampersands": filled("&"),
    "a huge number": b"<div>" * 3000 + b"&#" + b"9" * 10_000 + b";",
    "wide table": b"<table><tr>" + filled("<td>a") + b"</table>",
    "huge column span": b"<table><tr><td colspan=1000000000>a</table>",
    "huge list number": b"<ol start=" + b"9" * 1000 + b">" + filled("<li>a"),
    "titles": filled("<title"),
    "scripts": filled("<script>"),
    "foreign elements": filled("<svg><foreignObject><math>"),
    "zero bytes": b"<p>" + b"\0" * SIZE,
    "a slow character set": b"<meta charset=punycode>" + filled("a-") + b"x" * SIZE,
    "a computing character set": b"<meta charset=unicode_escape>" + filled("\\ud800"),
}


class Lag:
    """The longest time that the event loop was blocked."""

    longest = 0.0

    async def watch(self) -> None:
        while True:
            before = time.monotonic()
            await anyio.sleep(0.005)
            self.longest = max(self.longest, time.monotonic() - before)


@pytest.fixture
def pages() -> Iterator[Site]:
    with site({f"/{number}": Page(body) for number, body in enumerate(HOSTILE.values())}) as opened:
        yield opened


async def fetch_text(workspace: Path, url: str) -> str:
    tool = WebFetch(Fetcher(lambda: True))
    args = tool.parse({"url": url})
    try:
        return (await tool.run(args, hands_on(workspace).context)).content
    except ToolError as error:
        return f"error: {error}"


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_page_is_converted_or_rejected_in_bounded_time(
    workspace: Path, pages: Site, name: str, started: Started
) -> None:
    lag = Lag()
    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lag.watch)
            text = await fetch_text(workspace, pages.url(f"/{list(HOSTILE).index(name)}"))
            tasks.cancel_scope.cancel()
    assert not text.startswith("error") or "cannot be converted to text" in text
    assert started() == []
    assert lag.longest < 5


async def test_text_in_a_page_that_is_nested_too_deeply_is_kept() -> None:
    page = b"<p>before<script>run()</script>" + b"<div>" * 20_000 + b"deep &amp; inside"
    assert await page_text(page, "text/html") == "before\ndeep & inside"


async def test_a_conversion_that_is_cancelled_ends_with_its_process(workspace: Path, started: Started) -> None:
    page = filled("<!DOCTYPE ", MAX_BYTES)  # takes minutes
    lag = Lag()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lag.watch)
        async with anyio.create_task_group() as converting:
            converting.start_soon(page_text, page, "text/html")
            await until(lambda: bool(started()))
            converting.cancel_scope.cancel()
        assert started() == []
        tasks.cancel_scope.cancel()
    assert lag.longest < 5


async def test_a_conversion_has_a_time_limit_and_the_next_one_works(
    monkeypatch: pytest.MonkeyPatch, started: Started
) -> None:
    monkeypatch.setattr(page_process, "TIMEOUT", 1.0)
    with anyio.fail_after(BOUND):
        with pytest.raises(ToolError, match=r"cannot be converted to text within 1 s"):
            await page_text(filled("<!DOCTYPE ", MAX_BYTES), "text/html")
        assert started() == []
        monkeypatch.undo()
        assert await page_text(b"<h1>Fine</h1>", "text/html") == "# Fine"


async def test_conversions_that_run_at_the_same_time_are_few(started: Started) -> None:
    most = 0
    async with anyio.create_task_group() as tasks:
        for _ in range(12):
            tasks.start_soon(page_text, filled("<!DOCTYPE ", SIZE), "text/html")
        with anyio.move_on_after(2):
            while True:
                mine = {child.pid for child in psutil.Process().children()}
                most = max(most, sum(one.pid in mine for one in started()))
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert 0 < most <= conversion.PARALLEL


# -- bodies ------------------------------------------------------------------------------------------------------------

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


def endless(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"\r\n")
    while True:
        connection.sendall(b"x" * 65536)


def many_chunks(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"1\r\nx\r\n" * 10_000)


def slow(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"\r\n")
    while True:
        connection.sendall(b"x")
        time.sleep(0.02)


def slow_head(connection: socket.socket) -> None:
    connection.sendall(HEAD)
    while True:
        connection.sendall(b"X: y\r\n")
        time.sleep(0.02)


def huge_head(connection: socket.socket) -> None:
    connection.sendall(HEAD)
    while True:
        connection.sendall(b"X: " + b"y" * 60_000 + b"\r\n")


def early_hints(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100)


def bomb(connection: socket.socket) -> None:
    """10 MB that become 10 GB."""
    packer = zlib.compressobj(9, wbits=31)
    connection.sendall(HEAD + b"Content-Encoding: gzip\r\n\r\n")
    piece = b"x" * (1024 * 1024)
    for _ in range(10_000):
        connection.sendall(packer.compress(piece))


def nested_bomb(connection: socket.socket) -> None:
    inner = gzip.compress(gzip.compress(bytes(50 * 1024 * 1024)))
    connection.sendall(HEAD + b"Content-Encoding: gzip, gzip\r\n\r\n" + inner)


def other_encoding(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"Content-Encoding: br\r\n\r\n" + b"x" * 1000)


def empty_blocks(connection: socket.socket) -> None:
    """Compressed data without end that contains nothing."""
    connection.sendall(HEAD + b"Content-Encoding: deflate\r\n\r\n" + b"\x78\x9c")
    while True:
        connection.sendall(b"\x00\x00\x00\xff\xff" * 10_000)


@pytest.mark.parametrize(
    ("serve", "result"),
    [
        (endless, "0 to 40,000 of 5,242,880"),
        (many_chunks, "did not respond within"),
        (slow, "did not respond within"),
        (slow_head, "did not respond within"),
        (huge_head, "cannot be read"),
        (early_hints, "did not respond within"),
        (bomb, "0 to 40,000 of 5,242,880"),
        (nested_bomb, "an encoding that was not requested"),
        (other_encoding, "an encoding that was not requested"),
        (empty_blocks, "did not respond within"),
    ],
)
async def test_a_body_without_end_or_measure_is_cut(
    workspace: Path, serve: Callable[[socket.socket], None], result: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "TIMEOUT", 1.0)

    def answer(connection: socket.socket) -> None:
        connection.recv(4096)
        serve(connection)

    lag = Lag()
    with serving(answer) as port, anyio.fail_after(BOUND):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lag.watch)
            text = await fetch_text(workspace, f"http://127.0.0.1:{port}/")
            tasks.cancel_scope.cancel()
    assert result in text or "did not respond within" in text
    assert lag.longest < 5


# -- character sets ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "content_type", "text"),
    [
        ("grün".encode("latin-1"), "text/html; charset=ISO-8859-1", "grün"),
        ("„grün“".encode("cp1252"), "text/html; charset=iso-8859-1", "„grün“"),
        ('<meta charset="koi8-r"><p>мир'.encode("koi8-r"), "text/html", "мир"),
        ("<p>日本".encode("shift_jis"), "text/html; charset='Shift_JIS'", "日本"),
        ("<p>мир".encode("utf-16"), "text/html", "мир"),
        ("\ufeff<p>мир".encode(), "text/html; charset=latin-1", "мир"),
        ("<p>мир".encode(), "text/html; charset=no-such-set", "мир"),
        (b"<p>+AGEAYg-", "text/html; charset=utf-7", "+AGEAYg-"),
        (b"a\\u0062", "text/plain; charset=unicode_escape", "a\\u0062"),
        (b"cnVu", "text/plain; charset=base64", "cnVu"),
    ],
)
async def test_a_page_is_read_in_its_character_set_if_the_web_has_it(data: bytes, content_type: str, text: str) -> None:
    assert await page_text(data, content_type) == text


async def test_what_a_reader_does_not_see_is_left_out() -> None:
    page = b"""<title>A &amp; B</title><p>seen<p hidden>hidden<p style="display:none">none</p><script>run()</script>
    <style>p {}</style><noscript>no script</noscript><template>t</template><svg><text>drawn</text></svg>
    <iframe src=x>frame</iframe><img alt=picture src="data:image/png;base64,AAAA">"""
    assert await page_text(page, "text/html") == "# A & B\n\nseen\n\npicture"
