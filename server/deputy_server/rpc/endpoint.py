"""The JSON-RPC engine: the server's end of one connection.

Every request is answered exactly once. Requests run as owned tasks, which the client can cancel. Requests to the client
have a timeout and can be withdrawn. An :class:`Endpoint` has no methods of its own: a :class:`Service` provides them.
"""

import asyncio
import itertools
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeAlias, TypeVar, cast

import anyio
from anyio.abc import TaskGroup

from deputy_protocol.errors import ErrorCode
from deputy_server.rpc.errors import ClientError, ConnectionLost, RpcError, to_rpc_error
from deputy_server.rpc.framing import FrameError
from deputy_server.rpc.json import JsonObject, NotJson, dig, is_object, parse_json
from deputy_server.rpc.open_requests import OpenRequests, RequestId, is_id
from deputy_server.rpc.writer import OutputQueue

log = logging.getLogger(__name__)

R = TypeVar("R")

VERSION = "2.0"

MAX_ERROR_TEXT = 500
"""Characters that are kept of a client's error message."""


@dataclass(frozen=True, slots=True)
class Response(Generic[R]):
    """A result, and a callback to run right after it is sent: events must not overtake the response that contains the
    id of their session. A ``large`` result is encoded in a thread, because other requests would wait for it."""

    result: R
    then: Callable[[], None] = lambda: None
    large: bool = False


@dataclass(frozen=True, slots=True)
class Encoded:
    """A result, or the parameters of a notification, that are JSON text already."""

    text: bytes


RequestHandler: TypeAlias = Callable[[object], Awaitable[object]]
"""Takes the parameters as received and returns a result or a :class:`Response`."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a protocol uses JSON-RPC."""

    cancel_method: str
    """The notification that cancels a request, in both directions."""
    cancel_field: str
    """The parameter of that notification that holds the id of the request."""
    max_requests: int
    """Maximum number of open requests of one client."""
    requires_version: bool
    """Whether requests without ``"jsonrpc": "2.0"`` are rejected."""
    echoes_invalid_id: bool
    """Whether the rejection of an invalid message contains its id."""
    error_codes: Mapping[ErrorCode, int] = field(default_factory=dict[ErrorCode, int])
    """Error codes that the protocol defines differently."""


class Service(Protocol):
    """The methods that an endpoint serves. Nothing here blocks."""

    def check_request(self, method: str) -> RpcError | None:
        """Return the error if the state of the connection does not permit a request of this method."""
        ...

    def accept_request(self, method: str, params: object) -> RequestHandler | None:
        """Return the handler of a request, or ``None`` if the method is unknown. An exception rejects the request."""
        ...

    def accept_notification(self, method: str, params: object) -> None:
        """Handle a notification, or start to."""
        ...

    def request_finished(self, method: str, request_id: RequestId, seconds: float) -> None:
        """A request has finished; its response is sent next."""
        ...


@dataclass(slots=True, eq=False)
class OutgoingRequest:
    """A request to the client."""

    request_id: RequestId
    response: asyncio.Future[object]
    closed: anyio.Event = field(default_factory=anyio.Event)
    """Set when the client has answered or disconnected, even if the request was withdrawn before."""


