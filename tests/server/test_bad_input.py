"""Invalid input: each mistake is answered with one error, and the connection continues."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.rpc import Json, RpcClient, RpcFailure, serving

UNKNOWN = "01a21fae-0000-7000-8000-000000000000"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[RpcClient]:
    """One server for all tests of this module, which each leave it usable."""
    async with serving() as client:
        await client.initialize(tmp_path_factory.mktemp("w"), initializationOptions={"model": "offline"})
        yield client
        assert await client.shut_down() == 0
        assert "Traceback" not in client.stderr


async def rejected(client: RpcClient, data: bytes, code: int) -> None:
    """``data`` is answered with an error without an id, and the next request is served."""
    before = sum(m.get("id", 0) is None for m in client.received)
    client.send_bytes(data)
    assert await client.request("deputy/session/list", {}) is not None
    answers = [m for m in client.received if m.get("id", 0) is None]
    assert [answer["error"]["code"] for answer in answers[before:]] == [code]


@pytest.mark.parametrize(
    "body",
    [b"{", b"", b"\xff\xfe", b"nul", b"[" * 200_000, b'{"jsonrpc":"2.0","id":1,"method":NaN}', b"1" * 10_000 + b"x"],
    ids=["cut", "empty", "no-utf8", "word", "deep", "nan", "digits"],
)
async def test_invalid_json_is_a_parse_error_and_the_connection_continues(client: RpcClient, body: bytes) -> None:
    await rejected(client, b"Content-Length: %d\r\n\r\n%b" % (len(body), body), -32700)


async def test_a_bad_header_is_a_parse_error_and_the_connection_continues(client: RpcClient) -> None:
    await rejected(client, b"Content-Length: minus one\r\n\r\n", -32700)


@pytest.mark.parametrize(
    "message",
    [
        [],
        [{"jsonrpc": "2.0", "id": 1, "method": "shutdown"}],
        7,
        {},
        {"jsonrpc": "2.0"},
        {"jsonrpc": "2.0", "id": None, "method": "shutdown"},
        {"jsonrpc": "2.0", "id": 1.5, "method": "shutdown"},
        {"jsonrpc": "2.0", "id": True, "method": "shutdown"},
        {"jsonrpc": "2.0", "id": {}, "method": "shutdown"},
        {"jsonrpc": "2.0", "method": 3},
    ],
    ids=json.dumps,
)
async def test_json_that_is_not_a_message_is_an_invalid_request(client: RpcClient, message: object) -> None:
    body = json.dumps(message).encode()
    await rejected(client, b"Content-Length: %d\r\n\r\n%b" % (len(body), body), -32600)


@pytest.mark.parametrize("message", [{"method": "shutdown"}, {"jsonrpc": "2.0", "method": []}], ids=json.dumps)
async def test_a_request_without_the_version_is_rejected_with_its_id(client: RpcClient, message: Json) -> None:
    message = message | {"id": f"x-{len(client.received)}"}
    client.send(message)
    assert (await client.answer(message["id"]))["error"]["code"] == -32600


async def test_an_unknown_method_is_rejected_and_an_unknown_notification_ignored(client: RpcClient) -> None:
    client.notify("deputy/unknown", {"of": 1})
    client.notify("$/unknown")
    for method in ("deputy/unknown", "textDocument/rename", "$/unknown", "deputy/event"):
        with pytest.raises(RpcFailure, match="Unknown method") as failure:
            await client.request(method, {})
        assert failure.value.code == -32601


async def test_a_second_initialize_is_rejected(client: RpcClient) -> None:
    with pytest.raises(RpcFailure) as failure:
        await client.request("initialize", {"capabilities": {}})
    assert failure.value.code == -32600


PROMPT = [{"type": "text", "text": "hello"}]


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("deputy/session/prompt", None, "sessionId"),
        ("deputy/session/prompt", {}, "sessionId"),
        ("deputy/session/prompt", [], ""),
        ("deputy/session/prompt", 7, ""),
        ("deputy/session/prompt", {"sessionId": 7, "prompt": PROMPT}, "sessionId"),
        ("deputy/session/prompt", {"sessionId": UNKNOWN}, "prompt"),
        ("deputy/session/prompt", {"sessionId": UNKNOWN, "prompt": []}, "prompt"),
        ("deputy/session/prompt", {"sessionId": UNKNOWN, "prompt": "hello"}, "prompt"),
        ("deputy/session/prompt", {"sessionId": UNKNOWN, "prompt": [{"type": "song"}]}, "prompt[0]"),
        ("deputy/session/prompt", {"sessionId": UNKNOWN, "prompt": [{"type": "text"}]}, "prompt[0].text"),
        ("deputy/session/prompt", {"sessionId": UNKNOWN, "prompt": PROMPT, "queue": "yes"}, "queue"),
        ("deputy/session/new", {"permissionMode": "careless"}, "permissionMode"),
        ("deputy/session/new", {"cwd": "http://example.org/"}, "cwd"),
        ("deputy/session/new", {"cwd": "file:///no/such/folder"}, "cwd"),
        ("deputy/session/new", {"cwd": "file:///%00"}, "cwd"),
        ("deputy/session/new", {"cwd": ""}, "cwd"),
        ("deputy/session/list", {"limit": -1}, "limit"),
        ("deputy/session/list", {"cursor": "nowhere"}, "cursor"),
        ("deputy/agent/transcript", {"sessionId": UNKNOWN, "agentId": UNKNOWN, "limit": -1}, "limit"),
        ("deputy/agent/cancel", {"sessionId": UNKNOWN}, "agentId"),
        ("deputy/permission/answer", {"requestId": UNKNOWN, "outcome": {"outcome": "yes"}}, "outcome"),
        ("deputy/permission/answer", {"requestId": UNKNOWN, "outcome": {"outcome": "cancelled"}}, "requestId"),
        ("workspace/executeCommand", {}, "command"),
        ("workspace/executeCommand", {"command": "deputy.prompt"}, "arguments[0].text"),
        ("workspace/executeCommand", {"command": "deputy.prompt", "arguments": ["hello"]}, "arguments[0]"),
        ("workspace/executeCommand", {"command": "deputy.prompt", "arguments": {"text": "x"}}, "arguments"),
        ("workspace/executeCommand", {"command": "deputy.cancelAgent", "arguments": [{}]}, "arguments[0].agentId"),
    ],
)
async def test_invalid_parameters_are_rejected_with_the_name_of_the_field(
    client: RpcClient, method: str, params: object, field: str
) -> None:
    with pytest.raises(RpcFailure) as failure:
        await client.request(method, params)
    assert failure.value.code == -32602
    assert failure.value.data["field"].startswith(field)
    assert field in failure.value.message
    assert "/site-packages/" not in str(failure.value.data)


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("deputy/session/prompt", {"sessionId": UNKNOWN, "prompt": PROMPT}, -32001),
        ("deputy/session/cancel", {"sessionId": UNKNOWN}, -32001),
        ("deputy/session/load", {"sessionId": UNKNOWN}, -32001),
        ("deputy/session/unqueue", {"sessionId": UNKNOWN, "promptId": UNKNOWN}, -32001),
        ("deputy/agent/list", {"sessionId": ""}, -32001),
        ("deputy/permission/list", {"sessionId": UNKNOWN}, -32001),
    ],
)
async def test_an_unknown_session_has_its_own_error(client: RpcClient, method: str, params: object, code: int) -> None:
    with pytest.raises(RpcFailure) as failure:
        await client.request(method, params)
    assert failure.value.code == code


async def test_an_unknown_agent_has_its_own_error(client: RpcClient) -> None:
    session_id, _ = await client.session()
    for method in ("deputy/agent/cancel", "deputy/agent/transcript"):
        with pytest.raises(RpcFailure) as failure:
            await client.request(method, {"sessionId": session_id, "agentId": UNKNOWN})
        assert failure.value.code == -32008
    with pytest.raises(RpcFailure) as failure:
        await client.command("deputy.cancelAgent", {"agentId": UNKNOWN})
    assert failure.value.code == -32008


async def test_an_unknown_command_is_rejected(client: RpcClient) -> None:
    with pytest.raises(RpcFailure) as failure:
        await client.command("deputy.unknown")
    assert failure.value.code == -32601


async def test_responses_to_unknown_requests_are_ignored(client: RpcClient) -> None:
    client.send({"jsonrpc": "2.0", "id": "deputy-1", "result": {"late": True}})
    client.send({"jsonrpc": "2.0", "id": 999_999, "error": {"code": 1, "message": "what?"}})
    client.send({"jsonrpc": "2.0", "id": None, "error": "rubbish"})
    client.notify("$/cancelRequest", {"id": 999_999})
    client.notify("$/cancelRequest", {"id": []})
    client.notify("$/cancelRequest")
    client.notify("window/workDoneProgress/cancel", {"token": "deputy/nobody"})
    assert await client.request("deputy/session/list", {}) is not None


async def test_an_id_that_is_still_open_is_rejected_and_the_first_request_is_answered(client: RpcClient) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": "twice", "method": "deputy/session/new"}).encode()
    client.send_bytes(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) * 2)
    await client.until(lambda m: m.get("id") == "twice" and "result" in m)
    answers = [m for m in client.received if m.get("id") == "twice"]
    assert [answer.get("error", {}).get("code") for answer in answers] == [-32600, None]


async def test_keys_that_confuse_libraries_are_accepted(client: RpcClient) -> None:
    trouble = {
        "jsonrpc": "2.0",
        "id": 1,
        "type_name": "x",
        "class": {"jsonrpc": "1.0"},
        "a b": [],
        "": 0,
    }
    assert await client.request("deputy/session/list", {"jsonrpc": "2.0", "extra": trouble}) is not None


@pytest.mark.parametrize("values", [b"1," * 400_000, b'{"a":"b"},' * 200_000, b"[" * 400_000], ids=len)
async def test_a_message_with_too_many_values_is_rejected(client: RpcClient, values: bytes) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"deputy/session/list","params":{"x":[%b1]}}' % values
    await rejected(client, b"Content-Length: %d\r\n\r\n%b" % (len(body), body), -32700)


async def test_a_long_text_is_accepted_whatever_its_characters(client: RpcClient) -> None:
    assert await client.request("deputy/session/list", {"x": '[{"a": 1}, "\\", 2]\n' * 100_000}) is not None


async def test_a_text_that_exceeds_any_context_window_is_rejected(client: RpcClient) -> None:
    count = 8 * 2**20 + 1
    session_id, agent_id = await client.session()
    for method, params, field in (
        ("deputy/session/prompt", {"prompt": [{"type": "text", "text": "a" * count}]}, "prompt"),
        ("deputy/agent/message", {"agentId": agent_id, "text": "a" * count}, "text"),
        ("deputy/session/setModel", {"model": "a" * count}, "model"),
    ):
        with pytest.raises(RpcFailure) as failure:
            await client.request(method, {"sessionId": session_id, **params})
        assert (failure.value.code, failure.value.data["field"]) == (-32602, field)


async def test_lone_surrogates_become_replacement_characters(client: RpcClient) -> None:
    session_id, _ = await client.session(title="\ud800")
    answer = await client.prompt(session_id, "hello \ud83d there \U0001f600")
    assert answer["stopReason"] == "end_turn"
    said = await client.event("message", lambda e: e["sessionId"] == session_id and e["role"] == "user")
    assert said["text"] == "hello \ufffd there \U0001f600"
    assert await client.request("deputy/session/setModel", {"sessionId": session_id, "model": "m\udc00"}) == {}
    listed = await client.request("deputy/session/list", {})
    assert next(s["model"] for s in listed["sessions"] if s["sessionId"] == session_id) == "m\ufffd"


async def test_invalid_notifications_are_dropped(client: RpcClient) -> None:
    for params in (None, {}, {"textDocument": 3}, {"textDocument": {"uri": "file:///x", "version": 1}}):
        for method in ("didOpen", "didChange", "didClose"):
            client.notify(f"textDocument/{method}", params)
    client.notify("workspace/didChangeConfiguration", {"settings": 5})
    client.notify("workspace/didChangeWorkspaceFolders", {"event": None})
    assert await client.request("deputy/session/list", {}) is not None


async def test_uris_that_name_no_file_are_rejected_or_ignored(client: RpcClient, workspace: Path) -> None:
    (workspace / "loop").symlink_to("loop")
    odd = [
        (workspace / "loop").as_uri(),
        (workspace / "loop" / "x").as_uri(),
        "file:///a%00b",
        "file:///\ud800",
        "file://[x",
    ]
    session_id, _ = await client.session()
    for uri in odd:
        document = {"uri": uri, "languageId": "text", "version": 1, "text": "x"}
        client.notify("textDocument/didOpen", {"textDocument": document})
        notebook = {"uri": uri, "notebookType": "n", "version": 1, "cells": []}
        client.notify("notebookDocument/didOpen", {"notebookDocument": notebook, "cellTextDocuments": []})
        event = {"event": {"added": [{"uri": uri, "name": "odd"}], "removed": []}}
        client.notify("workspace/didChangeWorkspaceFolders", event)
        with pytest.raises(RpcFailure) as failure:
            await client.request("deputy/session/new", {"cwd": uri})
        assert failure.value.code == -32602
    assert (await client.prompt(session_id, "hello"))["stopReason"] == "end_turn"
    with pytest.raises(RpcFailure) as failure:
        await client.request("deputy/session/load", {"sessionId": "\ud800"})
    assert failure.value.code == -32001
    assert "Traceback" not in client.stderr


async def test_invalid_settings_change_nothing_and_the_user_is_notified(client: RpcClient) -> None:
    client.notify("workspace/didChangeConfiguration", {"settings": {"deputy": {"agents": {"maxParallel": -1}}}})
    shown = await client.until(lambda m: m.get("method") == "window/showMessage" and "maxParallel" in str(m))
    assert shown["params"]["type"] == 2


@pytest.mark.asyncio
async def test_before_initialize_and_after_shutdown_every_request_is_rejected(workspace: Path) -> None:
    async with serving() as client:
        for method in ("deputy/session/new", "shutdown", "unknown"):
            with pytest.raises(RpcFailure) as failure:
                await client.request(method, {})
            assert failure.value.code == -32002
        client.notify("initialized", {})
        await client.initialize(workspace)
        await client.request("shutdown")
        for method in ("deputy/session/new", "shutdown", "initialize"):
            with pytest.raises(RpcFailure) as failure:
                await client.request(method, {})
            assert failure.value.code == -32600
        client.notify("exit")
        assert await client.exit_code() == 0


@pytest.mark.parametrize(
    ("params", "field"),
    [
        (None, ""),
        ([], ""),
        ({}, "capabilities"),
        (
            {"capabilities": {}, "initializationOptions": {"permissionMode": "careless"}},
            "initializationOptions.permissionMode",
        ),
        ({"capabilities": {}, "initializationOptions": []}, "initializationOptions"),
    ],
)
@pytest.mark.asyncio
async def test_an_invalid_initialize_is_rejected_and_can_be_sent_again(
    workspace: Path, params: object, field: str
) -> None:
    async with serving() as client:
        with pytest.raises(RpcFailure) as failure:
            await client.request("initialize", params)
        assert failure.value.code == -32602
        assert field in failure.value.message
        await client.initialize(workspace)
        assert await client.shut_down() == 0


@pytest.mark.asyncio
async def test_invalid_capabilities_count_as_unsupported(workspace: Path) -> None:
    odd = {"window": 3, "workspace": [], "general": {"positionEncodings": [7, "utf-8"]}, "experimental": {"deputy": 1}}
    async with serving() as client:
        result = await client.initialize(workspace, odd, processId="me", workspaceFolders=[{}, 5], rootPath=7)
        assert result["capabilities"]["positionEncoding"] == "utf-8"
        await client.session()
        await asyncio.sleep(0)
        assert client.events() == []
        assert await client.shut_down() == 0
