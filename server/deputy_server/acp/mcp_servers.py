"""The MCP servers that an editor sends for a session. They count as the user's own; their values are literal."""

import re
from collections.abc import Container, Sequence
from itertools import chain, count
from typing import TypeAlias

from acp import schema

from deputy_agents.guidance.mcp_entry import EDITOR, McpServerSource

Server: TypeAlias = schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio


def named_servers(servers: Sequence[Server]) -> tuple[McpServerSource, ...]:
    """``servers`` as a source. Their display names become valid parts of tool names."""
    named: dict[str, dict[str, object]] = {}
    for server in servers:
        named[_unique(_tool_name(server.name), named)] = _entry(server)
    return (McpServerSource(EDITOR, named, trusted=True, literal=True),) if named else ()


def _tool_name(text: str) -> str:
    return re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_-]+", "-", text)).strip("-_")[:32].rstrip("-_") or text


def _unique(name: str, taken: Container[str]) -> str:
    """``name``, with a number if another server has the same name."""
    numbered = (f"{name[:29]}-{number}" for number in count(2))
    return next(one for one in chain([name], numbered) if one not in taken)


def _entry(server: Server) -> dict[str, object]:
    """The entry as in configuration files."""
    match server:
        case schema.McpServerStdio():
            env = {one.name: one.value for one in server.env}
            return {"command": server.command, "args": server.args, "env": env}
        case schema.HttpMcpServer() | schema.SseMcpServer():
            headers = {one.name: one.value for one in server.headers}
            return {"type": server.type, "url": server.url, "headers": headers}
        case schema.AcpMcpServer():
            return {"type": server.type}
