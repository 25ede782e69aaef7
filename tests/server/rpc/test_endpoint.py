"""The JSON-RPC engine over an output in memory."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from deputy_agents.domain.errors import UnknownSession
from deputy_protocol.errors import ErrorCode
from deputy_server.rpc.endpoint import Dialect, Endpoint, RequestHandler, Response
from deputy_server.rpc.errors import ClientError, ConnectionLost, RpcError
from deputy_server.rpc.framing import FrameError, unframed
from deputy_server.rpc.open_requests import FLOOD_GRACE, RequestId
from deputy_server.rpc.writer import OutputQueue

pytestmark = pytest.mark.asyncio

STRICT = Dialect("cancel", "id", max_requests=2, requires_version=True, echoes_invalid_id=True)
LENIENT = Dialect(
    "cancel",
    "requestId",
    max_requests=2,
    requires_version=False,
    echoes_invalid_id=False,
    error_codes={ErrorCode.UNKNOWN_SESSION: -1},
)
PATIENCE = 10


class Output(OutputQueue):
    """Keeps the messages that are sent."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Any] = []
        self._sent = anyio.Event()

    def write(self, data: bytes) -> bool:
        self.messages.append(json.loads(data))
        self._sent.set()
        return True

    async def wait_for(self, count: int) -> list[Any]:
        with anyio.fail_after(PATIENCE):
            while len(self.messages) < count:
                self._sent = anyio.Event()
                await self._sent.wait()
        return self.messages

    def _wake_sender(self) -> None:
        pass


class Methods:
    """Serves a few methods and records what happens."""

    def __init__(self, out: Output) -> None:
        self.notifications: list[tuple[str, object]] = []
        self.finished: list[tuple[str, RequestId]] = []
        self.rejection: RpcError | None = None
        self.released = anyio.Event()
        self._out = out

    def check_request(self, method: str) -> RpcError | None:
        return self.rejection

    def accept_request(self, method: str, params: object) -> RequestHandler | None:
        if method == "reject":
            raise RpcError(ErrorCode.NOT_ALLOWED, "No.")
        handlers: dict[str, RequestHandler] = {
            "echo": self._echo,
            "wait": self._wait,
            "fail": self._fail,
            "respond": self._respond,
            "unencodable": self._unencodable,
        }
        return handlers.get(method)

    def accept_notification(self, method: str, params: object) -> None:
        self.notifications.append((method, params))

    def request_finished(self, method: str, request_id: RequestId, seconds: float) -> None:
        self.finished.append((method, request_id))

    async def _echo(self, params: object) -> object:
        return params

    async def _wait(self, params: object) -> object:
        await self.released.wait()
        return "released"

    async def _fail(self, params: object) -> object:
        raise UnknownSession("There is none.")

    async def _respond(self, params: object) -> Response[str]:
        return Response("first", lambda: self._out.messages.append("then"))

    async def _unencodable(self, params: object) -> object:
        return Response(object(), lambda: self._out.messages.append("never"))


class Connection:
    def __init__(self, endpoint: Endpoint, out: Output, methods: Methods) -> None:
        self.endpoint = endpoint
        self.out = out
        self.methods = methods

    def receive(self, message: object) -> None:
        self.endpoint.receive(json.dumps(message).encode())

    def start(self, request_id: RequestId, method: str, params: object = None) -> None:
        self.receive({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})

    def errors(self) -> list[tuple[object, int]]:
        return [(m["id"], m["error"]["code"]) for m in self.out.messages if "error" in m]


@asynccontextmanager
async def connected(dialect: Dialect = STRICT) -> AsyncGenerator[Connection]:
    async with anyio.create_task_group() as tasks:
        out = Output()
        methods = Methods(out)
        yield Connection(Endpoint(dialect, methods, out, tasks, frame=unframed), out, methods)
        tasks.cancel_scope.cancel()


# -- messages that are rejected ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"[NaN]", b"[" * 100_000], ids=["empty", "cut", "byte", "nan", "deep"]
)
async def test_invalid_json_is_answered_with_a_parse_error(body: bytes) -> None:
    async with connected() as client:
        client.endpoint.receive(body)
        assert client.errors() == [(None, -32700)]


