"""An MCP server that needs a sign-in, with an authorization server of its own: those of the package `mcp`, on loopback.

``python -m tests.support.oauth_mcp_server '{"expires": 3600}'`` prints its address. ``POST /test/KEY`` with a JSON
value changes a setting of the running server; ``GET /test/log`` returns what the authorization server has seen.
"""

import json
import secrets
import socket
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import anyio
import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.requests import Request
from starlette.responses import JSONResponse, Response


@dataclass
class Server:
    """The settings and the state of the authorization server. ``consent``: what the user answers on its page."""

    consent: str = "approve"
    expires: int = 3600
    registration: bool = True
    metadata: dict[str, object] = field(default_factory=dict[str, object])
    resource: dict[str, object] = field(default_factory=dict[str, object])
    audience: str | None = None
    log: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    clients: dict[str, OAuthClientInformationFull] = field(default_factory=dict[str, OAuthClientInformationFull])
    codes: dict[str, AuthorizationCode] = field(default_factory=dict[str, AuthorizationCode])
    access: dict[str, AccessToken] = field(default_factory=dict[str, AccessToken])
    refresh: dict[str, RefreshToken] = field(default_factory=dict[str, RefreshToken])


class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    def __init__(self, server: Server) -> None:
        self._server = server

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self._server.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self._server.log.append({"registered": [str(one) for one in client_info.redirect_uris or ()]})
        self._server.clients[client_info.client_id or ""] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        self._server.log.append({"authorized": params.resource, "challenge": params.code_challenge})
        back = str(params.redirect_uri)
        if self._server.consent != "approve":
            return construct_redirect_uri(back, error="access_denied", state=params.state)
        code = AuthorizationCode(
            code=secrets.token_hex(16),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self._server.codes[code.code] = code
        return construct_redirect_uri(back, code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self._server.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self._server.codes[authorization_code.code]
        return self._issue(client, authorization_code.scopes, "code", authorization_code.resource)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self._server.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        if self._server.refresh.pop(refresh_token.token, None) is None:
            raise TokenError("invalid_grant", "used")
        return self._issue(client, scopes, "refresh", self._server.audience)

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = self._server.access.get(token)
        return None if found is None or (found.expires_at or 0) < time.time() else found

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self._server.log.append({"revoked": True})
        self._server.access.clear()
        self._server.refresh.clear()

    def _issue(
        self, client: OAuthClientInformationFull, scopes: list[str], grant: str, audience: str | None
    ) -> OAuthToken:
        access, refresh = f"access-{secrets.token_hex(16)}", f"refresh-{secrets.token_hex(16)}"
        client_id, expires = client.client_id or "", self._server.expires
        self._server.audience = audience
        self._server.log.append({"issued": access, "refresh": refresh, "for": grant})
        self._server.access[access] = AccessToken(
            token=access, client_id=client_id, scopes=scopes, expires_at=int(time.time()) + expires, resource=audience
        )
        self._server.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes)
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=expires, scope=" ".join(scopes))


def build(server: Server, base: str) -> Any:
    settings = AuthSettings(
        issuer_url=AnyHttpUrl(base),
        resource_server_url=AnyHttpUrl(f"{base}/mcp"),
        client_registration_options=ClientRegistrationOptions(enabled=server.registration),
        revocation_options=RevocationOptions(enabled=True),
        validate_token_resource=True,
    )
    mcp = MCPServer("secure", auth_server_provider=Provider(server), auth=settings)

    @mcp.tool()
    def whoami() -> str:
        """Returns the tokens that the server has issued: a server that wants them seen."""
        return " ".join(["you are Ada", *server.access])

    @mcp.custom_route("/test/{key}", methods=["GET", "POST"])
    async def control(request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        key = request.path_params["key"]
        if request.method == "GET":
            return JSONResponse(server.log)
        value = await request.json()
        if key == "forget":  # revoked by somebody else
            for name in value:
                getattr(server, name).clear()
        else:
            setattr(server, key, value)
        return JSONResponse(None)

    return _Changed(mcp.streamable_http_app(), server)


class _Changed:
    """Replaces fields of the metadata, as the settings of the server want it."""

    def __init__(self, app: Any, server: Server) -> None:
        self._app = app
        self._server = server

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path", "")
        changes = (
            self._server.resource
            if "oauth-protected-resource" in path
            else self._server.metadata
            if "oauth-authorization-server" in path
            else {}
        )
        if not changes:
            return await self._app(scope, receive, send)
        sent: list[Any] = []

        async def keep(message: Any) -> None:
            sent.append(message)

        await self._app(scope, receive, keep)
        body = b"".join(one.get("body", b"") for one in sent)
        await JSONResponse({**json.loads(body), **changes})(scope, receive, send)
        return None


async def main(settings: dict[str, Any]) -> None:
    listener = socket.create_server(("127.0.0.1", settings.pop("port", 0)))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = uvicorn.Config(build(Server(**settings), base), log_level="error", lifespan="on")
    print(base, flush=True)
    await uvicorn.Server(config).serve([listener])


if __name__ == "__main__":
    anyio.run(main, json.loads(sys.argv[1]) if len(sys.argv) > 1 else {})
