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

    def drop(self, token: Token) -> None:
        self._cancels.pop(token, None)

    def cancelled(self, token: Token) -> None:
        """The client cancels; a token that is unknown or has ended is ignored."""
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
        self._waits_for: set[str] = set()
        self._begun = False
        self._outcome: str | None = None
        tokens.add(token, cancel)

    async def create(self) -> None:
        """Asks the client to accept the token, then begins. A client that does not accept in time sees nothing."""
        try:
            params = {"token": self._token}
            await self._protocol.request(types.WINDOW_WORK_DONE_PROGRESS_CREATE, params, timeout=CREATE_TIMEOUT)
        except (TimeoutError, ClientError, ConnectionLost) as error:
            log.info("the client takes no progress: %s", type(error).__name__)
            self._tokens.drop(self._token)
        else:
            self.begin()

    def begin(self) -> None:
        self._begun = True
        self._send(kind="begin", title=self._title, message=self._words, cancellable=True)
        if self._outcome is not None:
            self._send(kind="end", message=self._outcome)

    def report(self, message: str) -> None:
        self._message = message
        if not self._waits_for:
            self._tell()

    def wait(self, request_id: str) -> None:
        """Says that the user is waited for, until each such question is settled."""
        if self._message == _STARTING:
            self._message = "working"  # is what it goes on with
        self._waits_for.add(request_id)
        if len(self._waits_for) == 1:
            self._tell()

    def settled(self, request_id: str) -> None:
        self._waits_for.discard(request_id)
        if not self._waits_for:
            self._tell()

    def end(self, outcome: str) -> None:
        """Ends it, once."""
        if self._outcome is None:
            self._outcome = outcome
            self._tokens.drop(self._token)
            if self._begun:
                self._send(kind="end", message=outcome)

    @property
    def _words(self) -> str:
        return "waits for you" if self._waits_for else self._message

    def _tell(self) -> None:
        if self._begun and self._outcome is None:
            self._send(kind="report", message=self._words)

    def _send(self, **value: object) -> None:
        self._protocol.notify(types.PROGRESS, {"token": self._token, "value": value})
