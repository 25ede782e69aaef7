"""Warnings of the server in the client's own log window: where people look when something does not work."""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from deputy_server.lsp.protocol import RpcProtocol

_PACKAGES = ("deputy_server", "deputy_agents")
_ERROR, _WARNING = 1, 2
_LONGEST = 1000
"""Characters of one line."""


class ClientLog(logging.Handler):
    """Tells one client what the server warns of: the message alone, without what was raised, and without secrets."""

    def __init__(self, protocol: RpcProtocol, redact: Callable[[str], str]) -> None:
        super().__init__(logging.WARNING)
        self._protocol = protocol
        self._redact = redact
        self._loop = asyncio.get_running_loop()
        for package in _PACKAGES:
            logging.getLogger(package).addHandler(self)

    def end(self) -> None:
        """The client is told no more."""
        for package in _PACKAGES:
            logging.getLogger(package).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        kind = _ERROR if record.levelno >= logging.ERROR else _WARNING
        text = self._redact(record.getMessage())[:_LONGEST]
        # Any thread may log. When the loop has ended, so has the client.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._tell, kind, text)

    def _tell(self, kind: int, text: str) -> None:
        if not self._protocol.out.congested:
            self._protocol.notify("window/logMessage", {"type": kind, "message": text})
