"""Serve one client over standard input and output.

Whatever ends the connection (``exit``, the end of input, a signal, an editor that exits or no longer reads), the same
steps follow, each with a time limit: cancel and answer open requests, stop sessions, write out the output.
"""

import logging

import anyio

from deputy_server.lazy_app import LazyApp
from deputy_server.lsp.os_process import is_alive
from deputy_server.lsp.server import DeputyProtocol, DeputyServer
from deputy_server.rpc.framing import MAX_HEADER_LINE, Frames
from deputy_server.rpc.lifecycle import (
    FORCE_AFTER,
    first_of,
    force_exit_after,
    receive_messages,
    wait_for_signal,
    wait_output_closed,
)
from deputy_server.rpc.stdio import open_stdio
from deputy_server.serve_options import ServeOptions

WATCH_INTERVAL = 2
"""Seconds between checks that the editor's process is still running."""


async def serve(options: ServeOptions | None = None) -> int:
    """Serve until the connection ends; return the exit code of the process."""
    # pygls logs whole messages, which contain the user's text.
    logging.getLogger("pygls").setLevel(logging.CRITICAL + 1)
    async with open_stdio(MAX_HEADER_LINE) as stdio:
        lazy_app = LazyApp(options)
        stdio.tasks.start_soon(lazy_app.run)
        protocol = DeputyServer(lazy_app).rpc
        protocol.connect(stdio.out, stdio.tasks)
        code = await first_of(
            lambda: receive_messages(protocol.endpoint, Frames(stdio.reader)),
            lambda: wait_output_closed(stdio.out),
            wait_for_signal,
            lambda: _wait_editor_exit(protocol),
        )
        force_exit_after(FORCE_AFTER, code)
        await protocol.close()
    return code


async def _wait_editor_exit(protocol: DeputyProtocol) -> int:
    await protocol.ready.wait()
    if protocol.editor is None:
        await anyio.sleep_forever()
    else:
        while is_alive(protocol.editor):  # noqa: ASYNC110 - there is no event for the exit of a foreign process
            await anyio.sleep(WATCH_INTERVAL)
    return 0
