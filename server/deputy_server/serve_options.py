"""The options of ``deputy serve``."""

import ipaddress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

from deputy_agents.domain.errors import InvalidRequest

MIN_TOKEN = 16
"""Minimum length of a token. A shorter one could be guessed."""


class Transport(StrEnum):
    """How clients connect."""

    STDIO = "stdio"
    TCP = "tcp"
    WEBSOCKET = "ws"


@dataclass(frozen=True, slots=True)
class Address:
    """Where clients connect. ``port`` 0 means any free port."""

    transport: Transport
    host: str
    port: int

    @classmethod
    def read(cls, transport: Transport, text: str) -> Self:
        """Parse ``[HOST:]PORT``.

        Raises:
            InvalidRequest: the text is invalid, or the host is not this machine.
        """
        host, _, port = text.rpartition(":")
        host = host.strip("[]") or "127.0.0.1"
        if not port.isdecimal() or len(port) > 5 or int(port) > 65535:
            raise InvalidRequest(
                f"--{transport}: port {text} is not valid. Use PORT or HOST:PORT, with port 0 for any free port."
            )
        if not is_loopback(host):
            raise InvalidRequest(
                f"--{transport}: {host} is not this machine. Use 127.0.0.1, and a tunnel to connect from elsewhere."
            )
        return cls(transport, host, int(port))


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """``record`` is a new file for model requests and responses; ``replay`` is such a file to use instead of a model.
    ``address`` is where clients connect, or ``None`` for standard input and output. At an address, clients must send
    ``token``; an empty one is replaced by a generated token."""

    record: Path | None = None
    replay: Path | None = None
    address: Address | None = None
    token: str = ""

    def problem(self) -> str | None:
        """Why these options cannot be used, or ``None``. Reads files."""
        if self.token and len(self.token) < MIN_TOKEN:
            return (
                f"The token is too short. Use at least {MIN_TOKEN} characters, for example from openssl rand -hex 32."
            )
        if self.record is not None and self.record.exists():
            return f"--record: {self.record} already exists. Use a new file."
        if self.record is not None and not self.record.absolute().parent.is_dir():
            return f"--record: the folder {self.record.absolute().parent} does not exist."
        if self.replay is not None:
            from deputy_agents.model.recording import replay  # needed only for debugging

            try:
                replay(self.replay, {})
            except InvalidRequest as error:
                return f"--replay: {error}"
        return None


def is_loopback(host: str) -> bool:
    """Whether a host name or address is that of this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
