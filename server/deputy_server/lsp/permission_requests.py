"""Putting questions to the user."""

from collections.abc import Sequence

import anyio

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
"""Lines of a preview that a plain message shows."""

_LINE_WIDTH = 200
_WARNING = 2


class LspPermissionClient:
    """Puts the questions of one session to one client: as requests that name the asking agent where the client knows
    them, else as plain message requests, one at a time."""

    def __init__(self, protocol: RpcProtocol, client: Client, session_id: str, turns: anyio.Lock) -> None:
        self._protocol = protocol
        self._client = client
        self._session_id = session_id
        self._turns = turns
        """Shared by all sessions of the client; a lock serves in the order of asking."""

    async def ask(self, request: PermissionRequest) -> PermissionAnswer:
        try:
            return await (self._request(request) if self._client.permissions else self._message(request))
        except ClientError as error:
            gone = error.code == ErrorCode.METHOD_NOT_FOUND.value
            return Dismissed(ResolvedBy.UNREACHABLE) if gone else Dismissed()
        except ConnectionLost:
            return Dismissed(ResolvedBy.UNREACHABLE)

    async def _request(self, request: PermissionRequest) -> PermissionAnswer:
        params = to_wire(permission_request_to_wire(self._session_id, request))
        choice = read_choice(await self._protocol.request(PERMISSION_REQUEST.name, params, timeout=None))
        return Dismissed() if choice is None else answer_from_wire(choice)

    async def _message(self, request: PermissionRequest) -> PermissionAnswer:
        async with self._turns:
            params = message_request(request)
            chosen = dig(await self._protocol.request("window/showMessageRequest", params, timeout=None), "title")
        ids = [option.option_id for option in request.options if option.name == chosen]
        return Selected(ids[0]) if len(ids) == 1 else Dismissed()


def message_request(request: PermissionRequest) -> JsonObject:
    """A question as ``window/showMessageRequest``, its actions named exactly as the options. Denying comes first: some
    editors choose the first one when Enter is pressed. A command is shown whole, a change as far as one can read."""
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
    return {"type": _WARNING, "message": "\n".join(lines), "actions": actions}