@pytest.mark.parametrize(
    ("message", "strict_id", "lenient_id"),
    [
        (7, None, None),
        ([], None, None),
        ({"jsonrpc": "2.0"}, None, None),
        ({"id": 3, "method": 5}, 3, None),
        ({"id": 1.5, "method": "echo"}, None, None),
        ({"id": True, "method": "echo"}, None, None),
        ({"id": None, "method": "echo"}, None, None),
    ],
)
async def test_an_invalid_envelope_is_answered_with_an_invalid_request_error(
    message: object, strict_id: object, lenient_id: object
) -> None:
    for dialect, request_id in ((STRICT, strict_id), (LENIENT, lenient_id)):
        async with connected(dialect) as client:
            client.receive(message)
            assert client.errors() == [(request_id, -32600)]
            assert client.methods.finished == []


async def test_only_a_strict_dialect_requires_the_version() -> None:
    for dialect, sent in ((STRICT, "error"), (LENIENT, "result")):
        async with connected(dialect) as client:
            client.receive({"id": 1, "method": "echo"})
            assert sent in (await client.out.wait_for(1))[0]


async def test_an_unreadable_frame_is_answered_without_an_id() -> None:
    async with connected() as client:
        client.endpoint.reject_frame(FrameError.BAD_HEADER)
        client.endpoint.reject_frame(FrameError.TOO_LARGE)
        assert client.errors() == [(None, -32700), (None, -32600)]


async def test_requests_are_rejected_by_the_service_before_they_run() -> None:
    async with connected() as client:
        client.start(1, "unknown")
        client.start(2, "reject")
        client.methods.rejection = RpcError(ErrorCode.NOT_INITIALIZED, "Not yet.")
        client.start(3, "echo")
        assert client.errors() == [(1, -32601), (2, ErrorCode.NOT_ALLOWED), (3, ErrorCode.NOT_INITIALIZED)]


async def test_an_id_that_is_open_is_rejected_and_can_be_used_again_after_its_response() -> None:
    async with connected() as client:
        client.start(1, "wait")
        client.start(1, "echo")
        assert client.errors() == [(1, -32600)]
        client.methods.released.set()
        await client.out.wait_for(2)
        client.start(1, "echo", "again")
        assert (await client.out.wait_for(3))[2]["result"] == "again"


async def test_requests_above_the_maximum_are_rejected_and_the_reader_is_paused() -> None:
    async with connected() as client:
        client.start(1, "wait")
        await client.endpoint.wait_for_room()
        client.start(2, "wait")
        client.start(3, "wait")
        assert client.errors() == [(3, ErrorCode.OVERLOADED)]
        started = anyio.current_time()
        await client.endpoint.wait_for_room()
        assert anyio.current_time() - started >= FLOOD_GRACE / 2
        client.methods.released.set()
        with anyio.fail_after(PATIENCE):
            await client.endpoint.wait_for_room()


# -- requests of the client --------------------------------------------------------------------------------------------


async def test_a_request_is_answered_once_and_the_callback_runs_after_its_response() -> None:
    async with connected() as client:
        client.start("a", "respond")
        messages = await client.out.wait_for(2)
        assert messages == [{"jsonrpc": "2.0", "id": "a", "result": "first"}, "then"]
        assert client.methods.finished == [("respond", "a")]


async def test_an_error_has_the_code_of_the_dialect() -> None:
    for dialect, code in ((STRICT, ErrorCode.UNKNOWN_SESSION.value), (LENIENT, -1)):
        async with connected(dialect) as client:
            client.start(1, "fail")
            await client.out.wait_for(1)
            assert client.errors() == [(1, code)]


async def test_a_result_that_is_not_json_is_answered_with_an_internal_error() -> None:
    async with connected() as client:
        client.start(1, "unencodable")
        await client.out.wait_for(1)
        await checkpoint()
        assert client.errors() == [(1, -32603)]
        assert len(client.out.messages) == 1


@pytest.mark.parametrize("dialect", [STRICT, LENIENT], ids=["id", "requestId"])
async def test_the_cancel_notification_cancels_the_request_even_before_it_starts(dialect: Dialect) -> None:
    async with connected(dialect) as client:
        for request_id, early in ((1, True), (2, False)):
            client.start(request_id, "wait")
            if not early:
                await checkpoint()
            for params in (None, [], {}, {dialect.cancel_field: {}}, {dialect.cancel_field: 99}):
                client.receive({"method": "cancel", "params": params})
            client.receive({"method": "cancel", "params": {dialect.cancel_field: request_id}})
            await client.out.wait_for(request_id)
        assert client.errors() == [(1, -32800), (2, -32800)]
        assert client.methods.notifications == []


