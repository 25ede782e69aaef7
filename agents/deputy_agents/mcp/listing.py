"""What a server has to offer, bounded, and in a shape that models can be sent."""

import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from deputy_agents.mcp.catalog import McpCatalog, PromptInfo
from deputy_agents.ports.model import ToolSpec
from deputy_agents.text import clean, cut, visible

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Prompt, Tool

logger = logging.getLogger(__name__)

MAX_TOOLS = 128
MAX_LISTED = 200
MAX_DESCRIPTION = 2000
MAX_SCHEMA = 32 * 1024
"""Characters of the schema of one tool's input; one with more is left out."""
MAX_NAME = 80

_MAX_PAGES = 20
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")
"""What model services do not take in the name of a tool, and servers do."""
_CALLABLE = re.compile(r"[\w:.-]{1,80}")
"""The name of a prompt that can be called by a slash."""
_NOT_AT_TOP = ("oneOf", "allOf", "anyOf")
"""What model services refuse in a schema at its top; the server still judges by it."""


async def offer_of(client: "Client", wrong: Iterable[str] = ()) -> McpCatalog:
    """What the server says that it has. Resources and prompts that cannot be listed are none. ``wrong`` is what there
    is to tell, once they are listed, of tools that are not among them."""
    listed = await _pages(client.list_tools, lambda page: page.tools, MAX_TOOLS)
    can = client.server_capabilities
    resources = await _perhaps(can.resources, client.list_resources, lambda page: page.resources)
    prompts = await _perhaps(can.prompts, client.list_prompts, lambda page: page.prompts)
    tools, left_out = _named(listed)
    return McpCatalog(
        tools,
        tuple(cut(visible(str(resource.uri)), 500) for resource in resources),
        tuple(_prompt(one) for one in prompts if _CALLABLE.fullmatch(one.name)),
        (*wrong, *left_out),
    )


def _prompt(prompt: "Prompt") -> PromptInfo:
    arguments = {visible(one.name): bool(one.required) for one in prompt.arguments or []}
    return PromptInfo(prompt.name, cut(" ".join(clean(prompt.description or "").split()), 200), arguments)


def left_out(name: str, why: str) -> str:
    """The sentence about a tool that no agent is given."""
    return f"the tool {cut(visible(name), MAX_NAME) or 'without a name'} is left out: {why}"


async def _perhaps(able: object, ask: Callable[..., Awaitable[Any]], items: Callable[[Any], list[Any]]) -> list[Any]:
    if able is None:
        return []
    try:
        return await _pages(ask, items, MAX_LISTED)
    except Exception as error:  # noqa: BLE001 - it costs nothing but the list
        logger.info("an MCP server does not list what it says it has: %s", type(error).__name__)
        return []


async def _pages(ask: Callable[..., Awaitable[Any]], items: Callable[[Any], list[Any]], limit: int) -> list[Any]:
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await (ask() if cursor is None else ask(cursor=cursor))
        found += items(page)
        cursor = page.next_cursor
        if cursor is None or len(found) >= limit:
            break
    return found[:limit]


def _named(tools: "Iterable[Tool]") -> tuple[Mapping[str, ToolSpec], list[str]]:
    """The tools by the names that agents use, and sentences about those that none is given."""
    named: dict[str, ToolSpec] = {}
    problems: list[str] = []
    for tool in tools:
        schema = {key: value for key, value in tool.input_schema.items() if key not in _NOT_AT_TOP}
        name = _NO_NAME.sub("-", tool.name)
        if not name.strip("-") or len(name) > MAX_NAME:
            problems.append(left_out(tool.name, f"its name needs letters, at most {MAX_NAME}"))
        elif len(json.dumps(schema)) > MAX_SCHEMA:
            problems.append(left_out(tool.name, "the schema of its input is too long"))
        elif name in named:
            problems.append(left_out(tool.name, "there is another one of this name, which is used"))
        else:
            about = cut(clean(tool.description or tool.name), MAX_DESCRIPTION)
            named[name] = ToolSpec(tool.name, about, {**schema, "type": "object"})
    return named, problems