class Endpoint:
    """One connection. ``frame`` adds the framing to an encoded message; ``default`` converts values that are not
    JSON."""

    def __init__(
        self,
        dialect: Dialect,
        service: Service,
        out: OutputQueue,
        tasks: TaskGroup,
        *,
        frame: Callable[[bytes], bytes],
        default: Callable[[object], object] | None = None,
    ) -> None:
        self.out = out
        self.tasks = tasks
        """Owns the tasks of requests."""
        self.closing = False
        """Open requests are being cancelled because the connection ends."""
        self.exit_code: int | None = None
        """Set by a service to stop receiving; the exit code that the message implies."""
        self._dialect = dialect
        self._service = service
        self._frame = frame
        self._encode = json.JSONEncoder(separators=(",", ":"), default=default).encode
        self._open = OpenRequests(dialect.max_requests)
        self._outgoing: dict[RequestId, OutgoingRequest] = {}
        self._ids = itertools.count(1)

    # -- incoming ------------------------------------------------------------------------------------------------------

    def receive(self, body: bytes) -> None:
        """Take one message. Never raises and never blocks; requests continue in their own tasks."""
        try:
            message = parse_json(body)
        except NotJson as error:
            self.reject(None, ErrorCode.PARSE_ERROR, str(error))
            return
        fields = message if is_object(message) else {}
        match fields.get("method"), "id" in fields:
            case str(method), True:
                self._receive_request(fields["id"], method, fields)
            case str(method), False:
                self._receive_notification(method, fields.get("params"))
            case None, True if "method" not in fields:
                self._receive_response(fields["id"], fields)
            case _:
                request_id = fields.get("id") if self._dialect.echoes_invalid_id else None
                self.reject(request_id, ErrorCode.INVALID_REQUEST, "A message needs a method, or an id and a result.")

    def reject_frame(self, error: FrameError) -> None:
        """Answer a frame that could not be read."""
        match error:
            case FrameError.TOO_LARGE:
                self.reject(None, ErrorCode.INVALID_REQUEST, "The message is too large.")
            case FrameError.BAD_HEADER:
                self.reject(None, ErrorCode.PARSE_ERROR, "A message needs a valid Content-Length header.")
            case FrameError.FOREIGN:
                log.warning("closed a connection: it sent another protocol than LSP, such as HTTP")
                text = "Only the headers Content-Length and Content-Type are accepted. The connection is closed."
                self.reject(None, ErrorCode.PARSE_ERROR, text)
                self.exit_code = 1

    def reject(self, request_id: object, code: ErrorCode, message: str) -> None:
        """Answer a message with an error, without an id if it has none that is valid."""
        self._send_error(request_id if is_id(request_id) else None, RpcError(code, message))

    def _receive_request(self, request_id: object, method: str, fields: JsonObject) -> None:
        if not is_id(request_id):
            self.reject(None, ErrorCode.INVALID_REQUEST, "A request's id must be a string or an integer.")
        elif self._dialect.requires_version and fields.get("jsonrpc") != VERSION:
            self.reject(request_id, ErrorCode.INVALID_REQUEST, 'A request needs "jsonrpc": "2.0".')
        elif (error := self._service.check_request(method)) is not None:
            self._send_error(request_id, error)
        elif request_id in self._open:
            self.reject(request_id, ErrorCode.INVALID_REQUEST, "A request with this id is still open.")
        elif self._open.full:
            self.reject(request_id, ErrorCode.OVERLOADED, "Too many requests are open. Wait for responses.")
        else:
            self._start_request(request_id, method, fields.get("params"))

    def _start_request(self, request_id: RequestId, method: str, params: object) -> None:
        try:
            handler = self._service.accept_request(method, params)
        except Exception as error:  # noqa: BLE001 - every request is answered
            self._send_error(request_id, to_rpc_error(error))
            return
        if handler is None:
            self._send_error(request_id, unknown_method(method))
        else:
            self.tasks.start_soon(self._run, request_id, self._open.open(request_id), method, handler, params)

    async def _run(
        self,
        request_id: RequestId,
        scope: anyio.CancelScope,
        method: str,
        handler: RequestHandler,
        params: object,
    ) -> None:
        """Run a handler and send its response."""
        result: object = None
        started = anyio.current_time()
        try:
            with scope:
                try:
                    result = await handler(params)
                except Exception as error:  # noqa: BLE001 - every request is answered
                    result = to_rpc_error(error)
        finally:
            self._open.close(request_id)
            self._service.request_finished(method, request_id, anyio.current_time() - started)
        if scope.cancelled_caught:
            result = RpcError(ErrorCode.REQUEST_CANCELLED, "The request was cancelled.")
        if isinstance(result, RpcError):
            self._send_error(request_id, result)
            return
        response = cast(Response[object], result) if isinstance(result, Response) else Response(result)
        try:
            self._send_with({"jsonrpc": VERSION, "id": request_id}, "result", response.result)
        except (TypeError, ValueError, AttributeError) as error:
            # The result is not JSON, and nothing has been sent yet.
            self._send_error(request_id, to_rpc_error(error))
        else:
            response.then()

    def _receive_notification(self, method: str, params: object) -> None:
        if method == self._dialect.cancel_method:
            self._open.cancel(dig(params, self._dialect.cancel_field))
        else:
            self._service.accept_notification(method, params)

    def _receive_response(self, request_id: object, fields: JsonObject) -> None:
        outgoing = self._outgoing.pop(request_id, None) if is_id(request_id) else None
        if outgoing is None:
            log.debug("ignored a response that is late, duplicate, or to an unknown request")
            return
        outgoing.closed.set()
        if outgoing.response.done():
            return  # withdrawn
        if (error := fields.get("error")) is None:
            outgoing.response.set_result(fields.get("result"))
        else:
            code, text = dig(error, "code"), str(dig(error, "message"))[:MAX_ERROR_TEXT]
            outgoing.response.set_exception(ClientError(code if isinstance(code, int) else 0, text))

    # -- outgoing ------------------------------------------------------------------------------------------------------

    def notify(self, method: str, params: object) -> None:
        """Send a notification. A closed connection drops it: whoever serves the connection waits for its end."""
        self._send_with({"jsonrpc": VERSION, "method": method}, "params", params)

    async def request(self, method: str, params: object, *, timeout: float | None) -> object:
        """Send a request and return its result; withdraw it if it is not answered within ``timeout`` seconds, or if
        the caller is cancelled. ``None`` means no timeout, for requests that a user answers.

        Raises:
            TimeoutError: no response in time.
            ClientError: the client answered with an error.
            ConnectionLost: the client has disconnected.
        """
        outgoing = self.start_request(method, params)
        try:
            return await self.wait_response(outgoing, timeout=timeout)
        finally:
            self._outgoing.pop(outgoing.request_id, None)

    def start_request(self, method: str, params: object) -> OutgoingRequest:
        """Send a request, for :meth:`wait_response`.

        Raises:
            ConnectionLost: the client has disconnected.
        """
        if self.out.closed:
            raise ConnectionLost
        outgoing = OutgoingRequest(f"deputy-{next(self._ids)}", asyncio.get_running_loop().create_future())
        self._send({"jsonrpc": VERSION, "id": outgoing.request_id, "method": method, "params": params})
        self._outgoing[outgoing.request_id] = outgoing
        return outgoing

    async def wait_response(self, outgoing: OutgoingRequest, *, timeout: float | None) -> object:
        """Wait as :meth:`request` does, with the same errors. A withdrawn request is still tracked: ``closed`` is set
        when the client answers it."""
        try:
            with anyio.fail_after(timeout):
                return await outgoing.response
        finally:
            if not outgoing.closed.is_set():
                self.notify(self._dialect.cancel_method, {self._dialect.cancel_field: outgoing.request_id})

    def _send(self, message: JsonObject) -> None:
        self.out.write(self._frame(self._encode(message).encode()))

    def _send_with(self, message: JsonObject, name: str, value: object) -> None:
        """Send ``message`` with one more field, whose value may be encoded already."""
        if isinstance(value, Encoded):
            head = self._encode(message).encode()
            self.out.write(self._frame(b'%b,"%b":%b}' % (head[:-1], name.encode(), value.text)))
        else:
            self._send(message | {name: value})

    def _send_error(self, request_id: RequestId | None, error: RpcError) -> None:
        body = error.to_json()
        if (code := self._dialect.error_codes.get(error.code)) is not None:
            body["code"] = code
        self._send({"jsonrpc": VERSION, "id": request_id, "error": body})

    # -- flow and end --------------------------------------------------------------------------------------------------

    async def wait_for_room(self) -> None:
        """Return when another request can be accepted, or after a short pause."""
        await self._open.wait_for_room()

    async def cancel_open_requests(self, *, keep_last: int = 0, grace: float) -> None:
        """Cancel every open request except the last ``keep_last``, and wait until they are answered, at most ``grace``
        seconds."""
        self.closing = True
        await self._open.cancel_all(keep_last=keep_last, grace=grace)

    def disconnect(self) -> None:
        """Fail all requests to the client with :class:`ConnectionLost`."""
        outgoing, self._outgoing = self._outgoing, {}
        for one in outgoing.values():
            one.closed.set()
            if not one.response.done():
                one.response.set_exception(ConnectionLost())


def unknown_method(method: str) -> RpcError:
    return RpcError(ErrorCode.METHOD_NOT_FOUND, f"Unknown method {method[:100]}.")
