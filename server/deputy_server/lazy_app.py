"""Holds the one :class:`~deputy_server.app.App` of the process, built when a client first connects.

A server answers ``initialize`` before it loads what runs agents: nothing in that answer needs it, and the editor's
next message is on its way meanwhile.
"""

import gc
from importlib import import_module
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from deputy_server.serve_options import Options

if TYPE_CHECKING:
    from deputy_server.app import App


class Host:
    """Builds the App on demand, and loads ``module``, which serves the first request. :meth:`run` owns it: when that is
    cancelled, its sessions end."""

    def __init__(self, options: Options | None = None, *, module: str = "deputy_server.lsp.routes") -> None:
        self._options = options or Options()
        self._module = module
        self._wanted = anyio.Event()
        self._ready = anyio.Event()
        self._app: App | None = None

    async def run(self) -> None:
        """Waits until someone wants the App, then keeps it until cancelled."""
        await self._wanted.wait()
        async with await anyio.to_thread.run_sync(_load, self._options, self._module) as app:
            self._app = app
            self._ready.set()
            await anyio.sleep_forever()

    async def app(self) -> "App":
        """The App, as soon as it is there."""
        while self._app is None:
            self._wanted.set()
            await self._ready.wait()
        return self._app


def _load(options: Options, module: str) -> "App":
    """Imports and builds, in a thread: the loop goes on serving. Importing makes many objects and no garbage."""
    gc.disable()
    try:
        from deputy_server.app import App

        import_module(module)
        return App(options=options)
    finally:
        gc.freeze()
        gc.enable()
