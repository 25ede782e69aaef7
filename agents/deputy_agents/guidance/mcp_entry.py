"""Entries of MCP servers in settings and files."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from shlex import quote

from deputy_agents.domain.errors import ToolError
from deputy_agents.web.address import parse_url

_PLAIN = re.compile(r"[\w@%+=:,./${}~*-]+")
"""An argument that needs no quotes. Variables are not quoted, because they are replaced."""
_PLAIN_COMMAND = re.compile(r"[\w@%+:,./${}~*-]+")
"""A command that needs no quotes: with ``=`` it would look like a variable."""

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")

SETTINGS = "settings"
"""The place of MCP servers from the settings."""

EDITOR = "editor"
"""The place of MCP servers from the editor of a session."""


@dataclass(frozen=True, slots=True)
class McpServerSource:
    """Where MCP servers are configured: ``named`` maps names to entries. ``place`` is the path of a file, or
    :data:`SETTINGS` or :data:`EDITOR`. A ``trusted`` source can only have been written by the user, so its servers
    start without approval. The values of a ``literal`` source contain no variables. The servers of a ``definition`` are
    only for agents with that definition."""

    place: str
    named: Mapping[str, object] = field(compare=False, repr=False)
    trusted: bool = False
    literal: bool = False
    definition: str = ""

    @property
    def is_file(self) -> bool:
        return self.place not in (SETTINGS, EDITOR)


@dataclass(frozen=True, slots=True)
class McpServerEntry:
    """An MCP server in ``source``: ``command`` with ``args`` and ``env``, or ``url`` with ``headers``. Values may
    contain ``${NAME}`` and ``${NAME:-default}``, unless the source is literal. A ``disabled`` server is not started."""

    name: str
    source: McpServerSource
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    disabled: bool = False

    @property
    def line(self) -> str:
        """The command line, quoted where necessary, or the URL."""
        return self.url or self.line_of(self.command, self.args)

    @staticmethod
    def line_of(command: str, args: Iterable[str]) -> str:
        """A command line, quoted where necessary."""
        first = command if _PLAIN_COMMAND.fullmatch(command) else _in_quotes(command)
        return " ".join((first, *(_quoted(one) for one in args)))

    @property
    def assignments(self) -> tuple[str, ...]:
        """What is passed to the server besides its command line or URL, as ``NAME=value``: environment variables or
        headers as they are written, sorted."""
        values = self.headers if self.url else self.env
        return tuple(f"{name}={_quoted(value)}" for name, value in sorted(values.items()))

    @property
    def full_line(self) -> str:
        """All that decides what is started or sent: the assignments, and the command line or URL."""
        return " ".join((*self.assignments, self.shown_line))

    @property
    def shown_line(self) -> str:
        """The command line or URL. A URL with a host in another script is followed by the host in ASCII."""
        try:
            return parse_url(self.url).shown(len(self.url) + 1) if self.url else self.line
        except ToolError:  # it contains variables, or a password
            return self.url

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables of Deputy's environment that are passed to the MCP server."""
        if self.source.literal:
            return ()
        texts = (self.url, self.command, *self.args, *self.env.values(), *self.headers.values())
        return tuple(sorted({name for text in texts for name, _ in _VARIABLE.findall(text)}))

    @property
    def key(self) -> tuple[str, str]:
        """The key in a session: the name of the definition it belongs to, or empty, and its own name."""
        return self.source.definition, self.name

    def expand(self, text: str, environ: Mapping[str, str]) -> str:
        """Replace the variables in ``text``, a value of this entry. Raises what :func:`expand_variables` raises."""
        return text if self.source.literal else expand_variables(text, environ)

    @property
    def fingerprint(self) -> str:
        """A hash of everything that determines what is started or connected."""
        parts = [self.name, self.command, self.args, sorted(self.env.items()), self.url, sorted(self.headers.items())]
        parts += ["literal"] if self.source.literal else []
        return blake2b(json.dumps(parts).encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _quoted(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else _in_quotes(text)


def _in_quotes(text: str) -> str:
    quoted = quote(text)
    return quoted if quoted != text else f"'{text}'"


def expand_variables(text: str, environ: Mapping[str, str]) -> str:
    """Replace the variables in ``text``.

    Raises:
        ToolError: a variable has neither a value nor a default.
    """

    def value(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if not environ.get(name) and default is None:
            raise ToolError(f"{name} has no value in the environment of Deputy; set it, or write ${{{name}:-default}}")
        return environ.get(name) or default or ""

    return _VARIABLE.sub(value, text)
