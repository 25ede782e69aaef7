"""JSON-RPC with one client of the Agent Client Protocol: a message a line.

The protocol's library has a connection of its own. This one runs each request in a task of the session's owner, lets
either side withdraw a request, answers what is no message instead of dropping it, and bounds what a client that floods
or does not read can cost.
"""

import asyncio
import itertools
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio
from anyio.abc import TaskGroup

from deputy_protocol.errors import ErrorCode
from deputy_server.rpc.errors import ClientError, ConnectionLost, RpcError, to_rpc_error
from deputy_server.rpc.json import JsonObject, NotJson, dig, is_object, read
from deputy_server.rpc.requests import OpenRequests, RequestId, is_id, outcome
from deputy_server.rpc.writer import Writer

log = logging.getLogger(__name__)

MAX_REQUESTS = 256
"""Requests of the client that may be open at once."""

RESOURCE_NOT_FOUND = -32002

CANCEL = "$/cancel_request"


@dataclass(frozen=True, slots=True)
class Response:
    """A result, and what is to happen right after it has been sent: updates must not overtake the answer that tells
    which session they belong to."""

    result: JsonObject
    then: Callable[[], None] = lambda: None


Handler: TypeAlias = Callable[[object], Awaitable[Response | JsonObject]]
Listener: TypeAlias = Callable[[object], Awaitable[None]]


@dataclass(slots=True, eq=False)
class Asked:
    """A request to the client. ``over`` is set when the client has answered it or is gone, also if nobody waits for
    that any more."""

    request_id: RequestId
    answer: asyncio.Future[object]
    over: anyio.Event = field(default_factory=anyio.Event)


