"""Signs the user in at an MCP server: the authorization code flow with PKCE, over an address on this machine."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, cast
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
from anyio import to_thread
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from deputy_agents.domain.errors import DeputyError
from deputy_agents.mcp.oauth_callback import Callback, listening, port_of
from deputy_agents.mcp.oauth_http import NotAllowed, check_address, oauth_client
from deputy_agents.mcp.oauth_session import expiry, post_as_client
from deputy_agents.mcp.sign_ins import SignIn, SignIns
from deputy_agents.text import cut, visible
from deputy_agents.web.address import parse_url

logger = logging.getLogger(__name__)

LOGIN_LIMIT: Final = 600.0
"""Seconds that the user has to sign in."""
_VERSION: Final = "2025-06-18"
_INITIALIZE: Final[Mapping[str, object]] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": _VERSION,
        "capabilities": {},
        "clientInfo": {"name": "deputy", "version": "1"},
    },
}
_HEADERS: Final = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": _VERSION}
_DENIED: Final = "access_denied"


class SignInFailed(DeputyError):
    """The user is not signed in. The message says why, in a phrase, and has no secrets."""


@dataclass(slots=True)
class _Storage:
    """Implements the ``TokenStorage`` of the library: keeps everything until the user is signed in. ``client`` is what
    was registered before."""

    client: OAuthClientInformationFull | None
    tokens: OAuthToken | None = field(default=None, repr=False)

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


async def sign_in(url: str, sign_ins: SignIns, show: Callable[[str], Awaitable[None]]) -> bool:
    """Signs the user in at the MCP server ``url``. ``show`` gets the address of the page where the user does that.
    Returns ``False`` if the server needs no sign-in.

    Raises:
        SignInFailed: the server does not allow it, or its answers are not valid, or the user did not finish in time.
    """
    before = await to_thread.run_sync(sign_ins.get, url) or SignIn()
    try:
        with anyio.fail_after(LOGIN_LIMIT):
            async with listening(port_of(before.client.get("redirect_uris"))) as callback:
                storage = _Storage(_registered(before, callback))
                provider = _provider(url, storage, callback, show)
                await _request(url, provider)
    except TimeoutError:
        raise SignInFailed("nobody has signed in in time") from None
    except BaseExceptionGroup as group:
        raise _failure(group) from None
    except Exception as error:  # noqa: BLE001 - the library raises what the answers of servers cause
        raise _failure(error) from None
    if storage.tokens is None:
        return False
    await _save(url, sign_ins, provider, storage.tokens)
    return True


async def sign_out(url: str, sign_ins: SignIns) -> bool:
    """Deletes the sign-in at the MCP server ``url``, and revokes it there if the server can. Returns whether there was
    one."""
    found = await to_thread.run_sync(sign_ins.get, url)
    if found is not None and found.revocation_endpoint:
        token = found.refresh_token or found.access_token
        with anyio.move_on_after(10):
            try:
                async with oauth_client(url) as http:
                    # Some servers insist on a secret, even of a client that has none.
                    form = {"token": token, "client_secret": ""}
                    await post_as_client(http, found, found.revocation_endpoint, form)
            except httpx2.HTTPError as error:
                logger.info("a sign-in was not revoked: %s", type(error).__name__)
    return await to_thread.run_sync(sign_ins.delete, url) and found is not None and bool(found.access_token)


def _registered(before: SignIn, callback: Callback) -> OAuthClientInformationFull | None:
    """The client that was registered for the same address on this machine. Another one cannot be used there."""
    if port_of(before.client.get("redirect_uris")) != callback.port:
        return None
    return OAuthClientInformationFull.model_validate(before.client)


def _provider(
    url: str, storage: _Storage, callback: Callback, show: Callable[[str], Awaitable[None]]
) -> OAuthClientProvider:
    server = parse_url(url)

    async def redirect(page: str) -> None:
        check_address(page, server)
        callback.state = parse_qs(urlsplit(page).query).get("state", [""])[0]
        await show(page)

    async def returned() -> AuthorizationCodeResult:
        result = await callback.returned()
        if result.error:
            denied = result.error == _DENIED
            raise SignInFailed("access was denied" if denied else f"the server answered {_short(result.error)}")
        return AuthorizationCodeResult(code=result.code, state=result.state, iss=result.issuer)

    metadata = OAuthClientMetadata(
        client_name="Deputy",
        redirect_uris=[AnyUrl(callback.address)],
        token_endpoint_auth_method="none",  # noqa: S106 - a client on the user's machine has no secret
    )
    return OAuthClientProvider(url, metadata, storage, redirect, returned)


async def _request(url: str, provider: OAuthClientProvider) -> None:
    """Makes the request that needs a sign-in, and ends the session that it starts."""
    async with oauth_client(url, provider) as http:
        response = await http.post(url, json=_INITIALIZE, headers=_HEADERS)
        if session := response.headers.get("mcp-session-id"):
            await http.delete(url, headers={**_HEADERS, "mcp-session-id": session})
    if response.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise SignInFailed(f"the server does not accept the sign-in (HTTP {response.status_code})")


async def _save(url: str, sign_ins: SignIns, provider: OAuthClientProvider, tokens: OAuthToken) -> None:
    context = provider.context
    metadata, client = context.oauth_metadata, context.client_info
    base = context.get_authorization_base_url(url)
    found = SignIn(
        access_token=tokens.access_token,
        refresh_token=tokens.refresh_token or "",
        expires_at=expiry(tokens.expires_in),
        scope=tokens.scope or "",
        resource=context.get_resource_url() if context.should_include_resource_param(_VERSION) else "",
        issuer=str(metadata.issuer) if metadata else "",
        token_endpoint=str(metadata.token_endpoint) if metadata else f"{base}/token",
        revocation_endpoint=str(metadata.revocation_endpoint or "") if metadata else "",
        client=_json(client),
    )
    try:
        await to_thread.run_sync(sign_ins.save, url, found)
    except OSError as error:
        raise SignInFailed(f"the sign-in cannot be stored: {error.strerror or error}") from None


def _json(client: OAuthClientInformationFull | None) -> dict[str, Any]:
    return {} if client is None else client.model_dump(mode="json", exclude_none=True)


def _failure(error: BaseException) -> SignInFailed:
    """What went wrong, without what servers have answered: it may contain secrets."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    match error:
        case SignInFailed():
            return error
        case OAuthRegistrationError():
            return SignInFailed(
                "the server does not let Deputy register. If it gives you a token, use that in `headers` instead"
            )
        case OAuthTokenError():
            return SignInFailed("the server has not issued a token")
        case OAuthFlowError():
            return SignInFailed("the server does not describe how to sign in, or its description is not valid")
        case NotAllowed():
            return SignInFailed(str(error))
        case httpx2.HTTPError():
            return SignInFailed(_short(str(error) or type(error).__name__))
        case _:
            logger.info("a sign-in failed with %s", type(error).__name__)
            return SignInFailed("the answers of the server are not valid")


def _short(text: str) -> str:
    return cut(visible(text), 200).rstrip(".")
