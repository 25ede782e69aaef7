"""Who may connect to a server that any process of the machine can reach.

Clients that have sent the token, and connections that have not sent it yet, have places of their own, so that neither
can take those of the other.
"""

import logging
from collections.abc import Callable

from deputy_agents.domain.errors import NotAllowed, Overloaded
from deputy_server.lsp.server import is_token

log = logging.getLogger(__name__)

MAX_CLIENTS = 32
"""Maximum number of clients that have sent the token."""

MAX_ARRIVALS = 16
"""Maximum number of connections that have not sent the token yet. A further one closes the oldest: a client sends it at
once. Addresses have no limits of their own, because all connections come from this machine."""


class Arrival:
    """One connection. ``close`` closes it at once."""

    def __init__(self, admission: "Admission", close: Callable[[], None]) -> None:
        self.close = close
        self._admission = admission

    def admit(self, token: object) -> None:
        """Make the connection that of a client, which sent ``token``.

        Raises:
            NotAllowed: the token is missing or wrong.
            Overloaded: too many clients are connected.
        """
        self._admission.admit(self, token)

    def leave(self) -> None:
        """The connection has ended."""
        self._admission.leave(self)


class Admission:
    """The places of a server whose clients must send ``token``."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._arrivals: dict[Arrival, None] = {}  # an ordered set
        self._clients: set[Arrival] = set()

    def arrive(self, close: Callable[[], None]) -> Arrival:
        """Give a place to a new connection, whose client has not sent the token yet."""
        while len(self._arrivals) >= MAX_ARRIVALS:
            oldest = next(iter(self._arrivals))
            del self._arrivals[oldest]
            log.warning("closed a connection that had not sent the token, because others wait to send it")
            oldest.close()
        arrival = Arrival(self, close)
        self._arrivals[arrival] = None
        return arrival

    def admit(self, arrival: Arrival, token: object) -> None:
        """Called only by :class:`Arrival`."""
        if not (isinstance(token, str) and is_token(token, self._token)):
            raise NotAllowed("The token is missing or wrong. Send the token that the server was given, or printed.")
        if arrival in self._clients:
            return
        if len(self._clients) >= MAX_CLIENTS:
            log.warning("rejected a client: %s are connected", len(self._clients))
            raise Overloaded(f"{len(self._clients)} clients are connected, which is the limit. Close one of them.")
        self._arrivals.pop(arrival, None)
        self._clients.add(arrival)

    def leave(self, arrival: Arrival) -> None:
        """Called only by :class:`Arrival`."""
        self._arrivals.pop(arrival, None)
        self._clients.discard(arrival)
