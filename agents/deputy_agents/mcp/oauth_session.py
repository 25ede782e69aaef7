"""Uses and renews the sign-in at an MCP server during a session. It never asks the user, and opens nothing."""

import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from urllib.parse import quote

import anyio
import httpx2
from anyio import to_thread
from filelock import FileLock
from pydantic import ValidationError

from deputy_agents.mcp.oauth_http import oauth_client
from deputy_agents.mcp.sign_ins import SignIn, SignIns

logger = logging.getLogger(__name__)

RENEW_LIMIT = 60.0
"""Seconds to renew a sign-in, with the time to wait for another process that does."""
EARLY = 30.0
"""Seconds before its end at which a token is renewed, at most a fifth of its lifetime."""
_ENDED = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def expiry(seconds: float | None) -> float:
    """When to renew a token that is valid for ``seconds`` from now."""
    return 0 if seconds is None else time.time() + seconds - min(EARLY, seconds / 5)


class SessionAuth(httpx2.Auth):
    """Adds the token for the MCP server ``url``. ``missing`` is called when the server wants one and there is none that
    it accepts; ``uses`` gets each sign-in whose secrets are sent."""

    def __init__(
        self, url: str, sign_ins: SignIns, missing: Callable[[], None], uses: Callable[[SignIn], None]
    ) -> None:
        self._url = url
        self._sign_ins = sign_ins
        self._missing = missing
        self._uses = uses
        self._renewing = anyio.Lock()
        self._mark: object = object()
        self._current: SignIn | None = None

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        sign_in = await self._load()
        if sign_in is not None and sign_in.refresh_token and 0 < sign_in.expires_at < time.time():
            sign_in = await self._renewed(sign_in)
        self._apply(request, sign_in)
        response = yield request
        if response.status_code != HTTPStatus.UNAUTHORIZED:
            return
        if sign_in is not None and (newer := await self._renewed(sign_in)) is not None:
            self._apply(request, newer)
            response = yield request
            if response.status_code != HTTPStatus.UNAUTHORIZED:
                return
        self._missing()

    def _apply(self, request: httpx2.Request, sign_in: SignIn | None) -> None:
        if sign_in is not None and sign_in.access_token:
            self._uses(sign_in)
            request.headers["Authorization"] = f"Bearer {sign_in.access_token}"

    async def _load(self) -> SignIn | None:
        mark = await to_thread.run_sync(self._sign_ins.mark)
        if mark != self._mark:
            self._current = await to_thread.run_sync(self._sign_ins.get, self._url, abandon_on_cancel=True)
            self._mark = mark
        return self._current

    async def _renewed(self, used: SignIn) -> SignIn | None:
        """A newer sign-in than ``used``; ``None`` if the user has to sign in again. A token that a server has replaced
        must not be lost, so it is not cancelled."""
        async with self._renewing:
            with anyio.move_on_after(RENEW_LIMIT, shield=True):
                async with _alone(self._sign_ins):
                    self._mark = object()
                    stored = await self._load()
                    if stored is None or stored.access_token != used.access_token:
                        return stored
                    return await self._renew(stored) if stored.refresh_token else None
        raise httpx2.ReadTimeout("the sign-in could not be renewed in time")

    async def _renew(self, stored: SignIn) -> SignIn | None:
        data = {"grant_type": "refresh_token", "refresh_token": stored.refresh_token}
        if stored.resource:
            data["resource"] = stored.resource
        async with oauth_client(self._url) as http:
            response = await post_as_client(http, stored, stored.token_endpoint, data)
        if response.status_code in _ENDED:
            logger.info("a sign-in at an MCP server has ended (HTTP %d)", response.status_code)
            ended = stored.model_copy(update={"access_token": "", "refresh_token": "", "expires_at": 0})
            await to_thread.run_sync(self._sign_ins.save, self._url, ended)
            return None
        newer = _newer(stored, response)
        await to_thread.run_sync(self._sign_ins.save, self._url, newer)
        return newer


async def post_as_client(http: httpx2.AsyncClient, sign_in: SignIn, url: str, data: dict[str, str]) -> httpx2.Response:
    """Sends a form to an endpoint of the authorization server, as the client that it has registered."""
    client_id, secret = str(sign_in.client.get("client_id", "")), str(sign_in.client.get("client_secret") or "")
    headers: dict[str, str] = {}
    if secret and sign_in.client.get("token_endpoint_auth_method") == "client_secret_basic":
        auth = httpx2.BasicAuth(quote(client_id, safe=""), quote(secret, safe=""))
        return await http.post(url, data={**data, "client_id": client_id}, auth=auth)
    if secret:
        data = {**data, "client_secret": secret}
    return await http.post(url, data={**data, "client_id": client_id}, headers=headers)


def _newer(stored: SignIn, response: httpx2.Response) -> SignIn:
    """
    Raises:
        httpx2.ReadError: the server cannot renew it now.
    """
    from mcp.shared.auth import OAuthToken

    if response.status_code != HTTPStatus.OK:
        raise httpx2.ReadError(f"the sign-in could not be renewed (HTTP {response.status_code})")
    try:
        token = OAuthToken.model_validate_json(response.content)
    except ValidationError:
        raise httpx2.ReadError("the sign-in could not be renewed: the answer is not valid") from None
    return stored.model_copy(
        update={
            "access_token": token.access_token,
            "refresh_token": token.refresh_token or stored.refresh_token,
            "expires_at": expiry(token.expires_in),
            "scope": token.scope or stored.scope,
        }
    )


@asynccontextmanager
async def _alone(sign_ins: SignIns) -> AsyncGenerator[None]:
    """Keeps other processes from renewing: many servers accept each refresh token only once."""
    if sign_ins.path is None:
        yield
        return
    lock = FileLock(sign_ins.path.with_suffix(".renew.lock"), mode=0o600, thread_local=False)
    await to_thread.run_sync(lock.acquire, RENEW_LIMIT)
    try:
        yield
    finally:
        await to_thread.run_sync(lock.release)
