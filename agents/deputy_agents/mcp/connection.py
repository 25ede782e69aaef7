"""The connection to one MCP server: started, restarted after a failure, and closed."""

import asyncio
import logging
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio
from anyio import to_thread
from pydantic import ValidationError

from deputy_agents import validation_errors
from deputy_agents.concurrency.signal import Signal
from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.user_input import InputAction
from deputy_agents.guidance.mcp_entry import McpServerEntry
from deputy_agents.mcp.callers import Ask, Callers
from deputy_agents.mcp.catalog import McpCatalog, McpServerState
from deputy_agents.mcp.elicitation import forms_of_error
from deputy_agents.mcp.listing import ignored, read_catalog
from deputy_agents.mcp.needed_sign_in import NeededSignIn
from deputy_agents.mcp.sign_ins import SignIn, SignIns
from deputy_agents.redact import MASK
from deputy_agents.text import clean, cut, visible

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client.session import IncomingMessage
    from mcp.shared.exceptions import MCPError
    from mcp_types import CallToolResult, GetPromptResult, ReadResourceResult

T = TypeVar("T")
logger = logging.getLogger(__name__)

START_TIMEOUT = 60.0
"""Seconds until an MCP server must have listed its tools."""
CALL_TIMEOUT = 120.0
"""Seconds per call."""
RESTART_TIMEOUT = 10.0
"""Seconds that a call waits for an MCP server that is restarting."""
MAX_FAILURES = 3
"""Failures in a row after which the MCP server is not restarted."""
MAX_UNREACHABLE = 2
"""Attempts in a row to connect, each of which may take the whole limit of a connection."""
STABLE_AFTER = 60.0
"""Seconds of operation after which earlier failures no longer count."""
MAX_IGNORED = 20
"""Reported invalid tools per list."""
RESTART_DELAY = 0.5
"""Seconds between a failure and the restart, multiplied by the number of failures."""

_STOPPED = (McpServerState.FAILED, McpServerState.NEEDS_SIGN_IN)
_LIBRARY = ("mcp", "deputy_agents.mcp.stdio", "deputy_agents.mcp.http", "deputy_agents.mcp.tool_validation")
_MISSING = "MCP servers need the Python package mcp in Deputy's environment: pip install 'mcp>=2.3,<3'"
_SECRET_NAME = re.compile(r"key|token|secret|passw|credential|auth", re.IGNORECASE)
_MIN_SECRET = 8
_MAX_REASON = 300


