"""The MCP servers that an editor names for a session. They are the user's own, and all values are as they are meant."""

import re
from collections.abc import Container, Sequence
from itertools import chain, count
from typing import TypeAlias

from acp import schema

from deputy_agents.guidance.mcp_entry import EDITOR, Source

Server: TypeAlias = schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio


def named_servers(servers: Sequence[Server]) -> tuple[Source, ...]:
    """``servers`` as a place that names some. Editors give them names for people; tools get what letters there are."""
    named: dict[str, dict[str, object]] = {}
    for server in servers:
        named[_free(_name(server.name), named)] = _entry(server)
    return (Source(EDITOR, named, own=True, literal=True),) if named else ()


def _name(text: str) -> str:
    return re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_-]+", "-", text)).strip("-_")[:32].rstrip("-_") or text


def _free(name: str, taken: Container[str]) -> str:
    """``name``, or it with a number where another server's name has become the same."""
    numbered = (f"{name[:29]}-{number}" for number in count(2))
    return next(one for one in chain([name], numbered) if one not in taken)


def _entry(server: Server) -> dict[str, object]:
    """As files have it."""
    match server:
        case schema.McpServerStdio():
            env = {one.name: one.value for one in server.env}
            return {"command": server.command, "args": server.args, "env": env}
        case schema.HttpMcpServer() | schema.SseMcpServer():
            headers = {one.name: one.value for one in server.headers}
            return {"type": server.type, "url": server.url, "headers": headers}
        case schema.AcpMcpServer():
            return {"type": server.type}
