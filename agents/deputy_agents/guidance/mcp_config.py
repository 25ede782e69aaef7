"""Which servers there are: ``{"name": {"command": ..., "args": [...], "env": {...}}}``, or ``url`` and ``headers`` for
a server that is reached by streamable HTTP. In files they stand below ``mcpServers``."""

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
from deputy_agents.guidance.mcp_entry import ServerEntry, Source
from deputy_agents.text import cut, visible

FILE = ".mcp.json"
MAX_SERVERS = 32
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?!_)){0,31}(?<!_)")


class _Entry(BaseModel):
    """Fields of other programs that say nothing here are ignored."""

    model_config = ConfigDict(strict=True)

    type: Literal["stdio", "http", "streamable-http", "streamableHttp", "sse"] | None = None
    command: str = ""
    args: list[str] = Field(default_factory=list[str])
    env: dict[str, str] = Field(default_factory=dict[str, str])
    url: str = ""
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    disabled: bool = False


class _File(BaseModel):
    servers: dict[str, object] = Field(alias="mcpServers", default_factory=dict[str, object])


ServerEntries: TypeAlias = Mapping[tuple[str, str], ServerEntry]
"""By :attr:`ServerEntry.key`."""


def servers_of(whole: object, file: str, *, own: bool = False) -> tuple[tuple[Source, ...], tuple[Problem, ...]]:
    """The servers that the JSON value of ``file`` names, and what is wrong with that."""
    try:
        named = _File.model_validate(whole).servers
    except ValidationError as error:
        return (), (Problem(file, 1, validation_errors.told(error)),)
    return ((Source(file, named, own=own),) if named else ()), ()


def read_servers(given: Sequence[Source], roots: Sequence[Path]) -> tuple[ServerEntries, tuple[Problem, ...]]:
    """The servers of ``given``, then those that ``.mcp.json`` in ``roots`` names: the first of one name counts. Those
    of a definition come last, whatever their place: nothing of theirs may pass for a server of all. And what is wrong
    with them. Those that are switched off stand behind, and in the place of no other. Blocks."""
    found = (*given, *(one for root in roots for one in _in_file(root)))
    problems = [one for one in found if isinstance(one, Problem)]
    sources = sorted((one for one in found if isinstance(one, Source)), key=lambda source: bool(source.definition))
    servers: dict[tuple[str, str], ServerEntry] = {}
    off: list[ServerEntry] = []
    for one in (entry for source in sources for entry in _entries(source)):
        if isinstance(one, Problem):
            problems.append(one)
        elif one.disabled:
            off.append(one)
        elif one.source.definition and ("", one.name) in servers:
            problems.append(_problem(one.source, one.name, "there is another one of this name, which is used"))
        else:
            servers.setdefault(one.key, one)
    for one in off:
        servers.setdefault(one.key, one)
    return servers, tuple(problems)


def _in_file(root: Path) -> tuple[Source | Problem, ...]:
    place = str(root / FILE)
    try:
        file = disk.read_text(root, (FILE,))
        whole: object = validation_errors.parsed(file.text) if file else {}
    except ToolError as error:
        return (Problem(place, 1, str(error)),)
    except validation_errors.Malformed as error:
        return (Problem(place, error.line, str(error)),)
    if _is_of_another_form(whole):
        return (Problem(place, 1, "servers must stand below mcpServers; below servers they do not count"),)
    sources, problems = servers_of(whole, place)
    return (*sources, *problems)


def _is_of_another_form(whole: object) -> bool:
    return isinstance(whole, dict) and "servers" in whole and "mcpServers" not in whole


def _entries(source: Source) -> Iterator[ServerEntry | Problem]:
    for name, raw in islice(source.named.items(), MAX_SERVERS):
        entry = _entry(name, raw, source)
        if isinstance(entry, str):
            yield _problem(source, name, entry)
        else:
            yield entry
    if len(source.named) > MAX_SERVERS:
        yield Problem(source.place, 1, f"only the first {MAX_SERVERS} MCP servers count")


def _problem(source: Source, name: str, reason: str) -> Problem:
    return Problem(source.place, 1, f"MCP server {cut(visible(name), 40)}: {reason}")


def _entry(name: str, raw: object, source: Source) -> ServerEntry | str:
    """The server, or what is wrong with it."""
    if not _NAME.fullmatch(name):
        return "its name must have at most 32 letters, digits, - and single _"
    try:
        entry = _Entry.model_validate(raw)
    except ValidationError as error:
        return validation_errors.told(error)
    if entry.type == "sse":
        return "servers by SSE alone are not supported; use streamable HTTP (type http)"
    if bool(entry.command.strip()) == bool(entry.url):
        return "give either command or url"
    if entry.url and not entry.url.startswith(("https://", "http://", "${")):
        return "url: it must begin with https:// or http://"
    args, off = tuple(entry.args), entry.disabled
    return ServerEntry(name, source, entry.command, args, entry.env, entry.url, entry.headers, off)