class McpConnection:
    """The MCP server configured by ``entry``, run in the folder ``cwd``, ``isolated`` where the system can. ``changed``
    is called after every change of its state or catalog. ``ask`` asks the user in the name of the session."""

    def __init__(
        self,
        entry: McpServerEntry,
        cwd: str,
        changed: Callable[[], None],
        *,
        isolated: bool = True,
        ask: Ask | None = None,
        sign_ins: SignIns | None = None,
    ) -> None:
        self.entry = entry
        self.state = McpServerState.STARTING
        self.problem = ""
        self.catalog = McpCatalog()
        self.start_finished = anyio.Event()
        """Set when the first start has succeeded or failed."""
        self._place = cwd, isolated
        self._changed = changed
        self._callers = Callers(entry.name, CALL_TIMEOUT, ask)
        self._client: Client | None = None
        self._started = Signal()
        self._wake = asyncio.Event()
        self._failure: str | None = None
        self._secrets: frozenset[str] = frozenset()
        self._sign_in = NeededSignIn(entry.name, sign_ins or SignIns(), ask)
        self._ignored_tools: dict[str, None] = {}
        """Sentences about invalid tools in the list of the MCP server."""

    async def run(self) -> None:
        """Keeps the MCP server running until it is cancelled or has failed too often."""
        try:
            await to_thread.run_sync(_import_library)
            await self._run_with_restarts()
        except ModuleNotFoundError:
            self.problem = _MISSING
            self._set_state(McpServerState.FAILED)
        finally:
            self.start_finished.set()

    async def call_tool(
        self, tool: str, arguments: Mapping[str, object], agent_id: str = "", ask: Ask | None = None
    ) -> "CallToolResult":
        """Calls a tool for an agent, in whose name the MCP server can ``ask`` the user. Raises ToolError like all
        requests to an MCP server."""
        return await self._request(lambda client: client.call_tool(tool, dict(arguments)), agent_id, ask)

    async def read_resource(self, uri: str, agent_id: str = "", ask: Ask | None = None) -> "ReadResourceResult":
        """Reads a resource for an agent, as :meth:`call_tool`."""
        return await self._request(lambda client: client.read_resource(uri), agent_id, ask)

    async def get_prompt(self, prompt: str, arguments: Mapping[str, str]) -> "GetPromptResult":
        """Fills a prompt with arguments. Raises ToolError like all requests to an MCP server."""
        return await self._request(lambda client: client.get_prompt(prompt, dict(arguments)))

    async def _request(self, send: "Callable[[Client], Awaitable[T]]", agent_id: str = "", ask: Ask | None = None) -> T:
        """
        Raises:
            ToolError: the MCP server is not running, returns an error, fails, or does not respond in time.
        """
        from mcp.shared.exceptions import MCPError

        name = self.entry.name
        client = await self._wait_for_client()
        try:
            async with self._callers.calling(agent_id, ask):
                try:
                    return await send(client)
                except MCPError as error:
                    await self._open_pages(error)
                    raise
        except TimeoutError:
            raise ToolError(f"The MCP server {name} did not respond within {CALL_TIMEOUT:g} s.") from None
        except MCPError as error:
            # The error code does not show whether the connection is lost: MCP servers use it for their own errors.
            if self._failure is not None or self._client is not client:
                self._client = None if self._client is client else self._client
                raise ToolError(f"The MCP server {name} failed during this call and is restarting.") from None
            raise ToolError(f"The MCP server {name} returned an error: {self.redacted(_reason(error))}") from None
        except Exception as error:  # noqa: BLE001 - errors of the library end only this call
            logger.info("MCP server %s: a call failed with %s", name, type(error).__name__)
            raise ToolError(f"The MCP server {name} is not available: {self.redacted(_reason(error))}") from None

    async def _open_pages(self, error: "MCPError") -> None:
        """If a request failed because the user has to open pages first: asks the user to.

        Raises:
            ToolError: that was the cause; it says what the user answered.
        """
        for form in forms_of_error(self.entry.name, error):
            outcome = await self._callers.put(form)
            if outcome is None or outcome.action is not InputAction.ACCEPTED:
                raise ToolError(f"The MCP server {self.entry.name} needs the user to open a page first: not done.")
            raise ToolError(
                f"The MCP server {self.entry.name} needs the user to open a page first. The user has agreed: try again "
                "when they have finished there."
            )

    def redacted(self, text: str) -> str:
        """``text`` without the secrets that were passed to the MCP server."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text

    async def _run_with_restarts(self) -> None:
        from deputy_agents.web.connect import Unreachable

        failures = unreachable = 0
        while True:
            started_at = anyio.current_time()
            cause: BaseException | None = None
            try:
                await self._run_once()
            except Exception as error:  # noqa: BLE001 - errors of the MCP server or the library end only this server
                cause = _cause(error)
                logger.info("MCP server %s: %s", self.entry.name, type(cause).__name__)
                self.problem = self._failure or self.redacted(_reason(error))
            if self._sign_in.missing:
                await self._wait_for_sign_in()
                failures = unreachable = 0
                continue
            failures = 1 if anyio.current_time() - started_at > STABLE_AFTER else failures + 1
            unreachable = unreachable + 1 if isinstance(cause, Unreachable) else 0
            permanent = isinstance(cause, Unreachable) and cause.permanent
            if failures >= MAX_FAILURES or unreachable >= MAX_UNREACHABLE or permanent:
                self._set_state(McpServerState.FAILED)
                return
            self._set_state(McpServerState.STARTING)
            await anyio.sleep(RESTART_DELAY * failures)

    async def _wait_for_sign_in(self) -> None:
        def report(problem: str) -> None:
            self.problem = problem
            self._changed()

        self.problem, self.catalog = self._sign_in.problem, McpCatalog()
        self._set_state(McpServerState.NEEDS_SIGN_IN)
        await self._sign_in.wait(self.entry.expand(self.entry.url, os.environ), report)
        self._set_state(McpServerState.STARTING)

    def _miss_sign_in(self) -> None:
        self._sign_in.missing = True
        self._failure = "it needs you to sign in"
        self._wake.set()

    async def _wait_for_client(self) -> "Client":
        with anyio.move_on_after(RESTART_TIMEOUT):
            while self._client is None and self.state not in _STOPPED:
                await self._started.wait()
        if self._client is None:
            raise ToolError(f"The MCP server {self.entry.name} is not running: {self.problem or 'it does not start'}.")
        return self._client

    async def _run_once(self) -> None:
        """Runs the MCP server until it fails."""
        self._failure = None
        self._wake.clear()
        try:
            async with self._connect() as client:
                self._client = client
                self.problem = ""
                self._set_state(McpServerState.READY)
                while self._failure is None:
                    await self._wake.wait()
                    self._wake.clear()
                    if self._failure is None:
                        await self._update_catalog(client)
                        self._changed()
            self.problem = self._failure or "it stopped"
        finally:
            self._client = None

    def _set_state(self, state: McpServerState) -> None:
        self.state = state
        if state is not McpServerState.STARTING:
            self.start_finished.set()
            self._started.notify()
        self._changed()

    @asynccontextmanager
    async def _connect(self) -> "AsyncGenerator[Client]":
        from mcp import Client

        from deputy_agents.mcp.tool_validation import with_valid_tools

        with anyio.fail_after(START_TIMEOUT) as limit:
            async with (
                self._transport() as transport,
                Client(
                    with_valid_tools(transport, self._ignore_tool),
                    mode="legacy",
                    message_handler=self._handle_message,
                    elicitation_callback=self._callers.elicit,
                ) as client,
            ):
                await self._update_catalog(client)
                limit.deadline = float("inf")
                yield client

    async def _update_catalog(self, client: "Client") -> None:
        self._ignored_tools = {}
        with anyio.fail_after(START_TIMEOUT):
            self.catalog = await read_catalog(client, self._ignored_tools)

    def _ignore_tool(self, name: str, reason: str) -> None:
        if len(self._ignored_tools) < MAX_IGNORED:
            self._ignored_tools[ignored(name, self.redacted(reason))] = None

    async def _handle_message(self, message: "IncomingMessage") -> None:
        """Reads the catalog again after a ``list_changed`` notification."""
        if getattr(message, "method", "").endswith("/list_changed"):
            self._wake.set()

    def _on_end(self, errors: str) -> None:
        """The MCP server has stopped; the last line of ``errors`` says why."""
        last_line = errors.strip().rpartition("\n")[2]
        reason = self.redacted(cut(visible(clean(last_line)), _MAX_REASON))
        self._failure = f"it stopped: {reason}" if last_line else "it stopped"
        self._wake.set()

    @asynccontextmanager
    async def _transport(self) -> AsyncGenerator[Any]:
        from deputy_agents.mcp.http import http_transport
        from deputy_agents.mcp.oauth_session import SessionAuth
        from deputy_agents.mcp.stdio import stdio_transport

        entry = self.entry
        if entry.url:
            headers, url = self._expanded(entry.headers), entry.expand(entry.url, os.environ)
            signs = "authorization" not in map(str.lower, headers)
            auth = SessionAuth(url, self._sign_in.sign_ins, self._miss_sign_in, self._hide) if signs else None
            async with http_transport(url, headers, self._on_end, auth) as transport:
                yield transport
        else:
            command = [entry.expand(word, os.environ) for word in (entry.command, *entry.args)]
            cwd, isolated = self._place
            yield stdio_transport(command, cwd, self._expanded(entry.env), self._on_end, isolated=isolated)

    def _hide(self, sign_in: SignIn) -> None:
        self._secrets |= sign_in.secrets

    def _expanded(self, values: Mapping[str, str]) -> dict[str, str]:
        """``values`` with variables expanded; remembers which of them are secrets."""
        expanded = {name: self.entry.expand(value, os.environ) for name, value in values.items()}
        secret = (value for name, value in expanded.items() if _SECRET_NAME.search(name) or values[name] != value)
        self._secrets = frozenset(value for value in secret if len(value) >= _MIN_SECRET)
        return expanded


def _import_library() -> None:
    """Imports the client library, in a thread: it takes half a second."""
    for name in _LIBRARY:
        import_module(name)


def _cause(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _reason(raised: BaseException) -> str:
    error = _cause(raised)
    if isinstance(error, ValidationError):
        return f"its response is not valid: {validation_errors.describe(error)}"
    if isinstance(error, TimeoutError):
        return f"it did not respond within {START_TIMEOUT:g} s"
    return cut(visible(clean(str(error) or type(error).__name__)), _MAX_REASON)
