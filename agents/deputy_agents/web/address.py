"""Which addresses may be read: no machine that only this one can reach, whatever its name says.

A name is looked up once, every address that it has must be public, and the connection is made to one of those that
were checked: a name that leads elsewhere a moment later leads nowhere.
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
"""The addresses of a host, as text. Raises OSError."""

_PORTS = {"http": 80, "https": 443}
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
"""IPv6 addresses whose last 32 bits are an IPv4 address that a gateway connects to."""


@dataclass(frozen=True, slots=True)
class Target:
    """A web address. ``site`` is what a permission is about: the host, with its port where that is an unusual one."""

    url: str
    scheme: str
    host: str
    port: int

    @property
    def site(self) -> str:
        return self.host if self.port in _PORTS.values() else f"{self.host}:{self.port}"


def target_of(url: str) -> Target:
    """What ``url`` names.

    Raises:
        ToolError: it is no address that can be read.
    """
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
        host = host if host.isascii() else host.encode("idna").decode()
    except ValueError:
        raise ToolError("url: it is not well-formed.") from None
    if parts.scheme not in _PORTS or not host or visible(url) != url or " " in url:
        raise ToolError("url: a whole address that starts with https:// or http:// is needed.")
    if parts.username is not None or parts.password is not None:
        raise ToolError("url: an address with a user name or password is not read.")
    return Target(url, parts.scheme, host.lower(), port or _PORTS[parts.scheme])


def is_public(address: str) -> bool:
    """Whether anyone on the internet could reach ``address``. What is unclear is not."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return all(one.is_global and not one.is_multicast for one in (ip, *_inner(ip)))


def _inner(ip: _Address) -> Sequence[_Address]:
    """IPv4 addresses that an IPv6 address stands for."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ()
    translated = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _TRANSLATED else None
    found = (ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ()), translated)
    return tuple(one for one in found if one is not None)


async def look_up(host: str, port: int) -> Sequence[str]:
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def addresses_of(target: Target, resolve: Resolver, *, private: bool) -> Sequence[str]:
    """The addresses of ``target``, all of them public unless ``private`` ones are allowed; none when it has none here.

    Raises:
        ToolError: it has one that is not public.
    """
    try:
        found = await resolve(target.host, target.port)
    except (OSError, UnicodeError):
        return ()
    if not private and not all(map(is_public, found)):
        raise ToolError(
            f"{cut(target.host, 200)} is this machine, or in a private network, which is not read; the user can change "
            "that with the setting web.allowPrivate."
        )
    return found
