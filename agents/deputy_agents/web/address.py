"""Restricts web access to public addresses, so that pages only this machine can reach are not read.

A host name is resolved once, every address of it must be public, and the connection goes to one of the checked
addresses. A name that resolves to another address a moment later (DNS rebinding) has no effect.
"""

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlsplit

import anyio

from deputy_agents.domain.errors import ToolError
from deputy_agents.text import cut, visible

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves host and port to IP addresses, as text. Raises OSError."""

_PORTS = {"http": 80, "https": 443}
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_NOT_PUBLIC = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "fec0::/10", "64:ff9b:1::/48")))
"""Networks for protocols, sites and local translation, which not every Python version counts as private."""
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
"""IPv6 addresses whose last 32 bits are an IPv4 address that a NAT64 gateway connects to."""


@dataclass(frozen=True, slots=True)
class WebAddress:
    """A parsed URL. ``site`` is the subject of permission rules: the host, with its port unless that is a default."""

    url: str
    scheme: str
    host: str
    port: int

    @property
    def site(self) -> str:
        return self.host if self.port in _PORTS.values() else f"{self.host}:{self.port}"


def parse_url(url: str) -> WebAddress:
    """Parse ``url``.

    Raises:
        ToolError: it is not a URL that can be read.
    """
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
        host = host if host.isascii() else host.encode("idna").decode()
    except ValueError:
        raise ToolError("url: malformed.") from None
    if parts.scheme not in _PORTS or not host or visible(url) != url or " " in url:
        raise ToolError("url: must be a full URL that starts with https:// or http://.")
    if parts.username is not None or parts.password is not None:
        raise ToolError("url: must not contain a user name or password.")
    return WebAddress(url, parts.scheme, host.lower(), port or _PORTS[parts.scheme])


def is_public(address: str) -> bool:
    """Whether ``address`` is reachable from the internet. False if in doubt."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return all(_is_public(one) for one in (ip, *_embedded(ip)))


def _is_public(ip: _Address) -> bool:
    return ip.is_global and not ip.is_multicast and not any(ip in network for network in _NOT_PUBLIC)


def _embedded(ip: _Address) -> Sequence[_Address]:
    """IPv4 addresses embedded in an IPv6 address."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ()
    translated = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _TRANSLATED else None
    found = (ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ()), translated)
    return tuple(one for one in found if one is not None)


async def resolve_host(host: str, port: int) -> Sequence[str]:
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def resolve_addresses(target: WebAddress, resolve: Resolver, *, private: bool) -> Sequence[str]:
    """The IP addresses of ``target``; empty if its name cannot be resolved.

    Raises:
        ToolError: one of them is not public and ``private`` is false.
    """
    try:
        found = await resolve(target.host, target.port)
    except (OSError, UnicodeError):
        return ()
    if not private and not all(map(is_public, found)):
        raise ToolError(
            f"{cut(target.host, 200)} is this machine or in a private network, which cannot be read. The user can "
            "allow it with the setting web.allowPrivate."
        )
    return found
