"""Refreshing the client's code lenses: ``workspace/codeLens/refresh``."""

from contextlib import suppress

from anyio.abc import TaskGroup
from lsprotocol import types

from deputy_server.lsp.client import Client
from deputy_server.lsp.protocol import RpcProtocol
from deputy_server.rpc.errors import ClientError, ConnectionLost

TIMEOUT = 10
"""Seconds that an editor may take to confirm a refresh."""


class LensRefresh:
    """Sends one request at a time. A failed request is not repeated: the next refresh replaces it."""

    def __init__(self, protocol: RpcProtocol, client: Client, tasks: TaskGroup) -> None:
        self._protocol = protocol
        self._supported = client.lens_refresh
        self._tasks = tasks
        self._stale = False
        self._running = False

    def start(self) -> None:
        """Request a refresh, unless the client does not support it."""
        self._stale = self._supported
        if self._stale and not self._running:
            self._running = True
            self._tasks.start_soon(self._run)

    async def _run(self) -> None:
        while self._stale:
            self._stale = False
            with suppress(TimeoutError, ClientError, ConnectionLost):
                await self._protocol.request(types.WORKSPACE_CODE_LENS_REFRESH, {}, timeout=TIMEOUT)
        self._running = False
