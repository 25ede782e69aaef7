"""Showing permission requests to the user."""

from collections.abc import Sequence

import anyio
from lsprotocol.types import MessageType

from deputy_agents.domain.event import CommandPreview, OptionKind, PermissionRequest, ResolvedBy
from deputy_agents.ports.permission import Dismissed, PermissionAnswer, Selected
from deputy_agents.text import cut, visible
from deputy_protocol.base import to_wire
from deputy_protocol.errors import ErrorCode
from deputy_protocol.methods import PERMISSION_REQUEST
from deputy_protocol.permission import read_choice
from deputy_server.convert.permission import answer_from_wire, permission_request_to_wire
from deputy_server.lsp.client import Client
from deputy_server.lsp.protocol import RpcProtocol
from deputy_server.preview import preview_lines
from deputy_server.rpc.errors import ClientError, ConnectionLost
from deputy_server.rpc.json import JsonObject, dig

PREVIEW_LINES = 20
"""Lines of a preview that a message shows."""

_LINE_WIDTH = 200


class LspPermissionClient:
    """Sends the permission requests of one session to one client: as ``deputy/permission/request`` if the client
    supports it, else as message requests, one at a time. ``message_lock`` is shared by all sessions of the client."""

    def __init__(self, protocol: RpcProtocol, client: Client, session_id: str, message_lock: anyio.Lock) -> None:
        self._protocol = protocol
        self._client = client
        self._session_id = session_id
        self._message_lock = message_lock

    async def ask(self, request: PermissionRequest) -> PermissionAnswer:
        try:
            return await (self._request(request) if self._client.permissions else self._request_by_message(request))
        except ClientError as error:
            unsupported = error.code == ErrorCode.METHOD_NOT_FOUND.value
            return Dismissed(ResolvedBy.UNREACHABLE) if unsupported else Dismissed()
        except ConnectionLost:
            return Dismissed(ResolvedBy.UNREACHABLE)

    async def _request(self, request: PermissionRequest) -> PermissionAnswer:
        params = to_wire(permission_request_to_wire(self._session_id, request))
        choice = read_choice(await self._protocol.request(PERMISSION_REQUEST.name, params, timeout=None))
        return Dismissed() if choice is None else answer_from_wire(choice)

    async def _request_by_message(self, request: PermissionRequest) -> PermissionAnswer:
        async with self._message_lock:
            params = message_request(request)
            chosen = dig(await self._protocol.request("window/showMessageRequest", params, timeout=None), "title")
        ids = [option.option_id for option in request.options if option.name == chosen]
        return Selected(ids[0]) if len(ids) == 1 else Dismissed()


def message_request(request: PermissionRequest) -> JsonObject:
    """A permission request as parameters of ``window/showMessageRequest``; its actions are named exactly like the
    options. Denying comes first: some editors choose the first action on Enter. Commands are shown in full, other
    previews up to ``PREVIEW_LINES``."""
    head = [cut(visible(line), _LINE_WIDTH) for line in (request.title, request.reason) if line]
    preview = preview_lines(request.preview)
    if isinstance(request.preview, CommandPreview):
        return _message(request, [*head, *preview])
    shown = [cut(line, _LINE_WIDTH) for line in preview[:PREVIEW_LINES]]
    more = len(preview) - len(shown)
    return _message(request, [*head, *shown, *([f"… {more} more lines"] if more else ())])


def _message(request: PermissionRequest, lines: Sequence[str]) -> JsonObject:
    options = sorted(request.options, key=lambda option: option.kind is not OptionKind.REJECT_ONCE)
    actions = [{"title": option.name} for option in options]
    return {"type": MessageType.Warning.value, "message": "\n".join(lines), "actions": actions}
