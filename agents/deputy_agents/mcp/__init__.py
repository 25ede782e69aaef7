"""MCP servers: programs of others that give agents tools.

``config`` reads which there are, ``approvals`` keeps which of them the user lets run, ``connection`` runs one, over
``stdio`` or ``http``, and ``tool`` is one of its tools as agents call it. The client library is an extra, and is loaded
when the first server starts.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b

from deputy_agents.errors import ToolError
from deputy_agents.ports import ToolSpec

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


class ServerState(StrEnum):
    """How far a server is."""

    NEW = "new"
    """Nobody has looked yet whether it may be started."""
    ASKED = "asked"
    """The user has not said yet whether it may."""
    REFUSED = "refused"
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """A server as a file or a setting names it: ``command`` with ``args`` and ``env``, or ``url`` with ``headers``.
    ``source`` is the path of that file, or ``settings``. Values may hold ``${NAME}`` and ``${NAME:-default}``."""

    name: str
    source: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def line(self) -> str:
        """The command line or the address, as written."""
        return self.url or " ".join((self.command, *self.args))

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables of Deputy's environment that the server gets to see."""
        texts = (self.url, self.command, *self.args, *self.env.values(), *self.headers.values())
        return tuple(sorted({name for text in texts for name, _ in _VARIABLE.findall(text)}))

    @property
    def fingerprint(self) -> str:
        """Equal only for entries that start the same thing with the same values."""
        parts = [self.name, self.command, self.args, sorted(self.env.items()), self.url, sorted(self.headers.items())]
        return blake2b(json.dumps(parts).encode(errors="surrogatepass"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Offer:
    """What a server has: tools by the names that it gives them, URIs of resources, names of prompts."""

    tools: tuple[ToolSpec, ...] = ()
    resources: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()


def expanded(text: str, environ: Mapping[str, str]) -> str:
    """``text`` with its variables replaced.

    Raises:
        ToolError: one has no value and no default.
    """

    def value(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if not environ.get(name) and default is None:
            raise ToolError(f"{name} has no value in the environment of Deputy; set it, or write a default for it")
        return environ.get(name) or default or ""

    return _VARIABLE.sub(value, text)
