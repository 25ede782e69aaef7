"""Server warnings in the client's own log window, where users look for the cause of a problem."""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from deputy_server.lsp.protocol import RpcProtocol

_PACKAGES = ("deputy_server", "deputy_agents")
_ERROR, _WARNING = 1, 2
_MAX_TEXT = 1000
"""Characters of one message."""


class ClientLog(logging.Handler):
    """Sends warnings and errors to one client: only the message, without exceptions and secrets."""

    def __init__(self, protocol: RpcProtocol, redact: Callable[[str], str]) -> None:
        super().__init__(logging.WARNING)
        self._protocol = protocol
        self._redact = redact
        self._loop = asyncio.get_running_loop()
        for package in _PACKAGES:
            logging.getLogger(package).addHandler(self)

    def end(self) -> None:
        """Stop sending."""
        for package in _PACKAGES:
            logging.getLogger(package).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        kind = _ERROR if record.levelno >= logging.ERROR else _WARNING
        text = self._redact(record.getMessage())[:_MAX_TEXT]
        # Any thread may log, also after the event loop has closed.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._send, kind, text)

    def _send(self, kind: int, text: str) -> None:
        if not self._protocol.out.congested:
            self._protocol.notify("window/logMessage", {"type": kind, "message": text})
