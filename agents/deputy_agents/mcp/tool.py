"""Tools of MCP servers, named ``mcp__server__tool``; calls pass the same gate as those of every other tool."""

import json
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from anyio import to_thread

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.event import TextPreview, ToolKind
from deputy_agents.domain.message import Image
from deputy_agents.domain.rule import AccessRequest, Action
from deputy_agents.files.image import read_image
from deputy_agents.mcp.connection import McpConnection
from deputy_agents.ports.model import ToolSpec
from deputy_agents.text import clean, cut, truncate, visible
from deputy_agents.tool.base import Prepared, ToolContext, ToolOutput

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
MAX_IMAGE = 8 * 1024 * 1024
"""Characters of an image's base64 data."""
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

    def parse(self, input: Mapping[str, object]) -> Mapping[str, object]:
        """Returns ``input`` unchanged: the MCP server validates it."""
        return input

    async def run(self, args: Mapping[str, object], context: ToolContext) -> ToolOutput:
        result = await self._connection.call_tool(self._original_name, args)
        return await to_thread.run_sync(_output, self._connection, result)


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

    async def run(self, args: Mapping[str, object], context: ToolContext) -> ToolOutput:
        result = await self._connection.read_resource(str(args["uri"]))
        return await to_thread.run_sync(_resource_output, self._connection, result)


def _short(value: object) -> str:
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 80)


def _output(connection: McpConnection, result: "CallToolResult") -> ToolOutput:
    images: list[Image] = []
    texts = [content_text(block, images) for block in result.content]
    if not result.content and result.structured_content is not None:
        texts.append(json.dumps(result.structured_content, ensure_ascii=False))
    return _bounded(connection, texts, images, is_error=result.is_error)


def _resource_output(connection: McpConnection, result: "ReadResourceResult") -> ToolOutput:
    images: list[Image] = []
    return _bounded(connection, [_resource_text(one, images) for one in result.contents], images)


def _bounded(
    connection: McpConnection, texts: Iterable[str], images: Sequence[Image], *, is_error: bool = False
) -> ToolOutput:
    text = connection.redacted(clean("\n".join(filter(None, texts))))
    content, _ = truncate(text, MAX_OUTPUT, "ask the tool for less")
    return ToolOutput(content or "(nothing)", is_error, tuple(images))


def content_text(block: "ContentBlock", images: list[Image]) -> str:
    """A content block as text; images are added to ``images``."""
    from mcp_types import EmbeddedResource, ImageContent, ResourceLink, TextContent

    match block:
        case TextContent(text=text):
            return text
        case ImageContent(data=data):
            return _image_text(data, images)
        case EmbeddedResource(resource=resource):
            return _resource_text(resource, images)
        case ResourceLink(uri=uri, name=name):
            return f"[{name}: {uri}]"
        case _:
            return f"[{block.type}: omitted]"


def _resource_text(resource: "TextResourceContents | BlobResourceContents", images: list[Image]) -> str:
    from mcp_types import TextResourceContents

    if isinstance(resource, TextResourceContents):
        return f"[{resource.uri}]\n{resource.text}"
    if (resource.mime_type or "").startswith("image/"):
        return f"[{resource.uri}]\n{_image_text(resource.blob, images)}"
    return f"[{resource.uri}: not text, omitted]"


def _image_text(data: str, images: list[Image]) -> str:
    if len(images) >= MAX_IMAGES or len(data) > MAX_IMAGE:
        return "[an image: omitted, there are too many or it is too large]"
    try:
        found = read_image(b64decode(data, validate=True))
    except (ValueError, ToolError):
        found = None
    if found is None:
        return "[an image that cannot be read: omitted]"
    images.append(found.image)
    return f"[{found}]"
