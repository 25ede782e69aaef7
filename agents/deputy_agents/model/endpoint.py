"""The address and credentials of a model service."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_PUBLIC_URL = "https://api.anthropic.com"

_MIN_SECRET = 4
"""Minimum length of a masked secret. Local servers accept any key, and masking one or two letters would garble
texts."""

_USER_INFO = re.compile(r"(?<=//)(?:[^/@:]*:)?([^/@]*)@")


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """The user's settings; missing values come from the environment. ``key_command`` is a program with its arguments
    that prints the key; ``keyring`` reads the key from the operating system's keyring. ``headers`` are added to every
    request. Times are in seconds."""

    base_url: str | None = None
    key_command: tuple[str, ...] = ()
    keyring: bool = False
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    proxy: str | None = field(default=None, repr=False)
    connect_timeout: float = 10
    idle_timeout: float = 120


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model service. ``key`` and ``token`` are never displayed; one of them is enough. ``idle_timeout`` is the
    longest pause within a reply, in seconds. The other fields are those of :class:`ApiSettings`."""

    base_url: str = _PUBLIC_URL
    key: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    key_command: tuple[str, ...] = ()
    keyring: bool = False
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    proxy: str | None = field(default=None, repr=False)
    connect_timeout: float = 10
    idle_timeout: float = 120

    @property
    def credential(self) -> str | None:
        return self.key or self.token

    @property
    def has_key(self) -> bool:
        """There is a key or a configured source of one."""
        return bool(self.credential or self.key_command or self.keyring)

    @property
    def is_loopback(self) -> bool:
        try:
            host = urlsplit(self.base_url).hostname or ""
        except ValueError:
            return False
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost" or host.endswith(".localhost")

    @property
    def shown_url(self) -> str:
        """``base_url`` without a user name and password."""
        return _USER_INFO.sub("", self.base_url)

    @property
    def searches(self) -> bool:
        """The service supports web search."""
        return self.base_url.rstrip("/") == _PUBLIC_URL

    def safe(self, text: str) -> str:
        """``text`` with all secrets masked."""
        passwords = (found[1] for url in (self.base_url, self.proxy or "") if (found := _USER_INFO.search(url)))
        for secret in (self.key, self.token, self.proxy, *passwords, *(value for _, value in self.headers)):
            if secret and len(secret) >= _MIN_SECRET:
                text = text.replace(secret, "***")
        return text


def endpoint_of(environ: Mapping[str, str], api: ApiSettings | None = None) -> Endpoint:
    """The endpoint configured by settings and environment. Blank values count as missing."""
    api = api or ApiSettings()

    def value(name: str) -> str | None:
        return environ.get(name, "").strip() or None

    return Endpoint(
        base_url=(api.base_url or "").strip() or value("ANTHROPIC_BASE_URL") or _PUBLIC_URL,
        key=value("ANTHROPIC_API_KEY"),
        token=value("ANTHROPIC_AUTH_TOKEN"),
        key_command=api.key_command,
        keyring=api.keyring,
        headers=api.headers,
        proxy=api.proxy,
        connect_timeout=api.connect_timeout,
        idle_timeout=api.idle_timeout,
    )
