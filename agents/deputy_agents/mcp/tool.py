"""Tools of MCP servers, named ``mcp__server__tool``; calls pass the same gate as those of every other tool."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from anyio import to_thread

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import ToolKind
from deputy_agents.domain.message import Image
from deputy_agents.domain.preview import TextPreview
from deputy_agents.domain.rule import AccessRequest, Action
from deputy_agents.files.place import resolve
from deputy_agents.mcp.connection import McpConnection
from deputy_agents.permission.file_access import READ_FILE, read_access
from deputy_agents.ports.model import ToolSpec
from deputy_agents.text import clean, cut, truncate, visible
from deputy_agents.tool.base import Prepared, ToolContext, ToolOutput
from deputy_agents.tool.image_process import decode_image

if TYPE_CHECKING:
    from mcp_types import (
        BlobResourceContents,
        CallToolResult,
        ContentBlock,
        ReadResourceResult,
        TextResourceContents,
    )

MAX_OUTPUT = 48 * 1024
"""Maximum bytes of text in a tool result."""
MAX_IMAGES = 8
MAX_LISTED = 40
"""Resources listed in the description of the tool that reads them."""
READ_RESOURCE = "read_resource"
_RESOURCE_SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "uri": {"type": "string", "description": "The URI as listed by the MCP server or one of its tools."}
    },
    "required": ["uri"],
    "additionalProperties": False,
}
_MAX_TITLE = 200


class _McpTool:
    """The common part of all tools of an MCP server."""

    def __init__(self, connection: McpConnection, name: str, description: str, schema: Mapping[str, object]) -> None:
        self._connection = connection
        self._spec = ToolSpec(f"mcp__{connection.entry.name}__{name}", description, schema)

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    @property
    def kind(self) -> ToolKind:
        return ToolKind.OTHER

    async def prepare(self, args: Mapping[str, object], context: ToolContext) -> Prepared:
        request_input = json.dumps(args, ensure_ascii=False)
        title = ", ".join(f"{name}={_short(value)}" for name, value in args.items())
        preview = "\n".join(map(visible, json.dumps(args, ensure_ascii=False, indent=2).split("\n")))
        request = AccessRequest(self._spec.name, Action.CALL, request_input)
        return Prepared(cut(visible(title), _MAX_TITLE), [request], preview=TextPreview(preview) if args else None)


class McpTool(_McpTool):
    """One tool of the MCP server behind ``connection``. ``original`` has the MCP server's name for the tool, ``name``
    is the name that agents use."""

    def __init__(self, connection: McpConnection, name: str, original: ToolSpec) -> None:
        super().__init__(connection, name, original.description, original.input_schema)
        self._original_name = original.name
        self._renamed = connection.catalog.renamed.get(name)

    def parse(self, input: Mapping[str, object]) -> Mapping[str, object]:
        """Returns ``input`` with the MCP server's names of parameters. The MCP server validates it."""
        return self._renamed.arguments(input) if self._renamed else input

    async def run(self, args: Mapping[str, object], context: ToolContext) -> ToolOutput:
        async with context.cover():
            result = await self._connection.call_tool(self._original_name, args, _agent_id(context), context.ask_input)
        return await _output(self._connection, result)


class McpResourceTool(_McpTool):
    """Reads a resource of an MCP server: one that it lists, or one from the results of its tools."""

    def __init__(self, connection: McpConnection) -> None:
        listed = "".join(f"\n- {uri}" for uri in connection.catalog.resources[:MAX_LISTED])
        description = (
            f"Reads a resource of the MCP server {connection.entry.name} by its URI. Listed resources:{listed}"
        )
        super().__init__(connection, READ_RESOURCE, description, _RESOURCE_SCHEMA)

    def parse(self, input: Mapping[str, object]) -> Mapping[str, object]:
        """Raises ToolError: ``input`` is not exactly one URI."""
        if not isinstance(input.get("uri"), str) or len(input) > 1:
            raise ToolError("uri: pass the URI of a resource, and nothing else.")
        return input

    async def prepare(self, args: Mapping[str, object], context: ToolContext) -> Prepared:
        prepared = await super().prepare(args, context)
        return replace(prepared, access=(*prepared.access, *await _file_access(str(args["uri"]), context)))

    async def run(self, args: Mapping[str, object], context: ToolContext) -> ToolOutput:
        uri = str(args["uri"])
        result = await self._connection.read_resource(uri, _agent_id(context), context.ask_input)
        return await _resource_output(self._connection, result)


