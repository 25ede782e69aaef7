"""What can be told of an :class:`Endpoint` without asking it anything."""

import re
from importlib.util import find_spec
from urllib.parse import SplitResult, urlsplit

from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.model.endpoint import Endpoint

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PROXIES = ("http", "https", "socks5", "socks5h")


def check(endpoint: Endpoint) -> None:
    """Passes what can be used.

    Raises:
        ModelError: ``not_configured``, naming the setting that cannot. No error shows a secret.
    """
    _check_address(endpoint)
    if endpoint.proxy:
        _check_proxy(endpoint.proxy)
    for name, value in endpoint.headers:
        if not _HEADER_NAME.fullmatch(name) or not (value.isascii() and value.isprintable()):
            raise _unusable(
                f"The header {name!r} of the setting `api.headers` cannot be sent",
                "A name is letters, digits and hyphens, a value one line of ASCII.",
            )


def _check_address(endpoint: Endpoint) -> None:
    if (url := _split(endpoint.base_url)) is None or url.scheme not in ("http", "https"):
        raise _unusable(
            f"The address of the model service is none: {endpoint.shown_url!r}",
            "Give the setting `baseUrl` (or ANTHROPIC_BASE_URL) as http://host:port or https://host.",
        )


def _check_proxy(proxy: str) -> None:
    if (url := _split(proxy)) is None or url.scheme not in _PROXIES:
        raise _unusable("The setting `api.proxy` is no address of a proxy", "Give it as http://host:port.")
    if url.scheme.startswith("socks") and find_spec("socksio") is None:
        raise _unusable(
            "The setting `api.proxy` names a SOCKS proxy, and the package `socksio` is not installed",
            "Install it beside Deputy (`pip install socksio`), or use an HTTP proxy.",
        )


def _split(address: str) -> SplitResult | None:
    """The parts of an address that has a host and no impossible port."""
    try:
        url = urlsplit(address)
        return url if url.hostname and url.port != 0 else None
    except ValueError:
        return None


def _unusable(message: str, action: str) -> ModelError:
    return ModelError(f"{message}.", ModelErrorKind.NOT_CONFIGURED, action=action)
