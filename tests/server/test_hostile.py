"""Clients that disconnect anywhere, send anything in any order, answer for others, or never answer."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deputy_protocol.command_table import COMMANDS
from deputy_protocol.errors import ErrorCode
from deputy_protocol.methods import REQUESTS
from deputy_protocol.schema import document
from deputy_server.lsp import routes
from tests.protocol.json_like import JSON, allowed
from tests.support.messages_api import messages_api
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import EVERYTHING, PATIENCE, RpcClient, Unanswered
from tests.support.sockets import Server, listening

pytestmark = pytest.mark.asyncio(loop_scope="module")

unhurried = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
URI = "file:///nowhere/a.py"
CONTRACT: Any = document()
TYPES: dict[str, Any] = CONTRACT["$defs"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncGenerator[Server]:
    async with listening("--tcp", "0") as listens:
        yield listens


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(server: Server, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[RpcClient]:
    folder = tmp_path_factory.mktemp("workspace")
    async with server.opened(folder, options={"model": "offline"}) as opened:
        yield opened


def framed(message: object) -> bytes:
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def request(number: int, method: str, params: object) -> Json:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def notification(method: str, params: object = None) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def session_of(server: Server) -> list[Json]:
    """The messages of a short connection."""
    options = {"token": server.where["token"], "model": "offline"}
    text = {"uri": URI, "version": 2}
    item = {"uri": URI, "languageId": "python", "version": 1, "text": "one\n"}
    place = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 3}}
    return [
        request(1, "initialize", {"capabilities": EVERYTHING, "initializationOptions": options}),
        notification("initialized", {}),
        request(2, "deputy/session/list", {}),
        notification("textDocument/didOpen", {"textDocument": item}),
        notification("textDocument/didChange", {"textDocument": text, "contentChanges": [{"text": "two\n"}]}),
        request(3, "textDocument/codeAction", {"textDocument": {"uri": URI}, "range": place}),
        request(4, "deputy/session/prompt", {"sessionId": "none", "prompt": []}),
        notification("$/cancelRequest", {"id": 2}),
        {"jsonrpc": "2.0", "id": "deputy-1", "result": None},
        notification("$/setTrace", {"value": "verbose"}),
        notification("textDocument/didClose", {"textDocument": {"uri": URI}}),
        request(5, "shutdown", None),
        notification("exit"),
    ]


async def exchange(server: Server, data: bytes) -> list[Json]:
    """Everything that the server sends to a client that sends ``data`` and then disconnects."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(data)
    writer.write_eof()
    found: list[Json] = []
    async with asyncio.timeout(PATIENCE):
        while header := await _header(reader):
            found.append(json.loads(await reader.readexactly(int(header.split(b":")[1]))))
    writer.transport.abort()
    return found


