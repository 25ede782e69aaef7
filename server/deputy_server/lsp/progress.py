"""Work-done progress: the view of a run that every LSP client has."""

import logging
from collections.abc import Callable
from typing import TypeAlias

from lsprotocol import types

from deputy_server.lsp.protocol import RpcProtocol
from deputy_server.rpc.errors import ClientError, ConnectionLost

log = logging.getLogger(__name__)

Token: TypeAlias = str | int

CREATE_TIMEOUT = 5
"""Seconds that a client may take to accept a token; some never answer."""


class ProgressTokens:
    """The tokens of one client that can be cancelled now."""

    def __init__(self) -> None:
        self._cancels: dict[Token, Callable[[], None]] = {}

    def add(self, token: Token, cancel: Callable[[], None]) -> None:
        self._cancels[token] = cancel

    def remove(self, token: Token) -> None:
        self._cancels.pop(token, None)

    def cancel(self, token: Token) -> None:
        """Handle a cancel by the client. An unknown or ended token is ignored."""
        if (cancel := self._cancels.get(token)) is not None:
            cancel()


_STARTING = "starting"


class Progress:
    """One token from begin to end. Reports and the end may come before the client has accepted it."""

    def __init__(
        self, protocol: RpcProtocol, tokens: ProgressTokens, token: Token, title: str, cancel: Callable[[], None]
    ) -> None:
        self._protocol = protocol
        self._tokens = tokens
        self._token = token
        self._title = title
        self._message = _STARTING
        self._open_requests: set[str] = set()
        """Permission requests of the run that the user has not answered."""
        self._begun = False
        self._outcome: str | None = None
        tokens.add(token, cancel)

    async def create(self) -> None:
        """Ask the client to accept the token, then begin. A client that does not accept in time sees nothing."""
        try:
            params = {"token": self._token}
            await self._protocol.request(types.WINDOW_WORK_DONE_PROGRESS_CREATE, params, timeout=CREATE_TIMEOUT)
        except (TimeoutError, ClientError, ConnectionLost) as error:
            log.info("the client did not accept a progress token: %s", type(error).__name__)
            self._tokens.remove(self._token)
        else:
            self.begin()

    def begin(self) -> None:
        self._begun = True
        self._send(kind="begin", title=self._title, message=self._shown_message, cancellable=True)
        if self._outcome is not None:
            self._send(kind="end", message=self._outcome)

    def report(self, message: str) -> None:
        self._message = message
        if not self._open_requests:
            self._send_report()

    def wait_for_user(self, request_id: str) -> None:
        """Show that the run waits for the user, until all such permission requests are resolved."""
        if self._message == _STARTING:
            self._message = "working"  # shown when the run continues
        self._open_requests.add(request_id)
        if len(self._open_requests) == 1:
            self._send_report()

    def resolved(self, request_id: str) -> None:
        self._open_requests.discard(request_id)
        if not self._open_requests:
            self._send_report()

    def end(self, outcome: str) -> None:
        """End the progress. Later calls change nothing."""
        if self._outcome is None:
            self._outcome = outcome
            self._tokens.remove(self._token)
            if self._begun:
                self._send(kind="end", message=outcome)

    @property
    def _shown_message(self) -> str:
        return "waiting for you" if self._open_requests else self._message

    def _send_report(self) -> None:
        if self._begun and self._outcome is None:
            self._send(kind="report", message=self._shown_message)

    def _send(self, **value: object) -> None:
        self._protocol.notify(types.PROGRESS, {"token": self._token, "value": value})
