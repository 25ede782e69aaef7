"""Removes from tool lists what would harm: invalid tools, because the client library rejects a whole list for one of
them, and schemas of results, because the library would run the patterns in them, which need not end."""

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias, cast

from anyio.abc import ObjectReceiveStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse
from mcp_types.methods import validate_server_result
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError

from deputy_agents import validation_errors

OnInvalid: TypeAlias = Callable[[str, str], None]
"""Called with the name of an invalid tool and the reason."""

_TOOL_PATH = re.compile(r"^tools\[0\](?:\.|: )")


@asynccontextmanager
async def with_valid_tools(
    transport: AbstractAsyncContextManager[tuple[Any, Any]], on_invalid: OnInvalid
) -> AsyncGenerator[tuple[Any, Any]]:
    """``transport`` without invalid tools in the lists it receives."""
    async with transport as (incoming, outgoing):
        yield _ValidTools(incoming, on_invalid), outgoing


class _ValidTools(ObjectReceiveStream[Any]):
    def __init__(self, incoming: ObjectReceiveStream[Any], on_invalid: OnInvalid) -> None:
        self._incoming = incoming
        self._on_invalid = on_invalid

    async def receive(self) -> Any:
        message = await self._incoming.receive()
        if isinstance(message, SessionMessage) and isinstance(message.message, JSONRPCResponse):
            self._remove_invalid(message.message.result)
        return message

    async def aclose(self) -> None:
        await self._incoming.aclose()

    def _remove_invalid(self, result: dict[str, Any]) -> None:
        tools = result.get("tools")
        if isinstance(tools, list):
            result["tools"] = [tool for tool in cast("list[object]", tools) if self._is_valid(tool)]

    def _is_valid(self, tool: object) -> bool:
        fields = cast("dict[str, object]", tool) if isinstance(tool, dict) else {}
        name, schema = fields.get("name"), fields.get("inputSchema")
        fields.pop("outputSchema", None)
        if isinstance(schema, dict):
            # Some MCP servers omit the type, which is always "object".
            cast("dict[str, object]", schema).setdefault("type", "object")
        try:
            validate_server_result("tools/list", LATEST_HANDSHAKE_VERSION, {"tools": [tool]})
        except ValidationError as error:
            reason = _TOOL_PATH.sub("", validation_errors.describe(error))
            self._on_invalid(name if isinstance(name, str) else "", reason)
            return False
        return True
