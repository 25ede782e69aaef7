"""Restricts web access to public addresses, so that pages only this machine can reach are not read.

A host name is resolved once, every address of it must be public, and the connection goes to one of the checked
addresses. A name that resolves to another address a moment later (DNS rebinding) has no effect.
"""

import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import SplitResult, urlsplit

import anyio

from deputy_agents.domain.errors import ToolError
from deputy_agents.text import cut, visible

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves host and port to IP addresses, as text. Raises OSError."""

_PORTS = {"http": 80, "https": 443}
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")
_LOCAL_NAMES = (
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "home.arpa",
)
"""Domains of this machine and of private networks; ``metadata.google.internal`` is one of their names."""

_NETWORKS_OF_IPV6 = (ipaddress.ip_network("2000::/3"), ipaddress.ip_network("64:ff9b::/96"))
"""Global unicast addresses, and those of NAT64 gateways, which contain an IPv4 address. All others are special."""
_NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        (
            *("192.0.0.0/24", "192.88.99.0/24", "100.64.0.0/10", "198.18.0.0/15", "240.0.0.0/4"),
            # Protocols and tunnels, among them Teredo, ORCHID and 6to4, whose gateways lead to IPv4 addresses.
            *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
        ),
    )
)
"""Networks that are not all private in every Python version."""
_ISATAP = (0x00005EFE, 0x02005EFE)
"""The third 32 bits of an IPv6 address that ends with an IPv4 address to which a tunnel leads."""


@dataclass(frozen=True, slots=True)
class WebAddress:
    """A parsed URL. ``host`` is a name in ASCII without a final dot, or an IP address in its usual form."""

    url: str
    scheme: str
    host: str
    port: int

    @property
    def site(self) -> str:
        """The subject of permission rules: the host, with its port unless that is a default."""
        return self.name if self.port in _PORTS.values() else f"{self.name}:{self.port}"

    @property
    def authority(self) -> str:
        """The host and the port as in a request for this URL."""
        return self.name if self.port == _PORTS[self.scheme] else f"{self.name}:{self.port}"

    @property
    def name(self) -> str:
        """The host as in URLs, where IPv6 addresses have brackets."""
        return f"[{self.host}]" if ":" in self.host else self.host

    def shown(self, limit: int) -> str:
        """The URL cut to ``limit`` characters, followed by the host if the URL does not show it as it is: names in
        other scripts can look like others, and numbers have many forms."""
        text = visible(self.url)
        start, name = len(f"{self.scheme}://"), self.name
        same = text[start : start + len(name) + 1].rstrip("/:?#.").lower() == name and start + len(name) < limit
        return cut(text, limit) if same else f"{cut(text, limit)} ({name})"


def parse_url(url: str) -> WebAddress:
    """Parse ``url``.

    Raises:
        ToolError: it is not a URL that can be read.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
        host = _host(parts)
    except ValueError:
        raise ToolError("url: malformed.") from None
    if parts.scheme not in _PORTS or not host or visible(url) != url or " " in url:
        raise ToolError("url: must be a full URL that starts with https:// or http://.")
    if parts.username is not None or parts.password is not None:
        raise ToolError("url: must not contain a user name or password.")
    return WebAddress(url, parts.scheme, host, port or _PORTS[parts.scheme])


def _host(parts: SplitResult) -> str:
    """The host in its usual form, as all programs read it; empty without one. Raises ValueError."""
    host = parts.hostname or ""
    if ":" in host:
        ip = ipaddress.IPv6Address(host)
        if ip.scope_id is not None:
            raise ValueError("a zone is about networks of this machine")
        return str(ip.ipv4_mapped or ip)
    if not host.isascii():
        import idna  # imported late because its tables are large

        host = idna.encode(host, uts46=True).decode()
    host = host.lower().rstrip(".")
    if host and not _NAME.fullmatch(host):
        raise ValueError("not a host name")
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        # 127.1, 0x7f.1 and 2130706433 are addresses too, which programs read in different ways.
        return str(ipaddress.IPv4Address(_ipv4(host)))
    return host


def _ipv4(host: str) -> bytes:
    try:
        return socket.inet_aton(host)
    except OSError:
        raise ValueError("not an address") from None


def is_public(address: str) -> bool:
    """Whether ``address`` is reachable from the internet and is not one of this machine. False if in doubt."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None and ip.scope_id is None:
            return is_public(str(ip.ipv4_mapped))
        if ip.scope_id is not None or not any(ip in network for network in _NETWORKS_OF_IPV6):
            return False
    return all(_is_public(one) for one in (ip, *_embedded(ip))) and not _is_own(address)


def _is_public(ip: _Address) -> bool:
    if ip in _NETWORKS_OF_IPV6[1]:
        return True  # the embedded address decides
    return ip.is_global and not ip.is_multicast and not any(ip in network for network in _NOT_PUBLIC)


def _embedded(ip: _Address) -> Sequence[_Address]:
    """The IPv4 address in an IPv6 address to which gateways of its kind connect."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ()
    tunnelled = ip in _NETWORKS_OF_IPV6[1] or (int(ip) >> 32) & 0xFFFFFFFF in _ISATAP
    return (ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF),) if tunnelled else ()


def _is_own(address: str) -> bool:
    """Whether ``address`` is one of this machine: programs that listen on it may trust requests from here. No packet is
    sent."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.setblocking(False)
            probe.connect((address, 9))
            return ipaddress.ip_address(probe.getsockname()[0]) == ipaddress.ip_address(address)
    except (OSError, ValueError):
        return False


def is_loopback(host: str) -> bool:
    """Whether ``host`` is this machine by its form."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def is_local_name(host: str) -> bool:
    """Whether ``host`` is a name that only this machine or a private network has. A proxy may resolve it."""
    return (":" not in host and "." not in host) or any(
        host == name or host.endswith(f".{name}") for name in _LOCAL_NAMES
    )


async def resolve_host(host: str, port: int) -> Sequence[str]:
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def resolve_addresses(target: WebAddress, resolve: Resolver, *, private: bool) -> Sequence[str]:
    """The IP addresses of ``target``; empty if its name cannot be resolved.

    Raises:
        ToolError: one of them is not public and ``private`` is false.
    """
    if not private and is_local_name(target.host):
        raise _not_public(target)
    try:
        found = await resolve(target.host, target.port)
    except (OSError, UnicodeError):
        return ()
    if not private and not all(map(is_public, found)):
        raise _not_public(target)
    return found


def _not_public(target: WebAddress) -> ToolError:
    return ToolError(
        f"{cut(target.host, 200)} is this machine or in a private network, which cannot be read. The user can "
        "allow it with the setting web.allowPrivate."
    )