async def test_other_notifications_reach_the_service() -> None:
    async with connected() as client:
        client.receive({"method": "changed", "params": [1]})
        assert client.methods.notifications == [("changed", [1])]
        assert client.out.messages == []


async def test_open_requests_are_cancelled_and_answered_except_the_last() -> None:
    async with connected() as client:
        client.start(1, "wait")
        client.start(2, "wait")
        with anyio.fail_after(PATIENCE):
            await client.endpoint.cancel_open_requests(keep_last=1, grace=PATIENCE)
            assert client.errors() == [(1, -32800)]
            await client.endpoint.cancel_open_requests(grace=PATIENCE)
        assert client.errors() == [(1, -32800), (2, -32800)]
        assert client.endpoint.closing


# -- requests to the client --------------------------------------------------------------------------------------------


async def ask(client: Connection, *, timeout: float | None = PATIENCE) -> object:
    """Return the result of a request to the client, or the exception that it raises."""
    try:
        return await client.endpoint.request("ask", {"x": 1}, timeout=timeout)
    except (TimeoutError, ClientError, ConnectionLost) as error:
        return error


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"result": {"ok": True}}, {"ok": True}),
        ({}, None),
        ({"error": {"code": 5, "message": "m" * 1000}}, (5, "m" * 500)),
        ({"error": "rubbish"}, (0, "None")),
    ],
    ids=["result", "nothing", "error", "rubbish"],
)
async def test_the_client_s_response_is_returned_or_raised(answer: dict[str, object], expected: object) -> None:
    async with connected() as client, anyio.create_task_group() as tasks:
        results: list[object] = []

        async def run() -> None:
            results.append(await ask(client))

        tasks.start_soon(run)
        (request,) = await client.out.wait_for(1)
        assert request == {"jsonrpc": "2.0", "id": request["id"], "method": "ask", "params": {"x": 1}}
        client.receive({"jsonrpc": "2.0", "id": "deputy-99", "result": "of another request"})
        client.receive({"jsonrpc": "2.0", "id": request["id"], **answer})
        with anyio.fail_after(PATIENCE):
            while not results:
                await checkpoint()
        (result,) = results
        assert ((result.code, str(result)) if isinstance(result, ClientError) else result) == expected
        client.receive({"jsonrpc": "2.0", "id": request["id"], "result": "twice"})
        assert len(client.out.messages) == 1


async def test_a_request_without_an_answer_in_time_is_withdrawn_and_a_late_answer_is_ignored() -> None:
    async with connected() as client:
        assert isinstance(await ask(client, timeout=0.01), TimeoutError)
        request, withdrawal = client.out.messages
        assert withdrawal == {"jsonrpc": "2.0", "method": "cancel", "params": {"id": request["id"]}}
        client.receive({"id": request["id"], "result": "late"})
        assert len(client.out.messages) == 2


async def test_a_request_whose_caller_is_cancelled_is_withdrawn() -> None:
    async with connected(LENIENT) as client:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await ask(client, timeout=None)
        request, withdrawal = client.out.messages
        assert withdrawal["params"] == {"requestId": request["id"]}


async def test_a_withdrawn_request_is_closed_by_the_client_s_answer() -> None:
    async with connected() as client:
        request = client.endpoint.start_request("ask", {})
        with pytest.raises(TimeoutError):
            await client.endpoint.wait_response(request, timeout=0)
        assert not request.closed.is_set()
        client.receive({"id": request.request_id, "error": {"code": -32800, "message": "cancelled"}})
        assert request.closed.is_set()
        assert len(client.out.messages) == 2


async def test_a_disconnect_ends_requests_to_the_client_without_withdrawing_them() -> None:
    async with connected() as client:
        withdrawn, waiting = client.endpoint.start_request("ask", {}), client.endpoint.start_request("ask", {})
        with pytest.raises(TimeoutError):
            await client.endpoint.wait_response(withdrawn, timeout=0)
        sent = len(client.out.messages)
        client.endpoint.disconnect()
        with pytest.raises(ConnectionLost):
            await client.endpoint.wait_response(waiting, timeout=PATIENCE)
        assert withdrawn.closed.is_set()
        assert waiting.closed.is_set()
        assert len(client.out.messages) == sent


async def test_nothing_is_requested_of_a_client_that_has_disconnected() -> None:
    async with connected() as client:
        await client.out.close(0)
        assert isinstance(await ask(client), ConnectionLost)
        assert client.out.messages == []
