"""The demo's LSP client with a server that misbehaves on demand."""

import os
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path

import anyio
import psutil
import pytest

from deputy_server.demo import client as module
from deputy_server.demo.client import Client, Handler, JsonObject, RequestFailed, ServerEnded, connect

FAKE = [sys.executable, "-I", "-S", str(Path(__file__).with_name("fake_server.py"))]
pytestmark = pytest.mark.asyncio


def connected(
    handlers: Mapping[str, Handler] | None = None, notifications: list[tuple[str, JsonObject]] | None = None
) -> AbstractAsyncContextManager[Client]:
    received = [] if notifications is None else notifications
    return connect(
        FAKE,
        cwd=Path(__file__).parent,
        env=dict(os.environ),
        handlers=handlers or {},
        on_notification=lambda method, params: received.append((method, params)),
    )


def children() -> list[psutil.Process]:
    """The running servers of these tests. This process may have other children."""
    found: list[psutil.Process] = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has just ended
            if FAKE[-1] in child.cmdline():
                found.append(child)
    return found


async def test_responses_are_matched_to_their_requests() -> None:
    async with connected() as client:
        answers: dict[int, JsonObject] = {}

        async def ask(n: int) -> None:
            answers[n] = await client.request("echo", {"n": n, "text": "ä\u2028" * 1000})

        async with anyio.create_task_group() as tasks:
            for n in range(20):
                tasks.start_soon(ask, n)
    assert {n: answer["n"] for n, answer in answers.items()} == {n: n for n in range(20)}


async def test_error_is_raised_with_its_code() -> None:
    async with connected() as client:
        with pytest.raises(RequestFailed, match="not now") as caught:
            await client.request("fail", {})
    assert caught.value.code == -32003


async def test_error_text_has_the_suggested_action() -> None:
    async with connected() as client:
        for data, text in (({"action": "Wait."}, "not now. Wait."), ({"action": "now"}, "not now"), ("odd", "not now")):
            with pytest.raises(RequestFailed) as caught:
                await client.request("fail", {"data": data})
            assert str(caught.value) == text


async def test_timeout_cancels_the_request() -> None:
    async with connected() as client:
        with pytest.raises(TimeoutError):
            await client.request("silence", {}, timeout=0)
        received = (await client.request("received", {}))["messages"]
    assert isinstance(received, list)
    assert [message["method"] for message in received][:2] == ["silence", "$/cancelRequest"]
    assert received[1]["params"]["id"] == received[0]["id"]


async def test_handler_answers_the_request_of_the_server() -> None:
    async def double(params: JsonObject) -> object:
        n = params["n"]
        assert isinstance(n, int)
        return {"n": 2 * n}

    assert await _answer_to("double", {"double": double}) == {"result": {"n": 2}}


async def test_request_without_a_handler_is_rejected() -> None:
    answer = await _answer_to("window/unheardOf", {})
    assert answer["error"]["code"] == -32601


async def test_handler_that_raises_value_error_answers_with_an_error() -> None:
    async def reject(params: JsonObject) -> object:
        raise ValueError("no such thing")

    answer = await _answer_to("reject", {"reject": reject})
    assert answer["error"]["message"] == "no such thing"


async def test_withdrawn_request_cancels_its_handler() -> None:
    began, ended = anyio.Event(), anyio.Event()

    async def ponder(params: JsonObject) -> object:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with connected({"ponder": ponder}) as client:
        await client.request("ask", {"method": "ponder"})
        with anyio.fail_after(10):
            await began.wait()
            await client.request("withdraw", {})
            await ended.wait()
        answer = await _received_answer(client)
    assert answer["error"]["code"] == -32800


async def test_end_of_the_server_fails_open_requests_and_shows_its_log() -> None:
    async with connected() as client:
        with pytest.raises(ServerEnded, match="the reason is in the log"):
            await client.request("die", {})
        with pytest.raises(ServerEnded):
            await client.request("echo", {})
        with pytest.raises(ServerEnded):
            await client.notify("anything")
    assert children() == []


async def test_invalid_output_ends_the_connection() -> None:
    async with connected() as client:
        with pytest.raises(ServerEnded, match="invalid message"):
            await client.request("babble", {})
    assert children() == []


async def test_error_inside_is_raised_unchanged_and_stops_the_server() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with connected():
            raise KeyError("mine")
    assert children() == []


async def test_server_that_ignores_shutdown_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOP_TIMEOUT", 0.05)
    async with connected() as client:
        await client.request("be stubborn", {})
    assert children() == []


async def test_cancelling_the_caller_stops_the_server() -> None:
    notifications: list[tuple[str, JsonObject]] = []
    with anyio.CancelScope() as scope:
        async with connected(notifications=notifications) as client:
            await client.request("echo", {})
            scope.cancel()
            await client.request("silence", {})
    assert scope.cancelled_caught
    assert children() == []


async def _answer_to(method: str, handlers: Mapping[str, Handler]) -> JsonObject:
    async with connected(handlers) as client:
        await client.request("ask", {"method": method})
        return await _received_answer(client)


async def _received_answer(client: Client) -> JsonObject:
    """The client's answer to the server's request, as the server received it."""
    with anyio.fail_after(10):
        while True:
            received = (await client.request("received", {}))["messages"]
            assert isinstance(received, list)
            for message in received:
                if message.get("id") == "q":
                    return {name: value for name, value in message.items() if name in ("result", "error")}
