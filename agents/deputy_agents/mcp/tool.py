"""A tool of an MCP server as agents call it: ``mcp__server__tool``, under the same gate as every other."""

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import TYPE_CHECKING

from anyio import to_thread

from deputy_agents.errors import ToolError
from deputy_agents.event import TextPreview, ToolKind
from deputy_agents.mcp.connection import Connection
from deputy_agents.message import Image
from deputy_agents.permission.rule import AccessRequest, Action
from deputy_agents.picture import picture
from deputy_agents.ports import ToolSpec
from deputy_agents.text import bounded, clean, cut, visible
from deputy_agents.tool.base import Prepared, ToolContext, ToolOutput

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

MAX_OUTPUT = 48 * 1024
"""Bytes of text that the model reads."""
MAX_PICTURES = 8
MAX_PICTURE = 8 * 1024 * 1024
_MAX_TITLE = 200


class ServerTool:
    """One tool of the server behind ``connection``; ``own`` describes it by the name that the server gives it, ``name``
    is the one that agents use."""

    def __init__(self, connection: Connection, name: str, own: ToolSpec) -> None:
        self._connection = connection
        self._own = own.name
        name = f"mcp__{connection.entry.name}__{name}"
        self._spec = ToolSpec(name, own.description, own.input_schema)

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    @property
    def kind(self) -> ToolKind:
        return ToolKind.OTHER

    def parse(self, input: Mapping[str, object]) -> Mapping[str, object]:
        """As it came: the server knows what fits."""
        return input

    async def prepare(self, args: Mapping[str, object], context: ToolContext) -> Prepared:
        written = json.dumps(args, ensure_ascii=False)
        shown = ", ".join(f"{name}={_short(value)}" for name, value in args.items())
        preview = "\n".join(map(visible, json.dumps(args, ensure_ascii=False, indent=2).split("\n")))
        request = AccessRequest(self._spec.name, Action.CALL, written)
        return Prepared(cut(visible(shown), _MAX_TITLE), [request], preview=TextPreview(preview) if args else None)

    async def run(self, args: Mapping[str, object], context: ToolContext) -> ToolOutput:
        result = await self._connection.call(self._own, args)
        return await to_thread.run_sync(_output, self._connection, result)


def _short(value: object) -> str:
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 80)


def _output(connection: Connection, result: "CallToolResult") -> ToolOutput:
    texts: list[str] = []
    images: list[Image] = []
    for block in result.content:
        told = _told(block, images)
        if told:
            texts.append(told)
    if not result.content and result.structured_content is not None:
        texts.append(json.dumps(result.structured_content, ensure_ascii=False))
    text = connection.told(clean("\n".join(texts)))
    content, _ = bounded(text, MAX_OUTPUT, "ask the tool for less")
    return ToolOutput(content or "(nothing)", result.is_error, tuple(images))


def _told(block: "ContentBlock", images: list[Image]) -> str:
    """A part of a result as text; what can be seen goes to ``images``."""
    from mcp_types import EmbeddedResource, ImageContent, ResourceLink, TextContent, TextResourceContents

    match block:
        case TextContent(text=text):
            return text
        case ImageContent(data=data):
            return _seen(data, images)
        case EmbeddedResource(resource=TextResourceContents(uri=uri, text=text)):
            return f"[{uri}]\n{text}"
        case EmbeddedResource(resource=resource):
            return f"[{resource.uri}: not text, left out]"
        case ResourceLink(uri=uri, name=name):
            return f"[{name}: {uri}]"
        case _:
            return f"[{block.type}: left out]"


def _seen(data: str, images: list[Image]) -> str:
    if len(images) >= MAX_PICTURES or len(data) > MAX_PICTURE:
        return "[a picture: left out, there are too many or it is too large]"
    try:
        found = picture(b64decode(data, validate=True))
    except (ValueError, ToolError):
        found = None
    if found is None:
        return "[a picture that cannot be read: left out]"
    images.append(found.image)
    return f"[{found}]"
