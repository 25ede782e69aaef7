"""Logging that never blocks the event loop: when standard error is not read, log lines are dropped."""

import asyncio
import contextlib
import logging

from deputy_server.rpc.writer import Writer

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _LogHandler(logging.Handler):
    def __init__(self, out: Writer) -> None:
        super().__init__()
        self._out = out
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        data = (self.format(record) + "\n").encode("utf-8", "replace")
        # Any thread may log, also after the event loop has closed.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._write, data)

    def _write(self, data: bytes) -> None:
        if not self._out.congested:
            self._out.write(data)


def log_to(fd: int) -> Writer:
    """Send warnings and errors of the process to ``fd``, which the returned writer owns."""
    out = Writer(fd, high_water=2**16)
    handler = _LogHandler(out)
    handler.setFormatter(logging.Formatter(_FORMAT))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    return out
