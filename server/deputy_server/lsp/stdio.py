"""Serving one client over standard input and output, from the first byte to the exit code.

Whatever ends the connection (``exit``, the end of input, a signal, an editor that is gone or no longer reads), the
end is the same: open requests are cancelled and answered, sessions are stopped, what is written is sent, each step
with a bound.
"""

import asyncio
import logging
import os
import sys

import anyio

from deputy_server.lazy_app import Host
from deputy_server.lsp.connection_loop import FLUSH_GRACE, FORCE_AFTER, messages_end, output_breaks, wind_up
from deputy_server.lsp.framing import Frames, new_reader
from deputy_server.lsp.os_process import is_alive
from deputy_server.lsp.server import DeputyProtocol, DeputyServer
from deputy_server.rpc.logs import log_to
from deputy_server.rpc.stdio import claim_stdio, end_by_force_after, first_of, open_input, signal_comes
from deputy_server.rpc.writer import Writer
from deputy_server.serve_options import Options

WATCH_INTERVAL = 2
"""Seconds between two looks at whether the editor's process is still there."""


async def serve(options: Options | None = None) -> int:
    """Serves until the connection ends; the exit code of the process."""
    stdin, stdout = claim_stdio()
    code = 1
    out, errors = Writer(stdout), log_to(os.dup(2))
    # pygls logs whole messages, which hold the user's text.
    logging.getLogger("pygls").setLevel(logging.CRITICAL + 1)
    try:
        async with anyio.create_task_group() as tasks:
            host = Host(options)
            tasks.start_soon(host.run)
            protocol = DeputyServer(host).rpc
            protocol.connect(out, tasks)
            code = await _until_the_end(protocol, await open_input(stdin, new_reader()), out)
            end_by_force_after(FORCE_AFTER, code)
            await wind_up(protocol)
            tasks.cancel_scope.cancel()
    finally:
        await out.close(FLUSH_GRACE)
        await errors.close(FLUSH_GRACE)
    return code


async def _until_the_end(protocol: DeputyProtocol, reader: asyncio.StreamReader, out: Writer) -> int:
    """Runs the connection; the exit code is that of the first thing that ends it."""
    ends = [lambda: messages_end(protocol, Frames(reader)), lambda: output_breaks(out)]
    if sys.platform != "win32":
        ends += [signal_comes, lambda: _editor_dies(protocol)]
    return await first_of(*ends)


async def _editor_dies(protocol: DeputyProtocol) -> int:
    await protocol.ready.wait()
    if protocol.editor is None:
        await anyio.sleep_forever()
    else:
        while is_alive(protocol.editor):  # noqa: ASYNC110 - a process that is no child tells nobody of its end
            await anyio.sleep(WATCH_INTERVAL)
    return 0
