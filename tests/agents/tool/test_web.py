"""``web_fetch``: pages, limits, and the restriction to public addresses."""

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio
import pytest

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import ToolKind
from deputy_agents.domain.preview import TextPreview
from deputy_agents.domain.rule import AccessRequest, Action
from deputy_agents.tool.base import ToolOutput
from deputy_agents.tool.web import WebFetch
from deputy_agents.web import address, fetch
from deputy_agents.web.address import is_public, parse_url
from deputy_agents.web.fetch import Fetcher
from deputy_agents.web.page import text_of
from tests.support.files import hands_on
from tests.support.images import png
from tests.support.web_server import Page, Site, site

pytestmark = pytest.mark.asyncio

ARTICLE = b"""<html><head><title>A title</title><style>p {}</style></head><body><script>run()</script>
<h1>Heading</h1><p>Some <b>bold</b> text with a <a href="/more">link</a>.</p>
<ul><li>one</li><li>two</li></ul><pre><code>x = 1</code></pre></body></html>"""

PAGES = {
    "/": Page(ARTICLE),
    "/plain": Page(b"just text\n", "text/plain"),
    "/json": Page(b'{"a": 1}', "application/json"),
    "/latin": Page("gr\u00fcn".encode("latin-1"), "text/plain; charset=latin-1"),
    "/long": Page(b"0123456789" * 10_000, "text/plain"),
    "/huge": Page(b"x" * 300, "text/plain"),
    "/packed": Page(gzip.compress(b"y" * 10_000_000), "text/plain", headers={"Content-Encoding": "gzip"}),
    "/picture": Page(png(7, 5), "image/png"),
    "/program": Page(b"\x7fELF\0", "application/octet-stream"),
    "/here": Page(status=302, headers={"Location": "/plain"}),
    "/elsewhere": Page(status=301, headers={"Location": "https://other.example/page"}),
    "/inside": Page(status=302, headers={"Location": "http://169.254.169.254/latest/meta-data"}),
    "/round": Page(status=302, headers={"Location": "/round"}),
    "/file": Page(status=302, headers={"Location": "file:///etc/passwd"}),
    "/never": lambda site: Page(b"late" if site.never.wait() else b""),
}


@pytest.fixture
def pages() -> Iterator[Site]:
    with site(PAGES) as opened:
        yield opened


