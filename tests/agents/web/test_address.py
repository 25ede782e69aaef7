"""Which addresses are public, and how hosts are read and shown."""

import ipaddress
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.errors import ToolError
from deputy_agents.web import address
from deputy_agents.web.address import is_public, parse_url, resolve_addresses
from deputy_agents.web.fetch import Fetcher, OtherSite
from tests.support.web_server import Page, site

PRIVATE_V4 = st.sampled_from(
    [
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
        *("192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        *("224.0.0.0/4", "240.0.0.0/4"),
    ]
)


@st.composite
def private_v4(draw: st.DrawFn) -> ipaddress.IPv4Address:
    network = ipaddress.IPv4Network(draw(PRIVATE_V4))
    return network[draw(st.integers(0, network.num_addresses - 1))]


@given(private_v4())
def test_a_private_address_is_not_public_in_any_disguise(ip: ipaddress.IPv4Address) -> None:
    number = int(ip)
    disguises = [
        str(ip),
        str(ipaddress.IPv6Address(number)),  # ::a.b.c.d
        str(ipaddress.IPv6Address(0xFFFF << 32 | number)),  # ::ffff:a.b.c.d
        str(ipaddress.IPv6Address(0xFFFF << 48 | number)),  # ::ffff:0:a.b.c.d
        str(ipaddress.IPv6Address(0x64FF9B << 96 | number)),  # 64:ff9b::a.b.c.d
        str(ipaddress.IPv6Address(0x64FF9B << 96 | 1 << 80 | number)),  # 64:ff9b:1::a.b.c.d
        str(ipaddress.IPv6Address(0x2002 << 112 | number << 80 | 1)),  # 6to4
        str(ipaddress.IPv6Address(0x2001 << 112 | number ^ 0xFFFFFFFF)),  # Teredo
        str(ipaddress.IPv6Address(0x20010DB9 << 96 | 0x5EFE << 32 | number)),  # ISATAP
        str(ipaddress.IPv6Address(0x26064700 << 96 | 0x02005EFE << 32 | number)),
    ]
    assert [one for one in disguises if is_public(one)] == []


@pytest.mark.parametrize(
    "ip",
    [
        *("::2", "100::1", "5f00::1", "fc00::1", "fec0::1", "febf::1", "feff:ffff::1", "ff0e::1", "1fff::1", "4000::1"),
        *("2001:1::1", "2001:1ff::1", "2001:20::1", "2001:db8::1", "2002:101:101::1", "3fff::1", "64:ff9b:1::101:101"),
        *("fe80::1%eth0", "2606:4700::1111%eth0", "127.1", "0x7f000001", "1.1.1.1.", " 1.1.1.1", "::ffff:1.1.1.1%1"),
    ],
)
def test_special_addresses_are_not_public(ip: str) -> None:
    assert not is_public(ip)


@pytest.mark.parametrize(
    "ip", ["8.8.8.8", "2001:4860:4860::8888", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "100.63.1.1"]
)
def test_addresses_of_the_internet_are_public(ip: str) -> None:
    assert is_public(ip)


def test_a_public_address_of_this_machine_is_not_public(monkeypatch: pytest.MonkeyPatch) -> None:
    class Probe(socket.socket):
        """A socket of a machine that has the address 8.8.8.8."""

        def connect(self, to: object, /) -> None:
            return None

        def getsockname(self) -> tuple[str, int]:
            return "8.8.8.8", 1

    monkeypatch.setattr(address.socket, "socket", Probe)
    assert not is_public("8.8.8.8")
    assert is_public("8.8.4.4")


@pytest.mark.parametrize(
    ("url", "site_of"),
    [
        *((f"http://{host}/", "127.0.0.1") for host in ("2130706433", "0x7f.1", "127.1", "0177.0.0.01", "0X7F000001")),
        ("http://127.0.0.1./", "127.0.0.1"),
        ("http://[::ffff:127.0.0.1]/", "127.0.0.1"),
        ("http://127\u30020\u30020\u30021/", "127.0.0.1"),
        ("http://[0:0:0:0:0:0:0:1]:8080/", "[::1]:8080"),
        ("http://fa\u00df.example/", "xn--fa-hia.example"),
        ("http://\u24d4xample.example/", "example.example"),
        ("http://\u0430pple.example/", "xn--pple-43d.example"),
    ],
)
def test_a_host_in_an_unusual_form_is_shown_in_its_usual_one(url: str, site_of: str) -> None:
    parsed = parse_url(url)
    assert parsed.site == site_of
    shown = parsed.shown(200)
    assert shown == url if f"//{parsed.name}" in url else shown == f"{url} ({parsed.name})"


def test_a_host_that_is_too_long_to_be_seen_is_shown_after_the_url() -> None:
    host = f"docs.example.{'a' * 60}.{'b' * 60}.{'c' * 60}.evil.example"
    assert parse_url(f"https://{host}/x").shown(100).endswith(f"… ({host})")
    assert parse_url("https://docs.example/" + "x" * 300).shown(100).endswith("xxx…")


@pytest.mark.parametrize(
    "host",
    [
        *(
            "[fe80::1%25eth0]",
            "[fe80::1%eth0]",
            "256.1.1.1",
            "1.2.3.4.5",
            "0x1ffffffff",
            "a..example",
            ".",
            "a%2eexample",
        ),
        *("a\\b", "a b", "a_b.example:99999", "[::1", "a[1]", "1.2.3.0x", "\u0661\u0662.0.0.1", f"{'a' * 64}.example"),
    ],
)
def test_a_host_that_programs_read_in_different_ways_is_rejected(host: str) -> None:
    with pytest.raises(ToolError, match=r"^url: "):
        parse_url(f"http://{host}/")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "localhost.", "LOCALHOST", "a.localhost", "localhost.localdomain", "intranet", "printer.local"),
        *("metadata.google.internal", "metadata", "nas.lan", "router.home.arpa", "wiki.corp"),
    ],
)
async def test_local_names_are_not_even_resolved(host: str) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        raise AssertionError

    with pytest.raises(ToolError, match="private network"):
        await resolve_addresses(parse_url(f"http://{host}/"), resolve, private=False)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (302, {}),
        (301, {"Location": ""}),
        (308, {"Location": "http://["}),
        (303, {"Location": "https://a.example/" + "x" * 5000}),
    ],
)
async def test_a_redirect_without_a_usable_address_is_an_error(status: int, headers: dict[str, str]) -> None:
    reason = rf"redirects \({status}\) without a usable address\."
    with (
        site({"/": Page(b"moved", status=status, headers=headers)}) as opened,
        pytest.raises(ToolError, match=reason),
    ):
        await Fetcher(lambda: True).get(opened.url("/"))


@pytest.mark.asyncio
async def test_a_redirect_to_another_form_of_the_same_host_is_another_site_only_if_it_is_one(workspace: Path) -> None:
    with site(
        {
            "/b": Page(b"text", "text/plain"),
            "/a": lambda s: Page(status=302, headers={"Location": s.url("/b", "127.1")}),
        }
    ) as s:
        page = await Fetcher(lambda: True).get(s.url("/a"))
        assert not isinstance(page, OtherSite)
