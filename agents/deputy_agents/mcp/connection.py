"""One server: started, asked for what it has, started again when it breaks down, and ended."""

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
from deputy_agents.domain.errors import ToolError
from deputy_agents.guidance.mcp_entry import ServerEntry
from deputy_agents.mcp.catalog import McpCatalog, McpServerState
from deputy_agents.mcp.listing import left_out, offer_of
from deputy_agents.redact import MASK
from deputy_agents.text import clean, cut, visible

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client.session import IncomingMessage
    from mcp_types import CallToolResult, GetPromptResult, ReadResourceResult

T = TypeVar("T")
logger = logging.getLogger(__name__)

START_LIMIT = 60.0
"""Seconds until a server must have said what it has."""
CALL_LIMIT = 120.0
"""Seconds that one call may take."""
RESTART_LIMIT = 10.0
"""Seconds that a call waits for a server that is being started again."""
ATTEMPTS = 3
"""Failures in a row after which a server is given up."""
STEADY = 60.0
"""Seconds after which a server that ran does not count as one that fails."""
MAX_WRONG = 20
"""Tools of one list that are told to be left out."""
PAUSE = 0.5
"""Seconds between a failure and the next start, times the failures so far."""

_LIBRARY = ("mcp", "deputy_agents.mcp.stdio", "deputy_agents.mcp.http", "deputy_agents.mcp.tool_validation")
_MISSING = "MCP servers need the Python package mcp in Deputy's own environment: pip install 'mcp>=2.3,<3'"
_SECRET_NAME = re.compile(r"key|token|secret|passw|credential|auth", re.IGNORECASE)
_MIN_SECRET = 8