class Peer:
    """One client. ``route`` and ``hear`` find what serves a method and a notification, each in a task of its own."""

    def __init__(self, out: Writer, tasks: TaskGroup) -> None:
        self.out = out
        self.tasks = tasks
        self.route: Callable[[str], Handler | None] = lambda method: None
        self.hear: Callable[[str], Listener | None] = lambda method: None
        self.ending = False
        """Whether open requests are cancelled because the connection ends."""
        self._requests = OpenRequests(MAX_REQUESTS)
        self._asked: dict[RequestId, Asked] = {}
        self._ids = itertools.count(1)

    # -- coming in -----------------------------------------------------------------------------------------------

    def receive(self, line: bytes) -> None:
        """Takes one line. Never raises and never blocks."""
        if not line.strip():
            return
        try:
            message = read(line)
        except NotJson as error:
            self.refuse(None, ErrorCode.PARSE_ERROR, str(error))
            return
        fields = message if is_object(message) else {}
        match fields.get("method"), "id" in fields:
            case str(method), True:
                self._receive_request(fields["id"], method, fields.get("params"))
            case str(method), False:
                self._receive_notification(method, fields.get("params"))
            case None, True if "method" not in fields:
                self._receive_answer(fields["id"], fields)
            case _:
                self.refuse(None, ErrorCode.INVALID_REQUEST, "A message needs a method, or an id and a result.")

    def _receive_request(self, request_id: object, method: str, params: object) -> None:
        if not is_id(request_id):
            self.refuse(None, ErrorCode.INVALID_REQUEST, "A request's id must be a string or a whole number.")
        elif request_id in self._requests:
            self.refuse(request_id, ErrorCode.INVALID_REQUEST, "A request with this id is still open.")
        elif self._requests.full:
            self.refuse(request_id, ErrorCode.OVERLOADED, "Too many requests are open; wait for some answers.")
        elif (handler := self.route(method)) is None:
            self.refuse(request_id, ErrorCode.METHOD_NOT_FOUND, f"Unknown method {method[:100]}.")
        else:
            self.tasks.start_soon(self._serve, request_id, self._requests.open(request_id), handler, params)

    def _receive_notification(self, method: str, params: object) -> None:
        if method == CANCEL:
            self._requests.cancel(dig(params, "requestId"))
        elif (listener := self.hear(method)) is not None:
            self.tasks.start_soon(self._listen, method, listener, params)

    def _receive_answer(self, request_id: object, fields: JsonObject) -> None:
        asked = self._asked.pop(request_id, None) if is_id(request_id) else None
        if asked is None:
            log.debug("an answer came twice, or to nothing that was asked")
            return
        asked.over.set()
        if asked.answer.done():
            return  # nobody wants it any more
        if (error := fields.get("error")) is None:
            asked.answer.set_result(fields.get("result"))
        else:
            code = dig(error, "code")
            asked.answer.set_exception(ClientError(code if isinstance(code, int) else 0, str(dig(error, "message"))))

    async def _serve(self, request_id: RequestId, scope: anyio.CancelScope, handler: Handler, params: object) -> None:
        done: Response | JsonObject | RpcError = RpcError(ErrorCode.REQUEST_CANCELLED, "The request was cancelled.")
        try:
            with scope:
                done = await outcome(handler, params)
        finally:
            self._requests.end(request_id)
        if isinstance(done, RpcError):
            self._send({"id": request_id, "error": _error(done)})
            return
        answer = done if isinstance(done, Response) else Response(done)
        self._send({"id": request_id, "result": answer.result})
        answer.then()

    async def _listen(self, method: str, listener: Listener, params: object) -> None:
        try:
            await listener(params)
        except Exception as error:  # noqa: BLE001 - nobody waits for an answer, and none may end the connection
            log.warning("%s came to nothing: %s", method, to_rpc_error(error).message)

    # -- going out -----------------------------------------------------------------------------------------------

    def notify(self, method: str, params: JsonObject) -> None:
        self._send({"method": method, "params": params})

    def ask(self, method: str, params: JsonObject) -> Asked:
        """Sends a request, for :meth:`answer_to`.

        Raises:
            ConnectionLost: the client is gone.
        """
        if self.out.closed:
            raise ConnectionLost
        asked = Asked(f"deputy-{next(self._ids)}", asyncio.get_running_loop().create_future())
        self._asked[asked.request_id] = asked
        self._send({"id": asked.request_id, "method": method, "params": params})
        return asked

    async def answer_to(self, asked: Asked, *, timeout: float | None) -> object:
        """What the client answers within ``timeout`` seconds (``None``: a person is asked, who may take long). A
        request that is no longer wanted is withdrawn.

        Raises:
            TimeoutError: no answer in time.
            ClientError: the client answered with an error.
            ConnectionLost: the client is gone.
        """
        try:
            with anyio.fail_after(timeout):
                return await asked.answer
        finally:
            if not asked.over.is_set():
                self.notify(CANCEL, {"requestId": asked.request_id})

    async def request(self, method: str, params: JsonObject, *, timeout: float) -> object:
        """Asks the client a thing that no person has to think about. Raises as :meth:`answer_to`."""
        return await self.answer_to(self.ask(method, params), timeout=timeout)

    def refuse(self, request_id: RequestId | None, code: ErrorCode, message: str) -> None:
        """Answers what is not served."""
        self._send({"id": request_id, "error": RpcError(code, message).to_json()})

    def _send(self, message: JsonObject) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":"))
        self.out.write(f"{line}\n".encode())

    async def room(self) -> None:
        """Returns when another request can be taken, or soon."""
        await self._requests.room()

    # -- the end -------------------------------------------------------------------------------------------------

    async def settle(self, grace: float) -> None:
        """Cancels every open request and waits, at most ``grace`` seconds, until they have been answered."""
        self.ending = True
        await self._requests.settle(grace=grace)

    def disconnect(self) -> None:
        """Ends what waits for the client: it is gone."""
        asked, self._asked = self._asked, {}
        for one in asked.values():
            one.over.set()
            if not one.answer.done():
                one.answer.set_exception(ConnectionLost())


def _error(error: RpcError) -> JsonObject:
    """The protocol has a code of its own for what does not exist."""
    code = {"code": RESOURCE_NOT_FOUND} if error.code is ErrorCode.UNKNOWN_SESSION else {}
    return error.to_json() | code