async def _file_access(uri: str, context: ToolContext) -> tuple[AccessRequest, ...]:
    """For a ``file:`` URI, what reading the file without the MCP server would require."""
    from urllib.request import url2pathname  # late: it loads an HTTP client

    try:
        parsed = urlsplit(uri)
        path = Path(url2pathname(parsed.path))
    except ValueError:
        return ()
    if parsed.scheme.lower() != "file" or not path.is_absolute() or "\0" in str(path):
        return ()
    try:
        place = await context.workspace.locate(str(path), context.cwd)
    except ToolError:
        place = await to_thread.run_sync(resolve, path)
    return read_access(READ_FILE, place)


def _agent_id(context: ToolContext) -> str:
    return context.commands.agent_id if context.commands else ""


def _short(value: object) -> str:
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 80)


async def _output(connection: McpConnection, result: "CallToolResult") -> ToolOutput:
    images: list[Image] = []
    texts = [await content_text(block, images) for block in result.content]
    if not result.content and result.structured_content is not None:
        texts.append(json.dumps(result.structured_content, ensure_ascii=False))
    return await _bounded(connection, texts, images, is_error=result.is_error)


async def _resource_output(connection: McpConnection, result: "ReadResourceResult") -> ToolOutput:
    images: list[Image] = []
    return await _bounded(connection, [await _resource_text(one, images) for one in result.contents], images)


async def _bounded(
    connection: McpConnection, texts: Iterable[str], images: Sequence[Image], *, is_error: bool = False
) -> ToolOutput:
    def bound() -> str:
        text = connection.redacted(clean("\n".join(filter(None, texts))))
        return truncate(text, MAX_OUTPUT, "ask the tool for less")[0]

    return ToolOutput(await to_thread.run_sync(bound) or "(nothing)", is_error, tuple(images))


async def content_text(block: "ContentBlock", images: list[Image]) -> str:
    """A content block as text; images are added to ``images``."""
    from mcp_types import EmbeddedResource, ImageContent, ResourceLink, TextContent

    match block:
        case TextContent(text=text):
            return text
        case ImageContent(data=data):
            return await _image_text(data, images)
        case EmbeddedResource(resource=resource):
            return await _resource_text(resource, images)
        case ResourceLink(uri=uri, name=name):
            return f"[{name}: {uri}]"
        case _:
            return f"[{block.type}: omitted]"


async def _resource_text(resource: "TextResourceContents | BlobResourceContents", images: list[Image]) -> str:
    from mcp_types import TextResourceContents

    if isinstance(resource, TextResourceContents):
        return f"[{resource.uri}]\n{resource.text}"
    if (resource.mime_type or "").startswith("image/"):
        return f"[{resource.uri}]\n{await _image_text(resource.blob, images)}"
    return f"[{resource.uri}: not text, omitted]"


async def _image_text(data: str, images: list[Image]) -> str:
    if len(images) >= MAX_IMAGES:
        return f"[an image: omitted, because there are more than {MAX_IMAGES}]"
    try:
        found = await decode_image(data)
    except ToolError as error:
        return f"[an image: omitted. {error}]"
    if found is None:
        return "[an image: omitted, because it is not a PNG, JPEG, GIF or WebP image]"
    images.append(found.image)
    return f"[{found}]"