class McpConnection:
    """The server of ``entry``, run in the folder ``cwd``; ``changed`` is called whenever its state or what it has is
    another one."""

    def __init__(self, entry: ServerEntry, cwd: str, changed: Callable[[], None]) -> None:
        self.entry = entry
        self.state = McpServerState.STARTING
        self.problem = ""
        self.catalog = McpCatalog()
        self.start_finished = anyio.Event()
        """It is ready, or was once, or will not be."""
        self._cwd = cwd
        self._changed = changed
        self._client: Client | None = None
        self._up = anyio.Event()
        self._stirred = anyio.Event()
        self._broken: str | None = None
        self._secrets: frozenset[str] = frozenset()
        self._wrong: dict[str, None] = {}
        """Sentences about what it lists and cannot be given to anybody."""

    async def run(self) -> None:
        """Keeps the server running until it is cancelled, or has failed too often."""
        try:
            await to_thread.run_sync(_load)
            await self._keep_up()
        except ModuleNotFoundError:
            self.problem = _MISSING
            self._set(McpServerState.FAILED)
        finally:
            self.start_finished.set()

    async def call(self, tool: str, arguments: Mapping[str, object]) -> "CallToolResult":
        """What a tool gives. Raises as :meth:`_ask`."""
        return await self._ask(lambda client: client.call_tool(tool, dict(arguments)))

    async def read(self, uri: str) -> "ReadResourceResult":
        """What a resource holds. Raises as :meth:`_ask`."""
        return await self._ask(lambda client: client.read_resource(uri))

    async def fill(self, prompt: str, arguments: Mapping[str, str]) -> "GetPromptResult":
        """What a prompt becomes. Raises as :meth:`_ask`."""
        return await self._ask(lambda client: client.get_prompt(prompt, dict(arguments)))

    async def _ask(self, what: "Callable[[Client], Awaitable[T]]") -> T:
        """
        Raises:
            ToolError: the server is not there, says no, takes too long, or breaks down.
        """
        from mcp.shared.exceptions import MCPError

        name = self.entry.name
        client = await self._running()
        try:
            with anyio.fail_after(CALL_LIMIT):
                return await what(client)
        except TimeoutError:
            raise ToolError(f"The MCP server {name} gave no answer within {CALL_LIMIT:g} s.") from None
        except MCPError as error:
            # The code is no sign that the connection is over: servers have it for errors of their own.
            if self._broken is not None or self._client is not client:
                self._client = None if self._client is client else self._client
                raise ToolError(f"The MCP server {name} broke down in this call; it is started again.") from None
            raise ToolError(f"The MCP server {name} says: {self.told(_reason(error))}") from None
        except Exception as error:  # noqa: BLE001 - of the library or of what it stands on: it ends this call alone
            logger.info("MCP server %s: a call failed with %s", name, type(error).__name__)
            raise ToolError(f"The MCP server {name} cannot be used now: {self.told(_reason(error))}") from None

    def told(self, text: str) -> str:
        """``text`` of the server without what only it was given to know."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text

    # -- inside ----------------------------------------------------------------------------------------------------

    async def _keep_up(self) -> None:
        failures = 0
        while True:
            begun = anyio.current_time()
            try:
                await self._serve()
            except Exception as error:  # noqa: BLE001 - whatever a server or the library does, it ends this server alone
                logger.info("MCP server %s: %s", self.entry.name, type(error).__name__)
                self.problem = self._broken or self.told(_reason(error))
            failures = 1 if anyio.current_time() - begun > STEADY else failures + 1
            if failures >= ATTEMPTS:
                self._set(McpServerState.FAILED)
                return
            self._set(McpServerState.STARTING)
            await anyio.sleep(PAUSE * failures)

    async def _running(self) -> "Client":
        with anyio.move_on_after(RESTART_LIMIT):
            while self._client is None and self.state is not McpServerState.FAILED:
                await self._up.wait()
        if self._client is None:
            raise ToolError(f"The MCP server {self.entry.name} does not run: {self.problem or 'it does not start'}.")
        return self._client

    async def _serve(self) -> None:
        """One life of the server; returns when it has broken down."""
        self._broken = None
        try:
            async with self._connected() as client:
                self._client = client
                self.problem = ""
                self._set(McpServerState.READY)
                while self._broken is None:
                    self._stirred = anyio.Event()
                    await self._stirred.wait()
                    if self._broken is None:
                        await self._look(client)
                        self._changed()
            self.problem = self._broken or "it has ended"
        finally:
            self._client = None

    def _set(self, state: McpServerState) -> None:
        self.state = state
        if state is not McpServerState.STARTING:
            self.start_finished.set()
            self._up.set()
            self._up = anyio.Event()
        self._changed()

    @asynccontextmanager
    async def _connected(self) -> "AsyncGenerator[Client]":
        from mcp import Client

        from deputy_agents.mcp.tool_validation import sifted

        with anyio.fail_after(START_LIMIT) as limit:
            async with (
                self._transport() as transport,
                Client(sifted(transport, self._leave_out), mode="legacy", message_handler=self._heard) as client,
            ):
                await self._look(client)
                limit.deadline = float("inf")
                yield client

    async def _look(self, client: "Client") -> None:
        self._wrong = {}
        with anyio.fail_after(START_LIMIT):
            self.catalog = await offer_of(client, self._wrong)

    def _leave_out(self, name: str, why: str) -> None:
        if len(self._wrong) < MAX_WRONG:
            self._wrong[left_out(name, self.told(why))] = None

    async def _heard(self, message: "IncomingMessage") -> None:
        """The server says that it has other tools now."""
        if getattr(message, "method", "").endswith("/list_changed"):
            self._stirred.set()

    def _over(self, last_words: str) -> None:
        """The program says nothing more."""
        words = last_words.strip().rpartition("\n")[2]
        self._broken = f"it has ended: {self.told(cut(visible(clean(words)), 300))}" if words else "it has ended"
        self._stirred.set()

    @asynccontextmanager
    async def _transport(self) -> AsyncGenerator[Any]:
        from deputy_agents.mcp.http import http_transport
        from deputy_agents.mcp.stdio import stdio_transport

        entry = self.entry
        if entry.url:
            headers = self._expanded(entry.headers)
            async with http_transport(entry.expanded(entry.url, os.environ), headers, self._over) as transport:
                yield transport
        else:
            command = [entry.expanded(word, os.environ) for word in (entry.command, *entry.args)]
            yield stdio_transport(command, self._cwd, self._expanded(entry.env), self._over)

    def _expanded(self, values: Mapping[str, str]) -> dict[str, str]:
        whole = {name: self.entry.expanded(value, os.environ) for name, value in values.items()}
        secret = (value for name, value in whole.items() if _SECRET_NAME.search(name) or values[name] != value)
        self._secrets = frozenset(value for value in secret if len(value) >= _MIN_SECRET)
        return whole


def _load() -> None:
    """Imports the client library, in a thread: it takes half a second."""
    for name in _LIBRARY:
        import_module(name)


def _reason(raised: BaseException) -> str:
    error = raised
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if isinstance(error, ValidationError):
        return f"its answer is not one of the protocol: {validation_errors.told(error)}"
    if isinstance(error, TimeoutError):
        return f"it gave no answer within {START_LIMIT:g} s"
    return cut(visible(clean(str(error) or type(error).__name__)), 300)
