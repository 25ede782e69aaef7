"""MCP servers as users write them down."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from shlex import quote

from deputy_agents.domain.errors import ToolError

_PLAIN = re.compile(r"[\w@%+=:,./${}~*-]+")
"""An argument that can be read as it is; a variable in it is not quoted, as it will be replaced."""


_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


SETTINGS = "settings"
"""The place of servers that the settings name."""


EDITOR = "editor"
"""The place of servers that the editor of a session names."""


@dataclass(frozen=True, slots=True)
class Source:
    """A place that names servers: ``named`` is what it says of each, by name. ``place`` is a path, or the name of what
    is no file. A place is ``own`` when nobody but the user can have written it: what it names is started unasked.
    ``literal`` values hold no variables. The servers of a ``definition`` are for its agents alone."""

    place: str
    named: Mapping[str, object] = field(compare=False, repr=False)
    own: bool = False
    literal: bool = False
    definition: str = ""

    @property
    def is_file(self) -> bool:
        return self.place not in (SETTINGS, EDITOR)


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """A server as ``source`` names it: ``command`` with ``args`` and ``env``, or ``url`` with ``headers``. Values may
    hold ``${NAME}`` and ``${NAME:-default}``, unless the source is literal."""

    name: str
    source: Source
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    disabled: bool = False
    """Whoever has written it down has switched it off."""

    @property
    def line(self) -> str:
        """The command line, in which each argument can be told from the next, or the address."""
        return self.url or " ".join(one if _PLAIN.fullmatch(one) else quote(one) for one in (self.command, *self.args))

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables of Deputy's environment that the server gets to see."""
        if self.source.literal:
            return ()
        texts = (self.url, self.command, *self.args, *self.env.values(), *self.headers.values())
        return tuple(sorted({name for text in texts for name, _ in _VARIABLE.findall(text)}))

    @property
    def key(self) -> tuple[str, str]:
        """By which a session knows it: its definition, if it belongs to one, and its name."""
        return self.source.definition, self.name

    def expanded(self, text: str, environ: Mapping[str, str]) -> str:
        """``text`` of this entry with its variables replaced. Raises as :func:`expanded`."""
        return text if self.source.literal else expanded(text, environ)

    @property
    def fingerprint(self) -> str:
        """Equal only for entries that start the same thing with the same values."""
        parts = [self.name, self.command, self.args, sorted(self.env.items()), self.url, sorted(self.headers.items())]
        return blake2b(json.dumps(parts).encode(errors="surrogatepass"), digest_size=16).hexdigest()


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
