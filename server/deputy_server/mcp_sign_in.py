"""Signing in and out at MCP servers, for `deputy mcp login` and `deputy mcp logout`."""

from collections.abc import Callable

import anyio
from anyio import to_thread

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.mcp.sign_ins import SignIns

try:
    from deputy_agents.mcp.oauth_login import sign_in, sign_out
except ModuleNotFoundError:
    raise InvalidRequest("MCP servers need the Python package mcp in Deputy's environment") from None


def log_in(url: str, sign_ins: SignIns, show: Callable[[str], None]) -> bool:
    """Sign in at the MCP server ``url``; ``show`` opens the page. Returns ``False`` if it needs no sign-in. Blocks.

    Raises:
        SignInFailed: the user is not signed in.
    """

    async def show_in_thread(page: str) -> None:
        await to_thread.run_sync(show, page)

    return anyio.run(sign_in, url, sign_ins, show_in_thread)


def log_out(url: str, sign_ins: SignIns) -> bool:
    """Sign out from the MCP server ``url``. Returns whether the user was signed in. Blocks.

    Raises:
        OSError: the sign-in cannot be deleted.
    """
    return anyio.run(sign_out, url, sign_ins)
