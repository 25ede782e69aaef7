"""The address and credentials of a model service."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.web.address import is_loopback

_PUBLIC_URL = "https://api.anthropic.com"

_MIN_SECRET = 4
"""Minimum length of a masked secret. Local servers accept any key, and masking one or two letters would garble
texts."""

_USER_INFO = re.compile(r"(?<=//)(?:[^/@:]*:)?([^/@]*)@")


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """The user's settings for another provider than the first. ``options`` are its region and the like, by name."""

    base_url: str | None = None
    key_command: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    options: tuple[tuple[str, str], ...] = ()


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
    connect_timeout: float = 5
    idle_timeout: float = 120
    providers: tuple[tuple[str, ProviderSettings], ...] = ()
    """Settings of other providers, by prefix."""

    def of(self, prefix: str) -> ProviderSettings:
        """What is set for another provider."""
        return dict(self.providers).get(prefix, ProviderSettings())


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
    connect_timeout: float = 5
    idle_timeout: float = 120
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """What the provider needs beside an address and a key, by name. Those whose name ends with ``_key`` or ``_token``
    are secret."""
    signs: bool = False
    """The provider's own client finds the credentials and signs requests with them."""
    names: tuple[tuple[str, str], ...] = ()
    """What replaces words about Anthropic in the actions of errors."""
    credential_errors: tuple[tuple[str, str, str], ...] = ()
    """What errors of the provider's client mean: the beginning of the name of the exception's module, or a part of its
    text; a sentence; and what to do."""

    def option(self, name: str) -> str | None:
        """The option with that name, if it is set."""
        return dict(self.options).get(name)

    def credential_error(self, error: Exception) -> ModelError | None:
        """The error for credentials that the provider's client cannot find or renew; ``None`` for other exceptions."""
        text, module = str(error), type(error).__module__
        for sign, sentence, action in self.credential_errors:
            if module.startswith(sign) or sign in text:
                detail = self.safe(text).strip().removesuffix(".")
                message = f"{sentence}: {detail[:300]}."
                return ModelError(message, ModelErrorKind.NOT_CONFIGURED, action=action)
        return None

    @property
    def credential(self) -> str | None:
        return self.key or self.token

    @property
    def has_key(self) -> bool:
        """There is a key or a configured source of one."""
        return bool(self.credential or self.key_command or self.keyring or self.signs)

    @property
    def is_chosen(self) -> bool:
        """The user has set the address of the service."""
        return self.base_url != _PUBLIC_URL

    @property
    def is_loopback(self) -> bool:
        try:
            return is_loopback(urlsplit(self.base_url).hostname or "")
        except ValueError:
            return False

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
        options = (value for name, value in self.options if name.endswith(("_key", "_token")))
        headers = (value for _, value in self.headers)
        for secret in (self.key, self.token, self.proxy, *passwords, *headers, *options):
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
