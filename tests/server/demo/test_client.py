"""The demo's LSP client against a server that misbehaves on demand."""

import os
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path

import anyio
import psutil
import pytest

from deputy_server.demo import client as module
from deputy_server.demo.client import Client, Handler, JsonObject, RequestFailed, ServerGone, connect

FAKE = [sys.executable, "-I", "-S", str(Path(__file__).with_name("fake_server.py"))]
pytestmark = pytest.mark.asyncio


def connected(
    handlers: Mapping[str, Handler] | None = None, heard: list[tuple[str, JsonObject]] | None = None
) -> AbstractAsyncContextManager[Client]:
    notes = [] if heard is None else heard
    return connect(
        FAKE,
        cwd=Path(__file__).parent,
        env=dict(os.environ),
        handlers=handlers or {},
        listen=lambda method, params: notes.append((method, params)),
    )


def children() -> list[psutil.Process]:
    """The servers of these tests that run; this process may have other children."""
    found: list[psutil.Process] = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it ends just now
            if FAKE[-1] in child.cmdline():
                found.append(child)
    return found


async def test_requests_and_answers_find_each_other() -> None:
    async with connected() as client:
        answers: dict[int, JsonObject] = {}

        async def ask(n: int) -> None:
            answers[n] = await client.request("echo", {"n": n, "text": "ä\u2028" * 1000})

        async with anyio.create_task_group() as tasks:
            for n in range(20):
                tasks.start_soon(ask, n)
    assert {n: answer["n"] for n, answer in answers.items()} == {n: n for n in range(20)}


async def test_an_error_is_raised_with_its_code() -> None:
    async with connected() as client:
        with pytest.raises(RequestFailed, match="not now") as caught:
            await client.request("fail", {})
    assert caught.value.code == -32003


async def test_an_error_says_what_can_be_done_about_it() -> None:
    async with connected() as client:
        for data, told in (({"action": "Wait."}, "not now. Wait."), ({"action": "now"}, "not now"), ("odd", "not now")):
            with pytest.raises(RequestFailed) as caught:
                await client.request("fail", {"data": data})
            assert str(caught.value) == told


async def test_no_answer_in_time_withdraws_the_request() -> None:
    async with connected() as client:
        with pytest.raises(TimeoutError):
            await client.request("silence", {}, timeout=0)
        heard = (await client.request("heard", {}))["messages"]
    assert isinstance(heard, list)
    assert [message["method"] for message in heard][:2] == ["silence", "$/cancelRequest"]
    assert heard[1]["params"]["id"] == heard[0]["id"]


async def test_the_servers_request_is_answered_by_its_handler() -> None:
    async def double(params: JsonObject) -> object:
        n = params["n"]
        assert isinstance(n, int)
        return {"n": 2 * n}

    assert await _answer_to("double", {"double": double}) == {"result": {"n": 2}}


async def test_a_request_that_no_handler_knows_is_rejected() -> None:
    answer = await _answer_to("window/unheardOf", {})
    assert answer["error"]["code"] == -32601


async def test_a_handler_that_cannot_make_sense_of_a_request_answers_with_an_error() -> None:
    async def refuse(params: JsonObject) -> object:
        raise ValueError("no such thing")

    answer = await _answer_to("refuse", {"refuse": refuse})
    assert answer["error"]["message"] == "no such thing"


async def test_a_withdrawn_request_ends_its_handler_and_is_answered_as_cancelled() -> None:
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
        answer = await _heard_answer(client)
    assert answer["error"]["code"] == -32800


async def test_the_end_of_the_server_fails_what_waits_and_shows_its_log() -> None:
    async with connected() as client:
        with pytest.raises(ServerGone, match="the reason is in the log"):
            await client.request("die", {})
        with pytest.raises(ServerGone):
            await client.request("echo", {})
        with pytest.raises(ServerGone):
            await client.notify("anything")
    assert children() == []


async def test_output_that_is_no_message_ends_the_conversation() -> None:
    async with connected() as client:
        with pytest.raises(ServerGone, match="no message"):
            await client.request("babble", {})
    assert children() == []


async def test_an_error_inside_comes_out_as_it_is_and_the_server_is_gone() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with connected():
            raise KeyError("mine")
    assert children() == []


async def test_a_server_that_ignores_all_requests_to_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOP_TIMEOUT", 0.05)
    async with connected() as client:
        await client.request("be stubborn", {})
    assert children() == []


async def test_cancelling_the_user_of_a_client_ends_the_server() -> None:
    heard: list[tuple[str, JsonObject]] = []
    with anyio.CancelScope() as scope:
        async with connected(heard=heard) as client:
            await client.request("echo", {})
            scope.cancel()
            await client.request("silence", {})
    assert scope.cancelled_caught
    assert children() == []


async def _answer_to(method: str, handlers: Mapping[str, Handler]) -> JsonObject:
    async with connected(handlers) as client:
        await client.request("ask", {"method": method})
        return await _heard_answer(client)


async def _heard_answer(client: Client) -> JsonObject:
    """What the client answered to the server's own request, as the server got it."""
    with anyio.fail_after(10):
        while True:
            heard = (await client.request("heard", {}))["messages"]
            assert isinstance(heard, list)
            for message in heard:
                if message.get("id") == "q":
                    return {name: value for name, value in message.items() if name in ("result", "error")}
