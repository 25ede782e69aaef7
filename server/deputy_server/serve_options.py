"""What the command line of ``deputy serve`` asks for."""

import ipaddress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

from deputy_agents.domain.errors import InvalidRequest

MIN_TOKEN = 16
"""Characters of a token; a shorter one can be guessed."""


class Transport(StrEnum):
    """What carries the connections of clients."""

    STDIO = "stdio"
    TCP = "tcp"
    WEBSOCKET = "ws"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where clients connect. ``port`` 0 stands for any that is free."""

    transport: Transport
    host: str
    port: int

    @classmethod
    def read(cls, transport: Transport, text: str) -> Self:
        """The endpoint that ``[HOST:]PORT`` names.

        Raises:
            InvalidRequest: it names none on this machine.
        """
        host, _, port = text.rpartition(":")
        host = host.strip("[]") or "127.0.0.1"
        if not port.isdecimal() or len(port) > 5 or int(port) > 65535:
            raise InvalidRequest(f"--{transport}: {text} is no port; write PORT or HOST:PORT, and 0 for any free one")
        if not _is_loopback(host):
            raise InvalidRequest(
                f"--{transport}: {host} is not this machine; use 127.0.0.1, and a tunnel from elsewhere"
            )
        return cls(transport, host, int(port))


@dataclass(frozen=True, slots=True)
class Options:
    """``record`` is a new file for the model traffic; ``replay`` is one to answer from, in place of a model.
    ``endpoint`` is where clients connect, when that is not standard input and output; they need ``token`` then, one
    that is made up when it is empty."""

    record: Path | None = None
    replay: Path | None = None
    endpoint: Endpoint | None = None
    token: str = ""

    def problem(self) -> str | None:
        """What keeps them from being followed, told before anything starts."""
        if self.token and len(self.token) < MIN_TOKEN:
            return f"the token is too short: it needs {MIN_TOKEN} characters, such as `openssl rand -hex 32` prints"
        if self.record is not None and self.record.exists():
            return f"--record: {self.record} exists already; name a new file"
        if self.record is not None and not self.record.absolute().parent.is_dir():
            return f"--record: there is no folder {self.record.absolute().parent}"
        if self.replay is not None:
            from deputy_agents.model.recording import replay  # only for those who look for a fault

            try:
                replay(self.replay, {})
            except InvalidRequest as error:
                return f"--replay: {error}"
        return None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
