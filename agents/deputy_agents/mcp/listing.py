"""Reads the catalog of an MCP server: bounded, with names and schemas that model services accept."""

import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from deputy_agents.mcp.catalog import McpCatalog, PromptInfo
from deputy_agents.mcp.schema import ModelSchema, SchemaTooLarge, model_schema
from deputy_agents.ports.model import ToolSpec
from deputy_agents.text import clean, cut, visible

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Prompt, Tool

logger = logging.getLogger(__name__)

MAX_TOOLS = 512
MAX_LISTED = 200
MAX_DESCRIPTION = 2000
MAX_SCHEMA = 32 * 1024
"""Maximum characters of a tool's input schema. Tools with longer schemas are ignored."""
MAX_NAME = 80

_MAX_PAGES = 20
_INVALID_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
"""Characters of tool names that MCP allows and model services reject."""
_CALLABLE = re.compile(r"[\w:.-]{1,80}")
"""Names of prompts that work as slash commands."""


async def read_catalog(client: "Client", invalid: Iterable[str] = ()) -> McpCatalog:
    """The catalog of an MCP server. A failed listing of resources or prompts counts as empty. ``invalid`` is read after
    the tools were listed and has sentences about tools that validation has removed."""
    tools = await _pages(client.list_tools, lambda page: page.tools, MAX_TOOLS)
    capabilities = client.server_capabilities
    resources = await _optional(capabilities.resources, client.list_resources, lambda page: page.resources)
    prompts = await _optional(capabilities.prompts, client.list_prompts, lambda page: page.prompts)
    named, unusable = await to_thread.run_sync(_named, tools)
    return McpCatalog(
        {name: spec for name, (spec, _) in named.items()},
        tuple(cut(visible(str(resource.uri)), 500) for resource in resources),
        tuple(_prompt(one) for one in prompts if _CALLABLE.fullmatch(one.name)),
        (*invalid, *unusable),
        {name: schema for name, (_, schema) in named.items() if schema.names},
    )


def _prompt(prompt: "Prompt") -> PromptInfo:
    arguments = {visible(one.name): bool(one.required) for one in prompt.arguments or []}
    return PromptInfo(prompt.name, cut(" ".join(clean(prompt.description or "").split()), 200), arguments)


def ignored(name: str, reason: str) -> str:
    """A sentence about an ignored tool."""
    return f"the tool {cut(visible(name), MAX_NAME) or 'without a name'} is ignored: {reason}"


async def _optional(
    capability: object, send: Callable[..., Awaitable[Any]], items: Callable[[Any], list[Any]]
) -> list[Any]:
    if capability is None:
        return []
    try:
        return await _pages(send, items, MAX_LISTED)
    except Exception as error:  # noqa: BLE001 - only this list is lost
        logger.info("an MCP server failed to list resources or prompts: %s", type(error).__name__)
        return []


async def _pages(send: Callable[..., Awaitable[Any]], items: Callable[[Any], list[Any]], limit: int) -> list[Any]:
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await (send() if cursor is None else send(cursor=cursor))
        found += items(page)
        cursor = page.next_cursor
        if cursor is None or len(found) >= limit:
            break
    return found[:limit]


def _named(tools: "Iterable[Tool]") -> tuple[Mapping[str, tuple[ToolSpec, ModelSchema]], list[str]]:
    """The tools by the names that agents use, and sentences about unusable ones. Blocks."""
    named: dict[str, tuple[ToolSpec, ModelSchema]] = {}
    problems: list[str] = []
    for tool in tools:
        name = _INVALID_IN_NAMES.sub("-", tool.name)
        if not name.strip("-") or len(name) > MAX_NAME:
            problems.append(ignored(tool.name, f"its name must have letters and at most {MAX_NAME} characters"))
        elif (schema := _schema(tool.input_schema)) is None:
            problems.append(ignored(tool.name, "its input schema is too long or nested too deeply"))
        elif name in named:
            problems.append(ignored(tool.name, "another tool has the same name"))
        else:
            description = cut(clean(tool.description or tool.name), MAX_DESCRIPTION)
            named[name] = ToolSpec(tool.name, description, schema.schema), schema
    return named, problems


def _schema(schema: Mapping[str, object]) -> ModelSchema | None:
    try:
        if len(json.dumps(schema)) > MAX_SCHEMA:
            return None
        adapted = model_schema(schema)
        return adapted if len(json.dumps(adapted.schema)) <= MAX_SCHEMA else None
    except (SchemaTooLarge, RecursionError):
        return None
