"""``deputy acp``: serve one client over standard input and output.

``initialize`` is answered at once, while the code that runs agents is imported. Whatever ends the connection (the end
of input, a signal, a client that no longer reads), the same steps follow, each with a time limit: cancel and answer
open requests, stop sessions, write out the output.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from deputy_protocol.errors import ErrorCode
from deputy_protocol.version import VERSION
from deputy_server.acp.client import Client, read_client
from deputy_server.at_terminal import explain
from deputy_server.lazy_app import LazyApp
from deputy_server.rpc.endpoint import Dialect, Endpoint, RequestHandler, unknown_method
from deputy_server.rpc.errors import RpcError, to_rpc_error
from deputy_server.rpc.framing import MAX_MESSAGE, Lines, frame_as_line
from deputy_server.rpc.json import JsonObject
from deputy_server.rpc.lifecycle import (
    CANCEL_GRACE,
    FORCE_AFTER,
    first_of,
    force_exit_after,
    receive_messages,
    wait_for_signal,
    wait_output_closed,
)
from deputy_server.rpc.open_requests import RequestId
from deputy_server.rpc.stdio import open_stdio
from deputy_server.rpc.writer import OutputQueue
from deputy_server.serve_options import ServeOptions

if TYPE_CHECKING:
    from deputy_protocol.settings import Settings
    from deputy_server.acp.agent import Agent

log = logging.getLogger(__name__)

PROTOCOL_VERSION = 1

RESOURCE_NOT_FOUND = -32002

ACP = Dialect(
    cancel_method="$/cancel_request",
    cancel_field="requestId",
    max_requests=256,
    requires_version=False,
    echoes_invalid_id=False,
    error_codes={ErrorCode.UNKNOWN_SESSION: RESOURCE_NOT_FOUND},
)


@dataclass(frozen=True, slots=True)
class AcpOptions:
    """``definition`` is the name of the agent definition of primary agents."""

    settings: "Settings | None" = None
    definition: str | None = None
    traffic: ServeOptions = field(default_factory=ServeOptions)


class AcpService:
    """Serves a client, from ``initialize`` on. The other methods wait until their code is imported."""

    def __init__(self, out: OutputQueue, tasks: TaskGroup, lazy_app: LazyApp, options: AcpOptions) -> None:
        self.endpoint = Endpoint(ACP, self, out, tasks, frame=frame_as_line)
        self._lazy_app = lazy_app
        self._options = options
        self._initialized = False
        self._agent: Agent | None = None
        self._loaded = anyio.Event()

    def check_request(self, method: str) -> RpcError | None:
        return None

    def accept_request(self, method: str, params: object) -> RequestHandler | None:
        if method == "initialize":
            return self._initialize
        return partial(self._run_when_loaded, method) if self._agent is None else self._agent.methods.get(method)

    def accept_notification(self, method: str, params: object) -> None:
        if self._agent is not None and (listener := self._agent.listeners.get(method)) is not None:
            self.endpoint.tasks.start_soon(self._run_listener, method, listener, params)

    def request_finished(self, method: str, request_id: RequestId, seconds: float) -> None:
        pass

    async def _initialize(self, params: object) -> JsonObject:
        if self._initialized:
            raise RpcError(ErrorCode.INVALID_REQUEST, "The connection is already initialized.")
        self._initialized = True
        self.endpoint.tasks.start_soon(self._load, read_client(params))
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": False},
                "sessionCapabilities": {
                    name: {} for name in ("list", "resume", "close", "delete", "additionalDirectories")
                },
            },
            "agentInfo": {"name": "deputy", "title": "Deputy", "version": VERSION},
            "authMethods": [],
        }

    async def _load(self, client: Client) -> None:
        app = await self._lazy_app.get()
        from deputy_server.acp.agent import Agent  # already imported by the LazyApp, in its thread

        self._agent = Agent(app, app.connect(self._options.settings), self.endpoint, client, self._options.definition)
        self._loaded.set()

    async def _run_when_loaded(self, method: str, params: object) -> object:
        if not self._initialized:
            raise RpcError(ErrorCode.INVALID_REQUEST, "Send initialize first.")
        await self._loaded.wait()
        if (handler := self.accept_request(method, params)) is None:
            raise unknown_method(method)
        return await handler(params)

    async def _run_listener(self, method: str, listener: Callable[[object], Awaitable[None]], params: object) -> None:
        try:
            await listener(params)
        except Exception as error:  # noqa: BLE001 - a notification has no response, and must not end the connection
            log.warning("%s failed: %s", method, to_rpc_error(error).message)


def main(options: AcpOptions | None = None) -> int:
    """Run ``deputy acp``; return the exit code of the process."""
    explain("acp", "acp")
    return anyio.run(serve, options or AcpOptions())


async def serve(options: AcpOptions) -> int:
    """Serve until the connection ends; return the exit code of the process."""
    async with open_stdio(MAX_MESSAGE) as stdio:
        lazy_app = LazyApp(options.traffic, module="deputy_server.acp.agent")
        stdio.tasks.start_soon(lazy_app.run)
        endpoint = AcpService(stdio.out, stdio.tasks, lazy_app, options).endpoint
        code = await first_of(
            lambda: receive_messages(endpoint, Lines(stdio.reader)),
            lambda: wait_output_closed(stdio.out),
            wait_for_signal,
        )
        force_exit_after(FORCE_AFTER, code)
        await endpoint.cancel_open_requests(grace=CANCEL_GRACE)
        endpoint.disconnect()
    return code