async def _header(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return b""


def answered(messages: Sequence[Json]) -> list[object]:
    return [message["id"] for message in messages if "method" not in message]


def breaks(messages: Sequence[Json]) -> list[int]:
    """Where a break of the connection differs from one a byte earlier or later: around, in the middle and near the end
    of each header and each body. ``make soak`` breaks it at every byte."""
    found = [0]
    for frame in map(framed, messages):
        body, end = frame.index(b"{"), len(frame)
        places = (1, body // 2, *range(body - 4, body + 2), (body + end) // 2, *range(end - 2, end + 1))
        found += [found[-1] + place for place in places]
    return found


async def complete_requests_are_answered(server: Server, cut: int) -> None:
    """When the connection breaks after ``cut`` bytes."""
    messages = session_of(server)
    whole = b"".join(map(framed, messages))
    ends = [len(b"".join(map(framed, messages[: count + 1]))) for count in range(len(messages))]
    sent = [message for message, end in zip(messages, ends, strict=True) if end <= cut]
    wanted = [message["id"] for message in sent if "id" in message and "method" in message]
    found = answered(await exchange(server, whole[:cut]))
    assert sorted(found) == wanted, cut  # type: ignore[type-var]


@pytest.mark.timeout(240)
async def test_complete_requests_are_answered_when_the_connection_breaks_anywhere(server: Server) -> None:
    for cut in breaks(session_of(server)):
        await complete_requests_are_answered(server, cut)


@given(data=st.data())
@settings(unhurried, max_examples=40)
async def test_each_request_is_answered_once_in_any_order_of_messages(server: Server, data: st.DataObject) -> None:
    messages = data.draw(st.permutations(session_of(server)))
    received = messages[: messages.index(notification("exit"))]
    found = answered(await exchange(server, b"".join(map(framed, messages))))
    assert sorted(map(str, found)) == sorted(str(m["id"]) for m in received if "id" in m and "method" in m)


@given(garbage=st.lists(st.binary(max_size=40) | JSON.map(framed) | st.just(b"Content-Length: 3\r\n\r\n"), max_size=5))
@settings(unhurried, max_examples=60)
async def test_no_bytes_of_a_client_without_the_token_do_harm(server: Server, garbage: list[bytes]) -> None:
    await exchange(server, b"".join(garbage))
    found = await exchange(server, framed(session_of(server)[0]))
    assert answered(found) == [1]


KNOWN = {code.value for code in ErrorCode} - {ErrorCode.INTERNAL_ERROR.value}
PARAMS = {entry.name: entry.params for entry in REQUESTS} | {
    f"command {entry.name}": entry.argument for entry in COMMANDS
}


def anything_for(name: str) -> st.SearchStrategy[object]:
    """Valid parameters, and invalid ones."""
    return allowed(TYPES[PARAMS[name].__name__], TYPES) | JSON


@pytest.mark.parametrize("name", [*PARAMS, *routes.TEXT_REQUESTS])
@given(data=st.data())
@settings(unhurried, max_examples=20)
async def test_requests_with_any_parameters_are_answered_once_without_internal_error(
    client: RpcClient, name: str, data: st.DataObject
) -> None:
    params = data.draw(anything_for(name) if name in PARAMS else JSON)
    command = name.removeprefix("command ")
    if command != name:
        number = client.start("workspace/executeCommand", {"command": command, "arguments": [params]})
    else:
        number = client.start(name, params)
    answer = await client.answer(number)
    assert "result" in answer or answer["error"]["code"] in KNOWN, answer


# -- answers -----------------------------------------------------------------------------------------------------------

ASK = "deputy/permission/request"


def writing(body: Json, _: int) -> Play:
    done = len(body["messages"]) > 1
    return say("done") if done else calls(call("write_file", path="a.txt", content="x"))


async def test_responses_of_one_client_do_not_count_for_another(workspace: Path) -> None:
    """Neither do a second response, one to an unknown request, or one that is not among the options."""
    approve = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
    async with messages_api(writing) as api, listening("--tcp", "0", env={"ANTHROPIC_API_KEY": "test-key"}) as listens:
        options = {"model": "m", "baseUrl": api.url}
        async with listens.opened(workspace, options=options) as one, listens.opened(workspace) as two:
            one.handlers[ASK] = lambda _: Unanswered
            session_id, _ = await one.session()
            turn = one.start_prompt(session_id, "go")
            asked = await one.until(lambda m: m.get("method") == ASK)
            for number in range(20):
                two.send({"jsonrpc": "2.0", "id": f"deputy-{number}", "result": approve})
            await two.request("deputy/metrics", {})
            assert not (workspace / "a.txt").exists()
            for outcome in ({"outcome": {"outcome": "selected", "optionId": "none"}}, approve, approve):
                one.send({"jsonrpc": "2.0", "id": asked["id"], "result": outcome})
            await one.result(turn)
            assert not (workspace / "a.txt").exists()
            assert one.events("permission_resolved")[0]["by"] == "dismissed"


async def test_a_client_that_never_answers_delays_only_its_permission_request(workspace: Path) -> None:
    async with messages_api(writing) as api, listening("--tcp", "0", env={"ANTHROPIC_API_KEY": "test-key"}) as listens:
        options = {"model": "m", "baseUrl": api.url}
        async with listens.opened(workspace, options=options) as mute:
            for method in (ASK, "window/workDoneProgress/create", "window/showDocument", "workspace/applyEdit"):
                mute.handlers[method] = lambda _: Unanswered
            session_id, agent_id = await mute.session()
            turn = mute.start_prompt(session_id, "go")
            await mute.until(lambda m: m.get("method") == ASK)
            assert await mute.command("deputy.cancelAgent", {"agentId": agent_id}) == {"cancelled": True}
            assert (await mute.result(turn))["stopReason"] == "cancelled"
            assert not (workspace / "a.txt").exists()
