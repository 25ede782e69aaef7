"""The LSP side of a connection: pygls keeps documents, workspace folders and features; an
:class:`~deputy_server.rpc.endpoint.Endpoint` replaces its message handling.

The parameters of ``deputy/*`` requests reach their handler as received, and are validated there once.
"""

import asyncio
import inspect
import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum, auto
from functools import partial
from typing import Any, TypeAlias, cast

import anyio
from anyio.abc import TaskGroup
from cattrs import Converter
from lsprotocol import types
from pygls.exceptions import JsonRpcMethodNotFound
from pygls.protocol import LanguageServerProtocol
from pygls.server import JsonRPCServer

from deputy_protocol.errors import ErrorCode
from deputy_server.rpc.endpoint import VERSION, Dialect, Endpoint, RequestHandler, Response
from deputy_server.rpc.errors import RpcError
from deputy_server.rpc.framing import frame_with_header, unframed
from deputy_server.rpc.open_requests import RequestId
from deputy_server.rpc.writer import OutputQueue

log = logging.getLogger(__name__)

SHUTDOWN_GRACE = 5
"""Seconds in which open requests must be answered when the client sends ``shutdown``."""

LSP = Dialect(
    cancel_method=types.CANCEL_REQUEST,
    cancel_field="id",
    max_requests=1024,
    requires_version=True,
    echoes_invalid_id=True,
)

Welcome: TypeAlias = Callable[[], Awaitable[object]]
"""Creates the result of ``initialize``."""


class Phase(Enum):
    """The phase of a connection."""

    NEW = auto()
    READY = auto()
    SHUT_DOWN = auto()


class RpcProtocol(LanguageServerProtocol):
    """One connection. Call :meth:`connect` before anything else."""

    endpoint: Endpoint

    def __init__(self, server: JsonRPCServer, converter: Converter) -> None:
        super().__init__(cast(Any, server), converter)
        self.methods: dict[str, RequestHandler] = {}
        self.phase = Phase.NEW
        self.ready = asyncio.Event()
        """Set when ``initialize`` has been answered."""

    def connect(self, out: OutputQueue, tasks: TaskGroup, *, framed: bool = True) -> None:
        """Set the output and the task group that runs requests. Without ``framed``, the transport separates messages
        itself."""
        self.out = out
        self.tasks = tasks
        frame = frame_with_header if framed else unframed
        self.endpoint = Endpoint(LSP, self, out, tasks, frame=frame, default=self._serialize_message)

    @abstractmethod
    def initialize(self, params: object) -> Welcome:
        """Accept the client. Raises if the client is rejected; it may then try again."""

    # -- sending -------------------------------------------------------------------------------------------------------

    def notify(self, method: str, params: Any | None = None) -> None:
        """Send a notification; ``params`` is JSON or an lsprotocol value."""
        self.endpoint.notify(method, params)

    async def request(self, method: str, params: object, *, timeout: float | None) -> object:
        """Send a request and return its result; see :meth:`Endpoint.request`."""
        return await self.endpoint.request(method, params, timeout=timeout)

    # -- the endpoint's service ----------------------------------------------------------------------------------------

    def check_request(self, method: str) -> RpcError | None:
        match self.phase:
            case Phase.NEW if method != types.INITIALIZE:
                return RpcError(ErrorCode.NOT_INITIALIZED, "Send initialize first.")
            case Phase.READY if method == types.INITIALIZE:
                return RpcError(ErrorCode.INVALID_REQUEST, "The server is already initialized.")
            case Phase.SHUT_DOWN:
                return RpcError(ErrorCode.INVALID_REQUEST, "The server is shutting down.")
            case _:
                return None

    def accept_request(self, method: str, params: object) -> RequestHandler | None:
        match method:
            case types.INITIALIZE:
                welcome = self.initialize(params)
                self.phase = Phase.READY
                return partial(self._welcome, welcome)
            case types.SHUTDOWN:
                self.phase = Phase.SHUT_DOWN
                return self._shut_down
            case _:
                return self.methods.get(method)

    async def _welcome(self, welcome: Welcome, _params: object) -> Response[object]:
        return Response(await welcome(), self.ready.set)

    async def _shut_down(self, _params: object) -> None:
        # An exit that follows at once cancels open requests, and has to wait for this one.
        with anyio.CancelScope(shield=True):
            await self.endpoint.cancel_open_requests(keep_last=1, grace=SHUTDOWN_GRACE)

    def request_finished(self, method: str, request_id: RequestId, seconds: float) -> None:
        """Notify clients that trace requests by ``$/setTrace``. The trace never contains parameters."""
        if self.trace != types.TraceValue.Off and not self.out.congested:
            self.notify(types.LOG_TRACE, {"message": f"{method} ({request_id}) took {seconds * 1000:.0f} ms"})

    def accept_notification(self, method: str, params: object) -> None:
        if method == types.EXIT:
            self.endpoint.exit_code = 0 if self.phase is Phase.SHUT_DOWN else 1
        elif self.phase is Phase.READY:
            self._run_features(method, params)
        else:
            log.warning("ignored a notification before initialize or after shutdown")

    def _run_features(self, method: str, params: object) -> None:
        """Pass a notification, typed, to the features of pygls and Deputy. An invalid notification is dropped, as it
        has no response."""
        kind = self.get_message_type(method)
        if kind is None:
            return
        try:
            message = self._converter.structure({"jsonrpc": VERSION, "method": method, "params": params}, kind)
            self._run_feature(self._get_handler(method)(message.params))
        except JsonRpcMethodNotFound:
            pass
        except Exception as error:  # noqa: BLE001 - of cattrs, pygls or a feature; it must not end the connection
            log.warning("dropped a %s notification: %s", method, type(error).__name__)

    def _run_feature(self, started: object) -> None:
        """Run a feature of pygls, which is a generator that yields Deputy's features. pygls itself would keep a future
        of every notification forever."""
        if inspect.isgenerator(started):
            for feature, args, _ in cast(Iterable[tuple[Callable[..., object], tuple[object, ...], None]], started):
                feature(*args)

    def background(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run ``work`` in a task. If it fails, the connection continues."""
        self.tasks.start_soon(self._work, work)

    async def _work(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception:
            log.exception("a background task of a notification failed")
