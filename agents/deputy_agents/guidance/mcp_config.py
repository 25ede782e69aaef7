"""Reads the configuration of MCP servers: ``{"name": {"command": ..., "args": [...], "env": {...}}}``, or ``url`` and
``headers`` for a server that is connected by streamable HTTP. In files, it is the value of ``mcpServers``."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deputy_agents import validation_errors
from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.problem import Problem
from deputy_agents.files import disk
from deputy_agents.guidance.mcp_entry import McpServerEntry, McpServerSource
from deputy_agents.text import cut, visible

FILE = ".mcp.json"
MAX_SERVERS = 32
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?!_)){0,31}(?<!_)")

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
"""Other names could pass for a part of the command line in permission rules."""


class _Entry(BaseModel):
    """An entry; unknown fields are ignored, because they may belong to other programs."""

    model_config = ConfigDict(strict=True)

    type: Literal["stdio", "http", "streamable-http", "streamableHttp", "sse"] | None = None
    command: str = ""
    args: list[str] = Field(default_factory=list[str])
    env: dict[str, str] = Field(default_factory=dict[str, str])
    url: str = ""
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    disabled: bool = False


class _File(BaseModel):
    mcp_servers: dict[str, object] = Field(alias="mcpServers", default_factory=dict[str, object])


McpServerEntries: TypeAlias = Mapping[tuple[str, str], McpServerEntry]
"""By :attr:`McpServerEntry.key`."""


def parse_mcp_servers(
    settings: object, file: str, *, trusted: bool = False
) -> tuple[tuple[McpServerSource, ...], tuple[Problem, ...]]:
    """The MCP servers in ``settings``, the JSON value of ``file``, and problems."""
    try:
        named = _File.model_validate(settings).mcp_servers
    except ValidationError as error:
        return (), (Problem(file, 1, validation_errors.describe(error)),)
    return ((McpServerSource(file, named, trusted=trusted),) if named else ()), ()


def read_mcp_servers(
    given: Sequence[McpServerSource], roots: Sequence[Path]
) -> tuple[McpServerEntries, tuple[Problem, ...]]:
    """Read the MCP servers of ``given`` and of ``.mcp.json`` in ``roots``, and problems. Of several with one name, the
    first is used. Servers of a definition come last, so that they cannot replace a server of the session. Disabled
    servers follow, and never replace another one. Blocks."""
    found = (*given, *(one for root in roots for one in _read_file(root)))
    problems = [one for one in found if isinstance(one, Problem)]
    sources = sorted((one for one in found if isinstance(one, McpServerSource)), key=lambda one: bool(one.definition))
    servers: dict[tuple[str, str], McpServerEntry] = {}
    disabled: list[McpServerEntry] = []
    for one in (entry for source in sources for entry in _entries(source)):
        if isinstance(one, Problem):
            problems.append(one)
        elif one.disabled:
            disabled.append(one)
        elif one.source.definition and ("", one.name) in servers:
            problems.append(_problem(one.source, one.name, "another one with this name is used instead"))
        else:
            servers.setdefault(one.key, one)
    for one in disabled:
        servers.setdefault(one.key, one)
    return servers, tuple(problems)


def _read_file(root: Path) -> tuple[McpServerSource | Problem, ...]:
    place = str(root / FILE)
    try:
        file = disk.read_text(root, (FILE,))
        settings: object = validation_errors.parse_json(file.text) if file else {}
    except ToolError as error:
        return (Problem(place, 1, str(error)),)
    except validation_errors.InvalidJson as error:
        return (Problem(place, error.line, str(error)),)
    if _has_other_format(settings):
        return (Problem(place, 1, "servers is ignored; rename it to mcpServers"),)
    sources, problems = parse_mcp_servers(settings, place)
    return (*sources, *problems)


def _has_other_format(settings: object) -> bool:
    return isinstance(settings, dict) and "servers" in settings and "mcpServers" not in settings


def _entries(source: McpServerSource) -> Iterator[McpServerEntry | Problem]:
    for name, raw in islice(source.named.items(), MAX_SERVERS):
        entry = _entry(name, raw, source)
        if isinstance(entry, str):
            yield _problem(source, name, entry)
        else:
            yield entry
    if len(source.named) > MAX_SERVERS:
        yield Problem(source.place, 1, f"only the first {MAX_SERVERS} MCP servers are used")


def _problem(source: McpServerSource, name: str, reason: str) -> Problem:
    return Problem(source.place, 1, f"MCP server {cut(visible(name), 40)}: {reason}")


def _entry(name: str, raw: object, source: McpServerSource) -> McpServerEntry | str:
    """The MCP server, or the reason why it is invalid."""
    if not _NAME.fullmatch(name):
        return "the name must consist of at most 32 letters, digits, - and single _"
    try:
        entry = _Entry.model_validate(raw)
    except ValidationError as error:
        return validation_errors.describe(error)
    if entry.type == "sse":
        return "the SSE transport is not supported; use streamable HTTP (type http)"
    if bool(entry.command.strip()) == bool(entry.url):
        return "set either command or url"
    if entry.url and not entry.url.startswith(("https://", "http://", "${")):
        return "url: must start with https:// or http://"
    if bad := next((one for one in (*entry.env, *entry.headers) if not _VARIABLE.fullmatch(one)), None):
        return f"{cut(visible(bad), 40)} is not a valid name of a variable or header"
    if any(char.isspace() for char in entry.url):
        return "url: must not contain spaces"
    args = tuple(entry.args)
    return McpServerEntry(name, source, entry.command, args, entry.env, entry.url, entry.headers, entry.disabled)
