"""Which servers there are: ``{"name": {"command": ..., "args": [...], "env": {...}}}``, or ``url`` and ``headers`` for
a server that is reached by streamable HTTP. In ``.mcp.json`` they stand below ``mcpServers``."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deputy_agents import disk
from deputy_agents.definition import Problem
from deputy_agents.errors import ToolError
from deputy_agents.mcp import ServerEntry
from deputy_agents.text import cut, visible

FILE = ".mcp.json"
SETTINGS = "settings"
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


def read_servers(
    roots: Sequence[Path], given: Mapping[str, object]
) -> tuple[Mapping[str, ServerEntry], tuple[Problem, ...]]:
    """The servers that the user's settings and the files of ``roots`` name, of one name the first; and what is wrong
    with them. Blocks."""
    servers: dict[str, ServerEntry] = {}
    problems: list[Problem] = []
    for one in (*_entries(given, SETTINGS), *(found for root in roots for found in _in_file(root))):
        if isinstance(one, Problem):
            problems.append(one)
        else:
            servers.setdefault(one.name, one)
    return servers, tuple(problems)


def _in_file(root: Path) -> Iterator[ServerEntry | Problem]:
    source = str(root / FILE)
    try:
        file = disk.read_text(root, (FILE,))
        named = _File.model_validate_json(file.text).servers if file else {}
    except ToolError as error:
        yield Problem(source, 1, str(error))
    except ValidationError as error:
        yield Problem(source, 1, f"it cannot be read: {_first(error)}")
    else:
        yield from _entries(named, source)


def _entries(named: Mapping[str, object], source: str) -> Iterator[ServerEntry | Problem]:
    for name, raw in islice(named.items(), MAX_SERVERS):
        entry = _entry(name, raw, source)
        if isinstance(entry, str):
            yield Problem(source, 1, f"MCP server {cut(visible(name), 40)}: {entry}")
        elif entry is not None:
            yield entry
    if len(named) > MAX_SERVERS:
        yield Problem(source, 1, f"only the first {MAX_SERVERS} MCP servers count")


def _entry(name: str, raw: object, source: str) -> ServerEntry | str | None:
    """The server; what is wrong with it; or ``None`` for one that is switched off."""
    if not _NAME.fullmatch(name):
        return "its name must have at most 32 letters, digits, - and single _"
    try:
        entry = _Entry.model_validate(raw)
    except ValidationError as error:
        return _first(error)
    if entry.disabled:
        return None
    if entry.type == "sse":
        return "servers by SSE alone are not supported; use streamable HTTP (type http)"
    if bool(entry.command.strip()) == bool(entry.url):
        return "give either command or url"
    if entry.url and not entry.url.startswith(("https://", "http://", "${")):
        return "url: it must begin with https:// or http://"
    return ServerEntry(name, source, entry.command, tuple(entry.args), entry.env, entry.url, entry.headers)


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")
