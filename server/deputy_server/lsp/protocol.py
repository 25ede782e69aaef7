"""JSON-RPC as Deputy speaks it, on top of pygls.

pygls gives the language server: documents, workspace folders, features, capabilities. This module replaces how
messages get in and out of it. Every request is answered exactly once; parameters of ``deputy/*`` reach their
handler as they came, to be validated there once; requests run as owned tasks that ``$/cancelRequest`` really
cancels; requests to the client can be withdrawn.
"""

import asyncio
import inspect
import itertools
import json
import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Generic, TypeAlias, TypeVar, cast

import anyio
from anyio.abc import TaskGroup
from cattrs import Converter
from lsprotocol import types
from pygls.exceptions import JsonRpcMethodNotFound
from pygls.protocol import LanguageServerProtocol
from pygls.server import JsonRPCServer

from deputy_protocol.errors import ErrorCode
from deputy_server.lsp.framing import Fault
from deputy_server.rpc.errors import ClientError, ConnectionLost, RpcError, to_rpc_error
from deputy_server.rpc.json import JsonObject, NotJson, dig, is_object, read
from deputy_server.rpc.requests import OpenRequests, RequestId, is_id, outcome
from deputy_server.rpc.writer import Outlet

log = logging.getLogger(__name__)

R = TypeVar("R")

MAX_REQUESTS = 1024
"""Requests of one client that may be open at once."""


@dataclass(frozen=True, slots=True)
class Response(Generic[R]):
    """A result, and what is to happen right after it has been sent: events must not overtake the answer that tells
    which session they belong to."""

    result: R
    then: Callable[[], None] = lambda: None


RequestHandler: TypeAlias = Callable[[object], Awaitable[object]]


Greeting: TypeAlias = Callable[[], Awaitable[object]]
"""Makes the result of ``initialize``, cancelled or not."""


class Phase(Enum):
    """Where the connection is in its life."""

    NEW = auto()
    READY = auto()
    SHUT_DOWN = auto()


