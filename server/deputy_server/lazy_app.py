"""Builds the process's one :class:`~deputy_server.app.App` when a client first needs it.

A server answers ``initialize`` before it imports what runs agents: the answer does not need it, and importing overlaps
with the wait for the client's next message.
"""

from importlib import import_module
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from deputy_agents.collector import collector_paused
from deputy_server.serve_options import ServeOptions

if TYPE_CHECKING:
    from deputy_server.app import App


class LazyApp:
    """Builds the App on demand, and imports ``module``, which handles requests. :meth:`run` owns the App: cancelling it
    ends all sessions."""

    def __init__(self, options: ServeOptions | None = None, *, module: str = "deputy_server.lsp.routes") -> None:
        self._options = options or ServeOptions()
        self._module = module
        self._requested = anyio.Event()
        self._ready = anyio.Event()
        self._app: App | None = None

    async def run(self) -> None:
        """Wait until the App is requested, then keep it open until cancelled."""
        await self._requested.wait()
        async with await anyio.to_thread.run_sync(_load, self._options, self._module) as app:
            self._app = app
            self._ready.set()
            await anyio.sleep_forever()

    async def get(self) -> "App":
        """The App, when it is ready."""
        while self._app is None:
            self._requested.set()
            await self._ready.wait()
        return self._app


def _load(options: ServeOptions, module: str) -> "App":
    """Import and build, in a thread, so that the event loop stays responsive."""
    with collector_paused():
        from deputy_server.app import App

        import_module(module)
        return App(options=options)
