"""Showing permission requests and input requests to the user."""

from collections.abc import Coroutine, Sequence
from typing import TypeVar

import anyio
from lsprotocol.types import MessageType

from deputy_agents.concurrency.keyed_lock import KeyedLock
from deputy_agents.domain.event import InputRequest, OptionKind, PermissionRequest, ResolvedBy
from deputy_agents.domain.preview import DiffPreview
from deputy_agents.domain.user_input import InputField
from deputy_agents.ports.permission import Accepted, Declined, Dismissed, InputAnswer, PermissionAnswer, Selected
from deputy_agents.text import visible
from deputy_protocol.base import to_wire
from deputy_protocol.methods import INPUT_REQUEST, PERMISSION_REQUEST
from deputy_protocol.permission import read_choice
from deputy_protocol.user_input import read_response
from deputy_server.consent import button, rule_lines
from deputy_server.convert.permission import answer_from_wire, dismissed_by, permission_request_to_wire
from deputy_server.convert.user_input import input_answer_from_wire, input_request_to_wire
from deputy_server.lsp.client import Client
from deputy_server.lsp.protocol import RpcProtocol
from deputy_server.preview import preview_lines
from deputy_server.rpc.errors import ClientError, ConnectionLost
from deputy_server.rpc.json import JsonObject, dig

PREVIEW_LINES = 20
"""Lines of a diff that a message shows."""

DECLINE = "Decline"

A = TypeVar("A")

_LINE_WIDTH = 200
"""Characters of such a line."""


class LspPermissionClient:
    """Sends the requests of one session to the user to one client: as ``deputy/permission/request`` and
    ``deputy/input/request`` if the client supports them, else as message requests, one at a time, where one message is
    enough. ``message_lock`` and ``asking`` are shared by all sessions of the client: a client that loads a session
    again is asked again after the earlier request was withdrawn, never before."""

    def __init__(
        self,
        protocol: RpcProtocol,
        client: Client,
        session_id: str,
        message_lock: anyio.Lock,
        asking: KeyedLock[str],
    ) -> None:
        self._protocol = protocol
        self._client = client
        self._session_id = session_id
        self._message_lock = message_lock
        self._asking = asking

    async def ask(self, request: PermissionRequest) -> PermissionAnswer:
        ask = self._request if self._client.permissions else self._request_by_message
        return await self._answered(request, ask(request))

    async def ask_input(self, request: InputRequest) -> InputAnswer:
        if self._client.input:
            return await self._answered(request, self._request_input(request))
        if (choice := request.form.single_choice) is None:
            return Dismissed(ResolvedBy.UNREACHABLE)
        return await self._answered(request, self._request_choice(request, choice))

    async def _request(self, request: PermissionRequest) -> PermissionAnswer:
        params = to_wire(permission_request_to_wire(self._session_id, request))
        choice = read_choice(await self._protocol.request(PERMISSION_REQUEST.name, params, timeout=None))
        return Dismissed() if choice is None else answer_from_wire(choice)

    async def _request_by_message(self, request: PermissionRequest) -> PermissionAnswer:
        chosen = await self._show_message(message_request(request))
        ids = [option.option_id for option in request.options if button(option) == chosen]
        return Selected(ids[0]) if len(ids) == 1 else Dismissed()

    async def _request_input(self, request: InputRequest) -> InputAnswer:
        params = to_wire(input_request_to_wire(self._session_id, request))
        response = read_response(await self._protocol.request(INPUT_REQUEST.name, params, timeout=None))
        return Dismissed() if response is None else input_answer_from_wire(response)

    async def _request_choice(self, request: InputRequest, field: InputField) -> InputAnswer:
        params = choice_request(request, field)
        chosen = await self._show_message(params)
        values = [option.value for option in field.options if visible(option.title) == chosen]
        if len(values) == 1:
            return Accepted({field.name: values[0]})
        return Declined() if chosen == DECLINE else Dismissed()

    async def _answered(
        self, request: PermissionRequest | InputRequest, answer: Coroutine[None, None, A]
    ) -> A | Dismissed:
        """``answer``, or that there is none because the client failed."""
        try:
            async with self._asking.hold(request.request_id):
                return await answer
        except (ClientError, ConnectionLost) as failure:
            return dismissed_by(failure)
        finally:
            answer.close()

    async def _show_message(self, params: JsonObject) -> object:
        """The title of the action that the user chose, or something else."""
        async with self._message_lock:
            return dig(await self._protocol.request("window/showMessageRequest", params, timeout=None), "title")


def message_request(request: PermissionRequest) -> JsonObject:
    """A permission request as parameters of ``window/showMessageRequest``. Denying comes first: some editors choose the
    first action on Enter. Everything is shown in full, except that a long diff says how much of it is missing."""
    head = [visible(line) for line in (request.title, request.reason) if line]
    preview = preview_lines(request.preview)
    if isinstance(request.preview, DiffPreview):
        preview = [*map(_shortened, preview[:PREVIEW_LINES]), *_missing(len(preview) - PREVIEW_LINES)]
    options = sorted(request.options, key=lambda option: option.kind is not OptionKind.REJECT_ONCE)
    return {
        "type": MessageType.Warning.value,
        "message": "\n".join([*head, *preview, *rule_lines(request)]),
        "actions": [{"title": button(option)} for option in options],
    }


def choice_request(request: InputRequest, field: InputField) -> JsonObject:
    """A choice as parameters of ``window/showMessageRequest``. Declining comes first, as in a permission request."""
    details = (field.title, field.description) if request.form.source == "mcp" else ()
    lines = [visible(line) for text in (request.title, request.form.message, *details) for line in text.split("\n")]
    return {
        "type": MessageType.Info.value,
        "message": "\n".join(filter(None, lines)),
        "actions": [{"title": DECLINE}, *({"title": visible(option.title)} for option in field.options)],
    }


def _shortened(line: str) -> str:
    more = len(line) - _LINE_WIDTH
    return line if more <= 0 else f"{line[:_LINE_WIDTH]} … {more} more characters, which the transcript shows"


def _missing(lines: int) -> Sequence[str]:
    return [f"… {lines} more lines, which the transcript shows"] if lines > 0 else ()