class RpcProtocol(LanguageServerProtocol):
    """One connection. Call :meth:`connect` before anything else."""

    def __init__(self, server: JsonRPCServer, converter: Converter) -> None:
        super().__init__(cast(Any, server), converter)
        self.methods: dict[str, RequestHandler] = {}
        self.phase = Phase.NEW
        self.ready = asyncio.Event()
        self.exit_code: int | None = None
        self._requests = OpenRequests(MAX_REQUESTS)
        self._asked: dict[RequestId, asyncio.Future[object]] = {}
        self._ids = itertools.count(1)

    def connect(self, out: Outlet, tasks: TaskGroup, *, framed: bool = True) -> None:
        """Gives the connection its writer and the task group in which requests run. What carries it may know by itself
        where a message ends: then it is not ``framed``."""
        self.out = out
        self.tasks = tasks
        self._framed = framed

    # -- coming in -----------------------------------------------------------------------------------------------

    def receive(self, body: bytes) -> None:
        """Takes one message. Never raises and never blocks; requests go on in tasks of their own."""
        try:
            message = read(body)
        except NotJson as error:
            self._refuse(None, ErrorCode.PARSE_ERROR, str(error))
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
                self._refuse(
                    fields.get("id"), ErrorCode.INVALID_REQUEST, "A message needs a method, or an id and a result."
                )

    def receive_fault(self, fault: Fault) -> None:
        """Answers what could not even be read."""
        match fault:
            case Fault.TOO_LARGE:
                self._refuse(None, ErrorCode.INVALID_REQUEST, "The message is too large.")
            case Fault.BAD_HEADER:
                self._refuse(None, ErrorCode.PARSE_ERROR, "A message needs a proper Content-Length header.")

    def _receive_request(self, request_id: object, method: str, fields: JsonObject) -> None:
        params = fields.get("params")
        if not is_id(request_id):
            self._refuse(None, ErrorCode.INVALID_REQUEST, "A request's id must be a string or a whole number.")
        elif (error := self._untimely(method, fields)) is not None:
            self._send_error(request_id, error)
        elif request_id in self._requests:
            self._refuse(request_id, ErrorCode.INVALID_REQUEST, "A request with this id is still open.")
        elif method == types.INITIALIZE:
            self._initialize(request_id, params)
        elif self._requests.full:
            self._refuse(request_id, ErrorCode.OVERLOADED, "Too many requests are open; wait for some answers.")
        elif (handler := self._handler(method)) is None:
            self._refuse(request_id, ErrorCode.METHOD_NOT_FOUND, f"Unknown method {method[:100]}.")
        else:
            scope = self._requests.open(request_id)
            self.tasks.start_soon(self._answer, request_id, scope, method, handler, params)

    def _untimely(self, method: str, fields: JsonObject) -> RpcError | None:
        if fields.get("jsonrpc") != self.VERSION:
            return RpcError(ErrorCode.INVALID_REQUEST, 'A request needs "jsonrpc": "2.0".')
        match self.phase:
            case Phase.NEW if method != types.INITIALIZE:
                return RpcError(ErrorCode.NOT_INITIALIZED, "Send initialize first.")
            case Phase.READY if method == types.INITIALIZE:
                return RpcError(ErrorCode.INVALID_REQUEST, "The server is initialized already.")
            case Phase.SHUT_DOWN:
                return RpcError(ErrorCode.INVALID_REQUEST, "The server is shutting down.")
            case _:
                return None

    def _handler(self, method: str) -> RequestHandler | None:
        if method != types.SHUTDOWN:
            return self.methods.get(method)
        self.phase = Phase.SHUT_DOWN
        return self._shut_down

    def _initialize(self, request_id: RequestId, params: object) -> None:
        try:
            greet = self.initialize(params)
        except Exception as error:  # noqa: BLE001 - whatever it is, the request gets its answer
            self._send_error(request_id, to_rpc_error(error))
        else:
            self.phase = Phase.READY
            scope = self._requests.open(request_id)
            self.tasks.start_soon(self._answer, request_id, scope, types.INITIALIZE, self._greeting, greet)

    async def _greeting(self, greet: object) -> Response[object]:
        return Response(await cast(Greeting, greet)(), self.ready.set)

    @abstractmethod
    def initialize(self, params: object) -> Greeting:
        """Takes the client. Raises when it is refused; it may then try again."""

    def _tell_trace(self, method: str, request_id: RequestId, seconds: float) -> None:
        """For clients that want to see what is asked, by ``$/setTrace``: never what it is asked with."""
        if self.trace != types.TraceValue.Off and not self.out.congested:
            self.notify(types.LOG_TRACE, {"message": f"{method} ({request_id}) took {seconds * 1000:.0f} ms"})

    async def _answer(
        self,
        request_id: RequestId,
        scope: anyio.CancelScope,
        method: str,
        handler: RequestHandler,
        params: object,
    ) -> None:
        done: object = None
        begun = anyio.current_time()
        try:
            with scope:
                done = await outcome(handler, params)
        finally:
            self._requests.end(request_id)
            self._tell_trace(method, request_id, anyio.current_time() - begun)
        if scope.cancelled_caught:
            done = RpcError(ErrorCode.REQUEST_CANCELLED, "The request was cancelled.")
        if isinstance(done, RpcError):
            self._send_error(request_id, done)
            return
        answer = cast(Response[object], done) if isinstance(done, Response) else Response(done)
        try:
            self._send_result(request_id, answer.result)
        except (TypeError, ValueError, AttributeError) as error:
            # It is no JSON: nothing has been sent yet.
            self._send_error(request_id, to_rpc_error(error))
        else:
            answer.then()

    async def _shut_down(self, _params: object) -> None:
        # An exit that follows at once cancels what is open; this is what it has to wait for.
        with anyio.CancelScope(shield=True):
            await self.settle(but=1)

    async def settle(self, *, but: int = 0, grace: float = 5) -> None:
        """Cancels every open request but the last ``but`` ones and waits, at most ``grace`` seconds, until they have
        been answered."""
        await self._requests.settle(but=but, grace=grace)

    async def room(self) -> None:
        """Returns when another request can be taken, or soon."""
        await self._requests.room()

    def _receive_notification(self, method: str, params: object) -> None:
        match method:
            case types.EXIT:
                self.exit_code = 0 if self.phase is Phase.SHUT_DOWN else 1
            case types.CANCEL_REQUEST:
                self._requests.cancel(dig(params, "id"))
            case _ if self.phase is Phase.READY:
                self._notified(method, params)
            case _:
                log.warning("a notification came before initialize or after shutdown")

    def _notified(self, method: str, params: object) -> None:
        """Hands a notification, typed, to pygls' feature and to the project's. One that does not fit is dropped, as
        nobody waits for an answer."""
        kind = self.get_message_type(method)
        if kind is None:
            return
        try:
            message = self._converter.structure({"jsonrpc": self.VERSION, "method": method, "params": params}, kind)
            self._run_feature(self._get_handler(method)(message.params))
        except JsonRpcMethodNotFound:
            pass
        except Exception as error:  # noqa: BLE001 - of cattrs, pygls or a feature: none may end the connection
            log.warning("a %s notification was dropped: %s", method, type(error).__name__)

    def _run_feature(self, started: object) -> None:
        """pygls' own features are generators that yield the project's. They are run here, as pygls itself would keep
        a future of every notification for ever."""
        if inspect.isgenerator(started):
            for feature, args, _ in cast(Iterable[tuple[Callable[..., object], tuple[object, ...], None]], started):
                feature(*args)

    def background(self, work: Callable[[], Awaitable[None]]) -> None:
        """Runs ``work`` beside the messages. That it fails ends nothing else."""
        self.tasks.start_soon(self._work, work)

    async def _work(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception:
            log.exception("what a notification asked for failed")

    def _receive_response(self, request_id: object, fields: JsonObject) -> None:
        future = self._asked.pop(request_id, None) if is_id(request_id) else None
        if future is None or future.done():
            log.debug("an answer came late, twice, or to nothing that was asked")
        elif (error := fields.get("error")) is None:
            future.set_result(fields.get("result"))
        else:
            code = dig(error, "code")
            future.set_exception(ClientError(code if isinstance(code, int) else 0, str(dig(error, "message"))[:500]))

    # -- going out -----------------------------------------------------------------------------------------------

    def send(self, message: Mapping[str, object]) -> None:
        """Queues one message. A connection that is gone takes it silently: its end is noticed elsewhere."""
        body = json.dumps(message, separators=(",", ":"), default=self._serialize_message).encode()
        self.out.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) if self._framed else body)

    def notify(self, method: str, params: Any | None = None) -> None:
        """Sends a notification; ``params`` is plain JSON data or an lsprotocol value."""
        self.send({"jsonrpc": self.VERSION, "method": method, "params": params})

    async def request(self, method: str, params: Mapping[str, object], *, timeout: float | None) -> object:
        """Asks the client and waits for its plain JSON answer, at most ``timeout`` seconds (``None``: a person is
        asked, who may take long). An answer that is no longer wanted is withdrawn with ``$/cancelRequest``.

        Raises:
            TimeoutError: no answer in time.
            ClientError: the client answered with an error.
            ConnectionLost: the client is gone.
        """
        if self.out.closed:
            raise ConnectionLost
        request_id = f"deputy-{next(self._ids)}"
        future = self._asked[request_id] = asyncio.get_running_loop().create_future()
        try:
            self.send({"jsonrpc": self.VERSION, "id": request_id, "method": method, "params": params})
            with anyio.fail_after(timeout):
                return await future
        finally:
            if self._asked.pop(request_id, None) is not None:
                self.notify(types.CANCEL_REQUEST, {"id": request_id})

    def disconnect(self) -> None:
        """Ends what waits for the client: it is gone."""
        asked, self._asked = self._asked, {}
        for future in asked.values():
            if not future.done():
                future.set_exception(ConnectionLost())

    def _send_result(self, request_id: RequestId, result: object) -> None:
        self.send({"jsonrpc": self.VERSION, "id": request_id, "result": result})

    def _send_error(self, request_id: RequestId | None, error: RpcError) -> None:
        self.send({"jsonrpc": self.VERSION, "id": request_id, "error": error.to_json()})

    def _refuse(self, request_id: object, code: ErrorCode, message: str) -> None:
        self._send_error(request_id if is_id(request_id) else None, RpcError(code, message))
