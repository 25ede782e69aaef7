"""Validation of an :class:`Endpoint` without sending a request."""

import re
from importlib.util import find_spec
from urllib.parse import SplitResult, urlsplit

from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.model.endpoint import Endpoint

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")


def validate_endpoint(endpoint: Endpoint) -> None:
    """Checks address, proxy and headers.

    Raises:
        ModelError: ``not_configured``, naming the invalid setting. No message contains a secret.
    """
    _validate_address(endpoint)
    if endpoint.proxy:
        _validate_proxy(endpoint.proxy)
    for name, value in endpoint.headers:
        if not _HEADER_NAME.fullmatch(name) or not (value.isascii() and value.isprintable()):
            raise _invalid(
                f"The header {name!r} in the setting `api.headers` is not valid",
                "Use letters, digits and hyphens in the name, and one line of ASCII in the value.",
            )


def _validate_address(endpoint: Endpoint) -> None:
    if (url := _split(endpoint.base_url)) is None or url.scheme not in ("http", "https"):
        raise _invalid(
            f"The address of the model service is not valid: {endpoint.shown_url!r}",
            "Set `baseUrl` (or ANTHROPIC_BASE_URL) to http://host:port or https://host.",
        )


def _validate_proxy(proxy: str) -> None:
    if (url := _split(proxy)) is None or url.scheme not in _PROXY_SCHEMES:
        raise _invalid("The setting `api.proxy` is not a valid proxy address", "Use http://host:port.")
    if url.scheme.startswith("socks") and find_spec("socksio") is None:
        raise _invalid(
            "The setting `api.proxy` names a SOCKS proxy, but the package `socksio` is not installed",
            "Install it in Deputy's environment (`pip install socksio`), or use an HTTP proxy.",
        )


def _split(address: str) -> SplitResult | None:
    """The parts of ``address``; ``None`` without a host or with an invalid port."""
    try:
        url = urlsplit(address)
        return url if url.hostname and url.port != 0 else None
    except ValueError:
        return None


def _invalid(message: str, action: str) -> ModelError:
    return ModelError(f"{message}.", ModelErrorKind.NOT_CONFIGURED, action=action)