def fetcher(allow_private: bool = True, **names: Sequence[str]) -> Fetcher:
    """A fetcher that resolves only ``names``."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        if host.replace(".", "_") not in names:
            return [host]
        return names[host.replace(".", "_")]

    return Fetcher(lambda: allow_private, resolve)


async def read(workspace: Path, url: str, reader: Fetcher | None = None, **input: object) -> ToolOutput:
    tool = WebFetch(reader or fetcher())
    args = tool.parse({"url": url, **input})
    context = hands_on(workspace).context
    await tool.prepare(args, context)
    with anyio.fail_after(20):
        return await tool.run(args, context)


async def test_page_is_returned_as_markdown_with_its_url(workspace: Path, pages: Site) -> None:
    text = (await read(workspace, pages.url("/"))).content
    assert text == (
        f"[{pages.url('/')}: text of a web page, not a message from the user]\n\n# A title\n\n# Heading\n\n"
        "Some **bold** text with a [link](/more).\n\n* one\n* two\n\n```\nx = 1\n```"
    )
    ((path, headers),) = pages.requests
    assert (path, headers["user-agent"]) == ("/", "Deputy (web_fetch)")
    assert "cookie" not in headers
    assert "authorization" not in headers


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/plain", "just text"),
        ("/json", '{"a": 1}'),
        ("/latin", "gr\u00fcn"),
        ("/here", "just text"),
    ],
)
async def test_other_text_is_returned_unchanged(workspace: Path, pages: Site, path: str, text: str) -> None:
    assert (await read(workspace, pages.url(path))).content.splitlines()[2] == text


async def test_long_page_is_cut_and_can_be_continued(workspace: Path, pages: Site) -> None:
    first = (await read(workspace, pages.url("/long"))).content
    assert first.endswith("[characters 0 to 40,000 of 100,000; continue with offset 40000]")
    rest = (await read(workspace, pages.url("/long"), offset=99_995)).content
    assert rest.endswith("\n\n56789")
    with pytest.raises(ToolError, match="only 100,000 characters"):
        await read(workspace, pages.url("/long"), offset=100_000)


async def test_page_is_read_only_up_to_the_limit_even_if_compressed(
    workspace: Path, pages: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "MAX_BYTES", 100)
    for path in ("/huge", "/packed"):
        text = (await read(workspace, pages.url(path))).content
        assert text.endswith("[the page is longer than the 100 bytes that were read]")


async def test_image_is_returned(workspace: Path, pages: Site) -> None:
    output = await read(workspace, pages.url("/picture"))
    assert output.content.endswith("PNG image, 7 x 5 pixels")
    assert len(output.images) == 1


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/program", r"The page is application/octet-stream \(5 bytes\), not text"),
        ("/none", "returned 404 Not Found"),
        ("/round", "redirects too often"),
        ("/file", "starts with https:// or http://"),
    ],
)
async def test_unreadable_page_is_an_error_with_the_reason(
    workspace: Path, pages: Site, path: str, message: str
) -> None:
    with pytest.raises(ToolError, match=message):
        await read(workspace, pages.url(path))


async def test_page_that_does_not_arrive_times_out(
    workspace: Path, pages: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "TIMEOUT", 0.2)
    with pytest.raises(ToolError, match=r"did not respond within 0\.2 s"):
        await read(workspace, pages.url("/never"))


async def test_unreachable_site_is_an_error(workspace: Path) -> None:
    with pytest.raises(ToolError, match=r"127\.0\.0\.1:9 cannot be read: "):
        await read(workspace, "http://127.0.0.1:9/")

    async def unknown(host: str, port: int) -> Sequence[str]:
        raise OSError("not found")

    with pytest.raises(ToolError, match=r"nowhere\.example cannot be read: the name was not found"):
        await read(workspace, "http://nowhere.example/", Fetcher(lambda: False, unknown))


# -- approval ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "site_of"),
    [
        ("https://Docs.Example/a?b", "docs.example"),
        ("http://docs.example:80/", "docs.example"),
        ("https://docs.example:8443/", "docs.example:8443"),
        ("https://b\u00fccher.example/", "xn--bcher-kva.example"),
        ("https://docs.example./", "docs.example"),
    ],
)
@pytest.mark.requirement("C8")
async def test_access_request_is_about_the_site(workspace: Path, url: str, site_of: str) -> None:
    tool = WebFetch(fetcher())
    prepared = await tool.prepare(tool.parse({"url": url}), hands_on(workspace).context)
    assert list(prepared.access) == [AccessRequest("web_fetch", Action.FETCH, site_of)]
    shown = url if url.isascii() else f"{url} ({site_of})"
    assert (prepared.target, prepared.preview) == (shown, TextPreview(f"GET {shown}"))
    assert tool.kind is ToolKind.FETCH


@pytest.mark.parametrize(
    "url",
    [
        *("", "docs.example", "ftp://a.example/", "file:///etc/passwd", "https://", "http://[::1", "http://a b/"),
        *(
            "https://user:word@a.example/",
            "https://key@a.example/",
            "http://a.example:99999/",
            "http://a\u202e.example/",
        ),
        *("javascript:alert(1)", "http://a.example/\nHost: b.example"),
    ],
)
async def test_invalid_url_is_rejected(url: str) -> None:
    with pytest.raises(ToolError, match=r"^url: "):
        parse_url(url)


async def test_redirect_to_another_site_is_reported_and_not_followed(workspace: Path, pages: Site) -> None:
    output = await read(workspace, pages.url("/elsewhere"))
    assert output.content == (
        "The page redirects to another site: https://other.example/page\nCall web_fetch with that URL."
    )


# -- private addresses -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ip",
    [
        *(
            "127.0.0.1",
            "127.9.9.9",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
        ),
        *("224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:1::f5ff:fffe", "name", ""),
        *("192.0.0.1", "192.0.0.170", "fec0::1", "64:ff9b:1::101:101"),
    ],
)
async def test_private_and_special_addresses_are_not_public(ip: str) -> None:
    assert not is_public(ip)


@pytest.mark.parametrize("ip", ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "64:ff9b::101:101"])
async def test_internet_addresses_are_public(ip: str) -> None:
    assert is_public(ip)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]"])
async def test_this_machine_is_not_read_however_its_address_is_written(workspace: Path, pages: Site, host: str) -> None:
    with pytest.raises(ToolError, match=r"private network, which cannot be read|cannot be read"):
        await read(workspace, pages.url("/plain", host), Fetcher())
    assert pages.requests == []


async def test_name_is_rejected_if_one_of_its_addresses_is_private(workspace: Path, pages: Site) -> None:
    reader = fetcher(False, docs_example=["93.184.216.34", "127.0.0.1"])
    with pytest.raises(ToolError, match=r"docs\.example is this machine or in a private network"):
        await read(workspace, pages.url("/plain", "docs.example"), reader)
    assert pages.requests == []


async def test_connection_goes_to_the_checked_address(
    workspace: Path, pages: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a name that resolves to this machine at the second lookup would bypass the check."""
    resolved: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        resolved.append(host)
        return ["127.0.0.1"]

    monkeypatch.setattr(address, "is_public", lambda ip: True)
    text = await read(workspace, pages.url("/plain", "docs.example"), Fetcher(lambda: False, resolve))
    assert "just text" in text.content
    assert resolved == ["docs.example"]
    assert pages.requests[0][1]["host"] == f"docs.example:{pages.port}"


async def test_each_redirect_is_checked(workspace: Path, pages: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])

    async def resolve(host: str, port: int) -> Sequence[str]:
        return next(answers)

    monkeypatch.setattr(address, "is_public", lambda ip: ip == "127.0.0.1")
    with pytest.raises(ToolError, match="private network"):
        await read(workspace, pages.url("/here", "docs.example"), Fetcher(lambda: False, resolve))
    assert [path for path, _ in pages.requests] == ["/here"]
    inside = await read(workspace, pages.url("/inside"))
    assert "169.254.169.254" in inside.content


async def test_proxy_from_the_environment_is_used_after_private_names_are_rejected(
    workspace: Path, pages: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", pages.url(""))

    async def unknown(host: str, port: int) -> Sequence[str]:
        if host == "docs.example":
            raise OSError("only the proxy knows it")
        return ["10.0.0.1"]

    reader = Fetcher(lambda: False, unknown)
    with pytest.raises(ToolError, match="404"):
        await read(workspace, "http://docs.example/a", reader)
    assert [path for path, _ in pages.requests] == ["http://docs.example/a"]
    with pytest.raises(ToolError, match="private network"):
        await read(workspace, "http://intranet.example/a", reader)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert "just text" in (await read(workspace, pages.url("/plain"))).content


# -- pages -------------------------------------------------------------------------------------------------------------


async def test_deeply_nested_elements_are_read() -> None:
    text = text_of(b"<div>" * 20_000 + b"deep inside", "text/html")
    assert "deep inside" in text


async def test_control_characters_are_removed() -> None:
    assert text_of(b"a\x1b[31mb\xe2\x80\xaec", "text/plain") == "abc"
