"""What a server says that it has, tool by tool: the client library refuses a whole list for one that is wrong."""

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

LeaveOut: TypeAlias = Callable[[str, str], None]
"""Is told the name of a tool that is left out, and why."""

_TOOL = re.compile(r"^tools\[0\](?:\.|: )")


@asynccontextmanager
async def sifted(
    transport: AbstractAsyncContextManager[tuple[Any, Any]], leave_out: LeaveOut
) -> AsyncGenerator[tuple[Any, Any]]:
    """``transport`` without the tools that no agent could be given."""
    async with transport as (incoming, outgoing):
        yield _Sifted(incoming, leave_out), outgoing


class _Sifted(ObjectReceiveStream[Any]):
    def __init__(self, incoming: ObjectReceiveStream[Any], leave_out: LeaveOut) -> None:
        self._incoming = incoming
        self._leave_out = leave_out

    async def receive(self) -> Any:
        message = await self._incoming.receive()
        if isinstance(message, SessionMessage) and isinstance(message.message, JSONRPCResponse):
            self._sift(message.message.result)
        return message

    async def aclose(self) -> None:
        await self._incoming.aclose()

    def _sift(self, result: dict[str, Any]) -> None:
        tools = result.get("tools")
        if isinstance(tools, list):
            result["tools"] = [tool for tool in cast("list[object]", tools) if self._fits(tool)]

    def _fits(self, tool: object) -> bool:
        fields = cast("dict[str, object]", tool) if isinstance(tool, dict) else {}
        name, schema = fields.get("name"), fields.get("inputSchema")
        if isinstance(schema, dict):
            # Some leave out what there is no choice about.
            cast("dict[str, object]", schema).setdefault("type", "object")
        try:
            validate_server_result("tools/list", LATEST_HANDSHAKE_VERSION, {"tools": [tool]})
        except ValidationError as error:
            self._leave_out(name if isinstance(name, str) else "", _TOOL.sub("", validation_errors.told(error)))
            return False
        return True
