"""What agents call of an MCP server: ``mcp__server__tool``, under the same gate as every other tool."""

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
from deputy_agents.text import bounded, clean, cut, visible
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
"""Bytes of text that the model reads."""
MAX_PICTURES = 8
MAX_PICTURE = 8 * 1024 * 1024
MAX_LISTED = 40
"""Resources that the description of their tool names."""
READ_RESOURCE = "read_resource"
_OF_RESOURCE: Mapping[str, object] = {
    "type": "object",
    "properties": {"uri": {"type": "string", "description": "The URI, as the server or one of its tools names it."}},
    "required": ["uri"],
    "additionalProperties": False,
}
_MAX_TITLE = 200


class _Call:
    """What all calls of a server have in common."""

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
        written = json.dumps(args, ensure_ascii=False)
        shown = ", ".join(f"{name}={_short(value)}" for name, value in args.items())
        preview = "\n".join(map(visible, json.dumps(args, ensure_ascii=False, indent=2).split("\n")))
        request = AccessRequest(self._spec.name, Action.CALL, written)
        return Prepared(cut(visible(shown), _MAX_TITLE), [request], preview=TextPreview(preview) if args else None)


class McpTool(_Call):
    """One tool of the server behind ``connection``; ``own`` describes it by the name that the server gives it, ``name``
    is the one that agents use."""

    def __init__(self, connection: McpConnection, name: str, own: ToolSpec) -> None:
        super().__init__(connection, name, own.description, own.input_schema)
        self._own = own.name

    def parse(self, input: Mapping[str, object]) -> Mapping[str, object]:
        """As it came: the server knows what fits."""
        return input

    async def run(self, args: Mapping[str, object], context: ToolContext) -> ToolOutput:
        result = await self._connection.call(self._own, args)
        return await to_thread.run_sync(_output, self._connection, result)


class McpResourceTool(_Call):
    """Reads a resource of a server that has some: those that it lists, and those that results of its tools name."""

    def __init__(self, connection: McpConnection) -> None:
        listed = "".join(f"\n- {uri}" for uri in connection.catalog.resources[:MAX_LISTED])
        about = f"Reads a resource of the MCP server {connection.entry.name} by its URI. It lists:{listed}"
        super().__init__(connection, READ_RESOURCE, about, _OF_RESOURCE)

    def parse(self, input: Mapping[str, object]) -> Mapping[str, object]:
        """Raises ToolError: there is no URI in it."""
        if not isinstance(input.get("uri"), str) or len(input) > 1:
            raise ToolError("uri: the URI of a resource is needed, and nothing else.")
        return input

    async def run(self, args: Mapping[str, object], context: ToolContext) -> ToolOutput:
        result = await self._connection.read(str(args["uri"]))
        return await to_thread.run_sync(_held, self._connection, result)


def _short(value: object) -> str:
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 80)


def _output(connection: McpConnection, result: "CallToolResult") -> ToolOutput:
    images: list[Image] = []
    texts = [told(block, images) for block in result.content]
    if not result.content and result.structured_content is not None:
        texts.append(json.dumps(result.structured_content, ensure_ascii=False))
    return _bounded(connection, texts, images, is_error=result.is_error)


def _held(connection: McpConnection, result: "ReadResourceResult") -> ToolOutput:
    images: list[Image] = []
    return _bounded(connection, [_of_resource(one, images) for one in result.contents], images)


def _bounded(
    connection: McpConnection, texts: Iterable[str], images: Sequence[Image], *, is_error: bool = False
) -> ToolOutput:
    text = connection.told(clean("\n".join(filter(None, texts))))
    content, _ = bounded(text, MAX_OUTPUT, "ask the tool for less")
    return ToolOutput(content or "(nothing)", is_error, tuple(images))


def told(block: "ContentBlock", images: list[Image]) -> str:
    """A part of a result as text; what can be seen goes to ``images``."""
    from mcp_types import EmbeddedResource, ImageContent, ResourceLink, TextContent

    match block:
        case TextContent(text=text):
            return text
        case ImageContent(data=data):
            return _seen(data, images)
        case EmbeddedResource(resource=resource):
            return _of_resource(resource, images)
        case ResourceLink(uri=uri, name=name):
            return f"[{name}: {uri}]"
        case _:
            return f"[{block.type}: left out]"


def _of_resource(resource: "TextResourceContents | BlobResourceContents", images: list[Image]) -> str:
    from mcp_types import TextResourceContents

    if isinstance(resource, TextResourceContents):
        return f"[{resource.uri}]\n{resource.text}"
    if (resource.mime_type or "").startswith("image/"):
        return f"[{resource.uri}]\n{_seen(resource.blob, images)}"
    return f"[{resource.uri}: not text, left out]"


def _seen(data: str, images: list[Image]) -> str:
    if len(images) >= MAX_PICTURES or len(data) > MAX_PICTURE:
        return "[a picture: left out, there are too many or it is too large]"
    try:
        found = read_image(b64decode(data, validate=True))
    except (ValueError, ToolError):
        found = None
    if found is None:
        return "[a picture that cannot be read: left out]"
    images.append(found.image)
    return f"[{found}]"
