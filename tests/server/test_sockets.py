"""Several clients on one server: over TCP and WebSocket, with a token, on the same sessions."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.support.messages_api import MessagesApi, Script, messages_api
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import EVERYTHING, PATIENCE, RpcClient, RpcFailure, Unanswered
from tests.support.shared_server import spawning
from tests.support.sockets import Server, listening, reset

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = {"ANTHROPIC_API_KEY": "test-key"}
ASK = "deputy/permission/request"
CARRIERS = ("--tcp", "--ws")


class Shared:
    """A server that uses a Messages API, shared by the tests of this module."""

    def __init__(self, server: Server, api: MessagesApi) -> None:
        self.server = server
        self.api = api

    def play(self, script: Script) -> MessagesApi:
        self.api.script = script
        self.api.requests.clear()
        return self.api

    @property
    def options(self) -> Json:
        return {"model": "m", "baseUrl": self.api.url, "permissions": {"reconnectGrace": PATIENCE}}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=CARRIERS)
async def shared(request: pytest.FixtureRequest) -> AsyncGenerator[Shared]:
    async with messages_api(lambda *_: say("hello")) as api, listening(request.param, "0", env=KEY) as server:
        yield Shared(server, api)
        assert api.violations == []


def approve(permission_request: Json) -> Json:
    return {"outcome": {"outcome": "selected", "optionId": permission_request["options"][0]["optionId"]}}


def writing(*paths: str) -> Script:
    """A primary agent that writes all ``paths`` in one reply."""

    def play(body: Json, _: int) -> Play:
        if len(body["messages"]) == 1:
            return calls(*(call("write_file", path=path, content=f"new {path}\n") for path in paths))
        return say("written")

    return play


@pytest.mark.requirement("P1")
async def test_a_turn_runs_as_over_standard_input(shared: Shared, workspace: Path) -> None:
    shared.play(spawning("look", child=lambda *_: say("seen")))
    async with shared.server.opened(workspace, options=shared.options) as client:
        session_id, _ = await client.session()
        assert (await client.prompt(session_id, "go"))["stopReason"] == "end_turn"
        assert client.events("agent_finished")[0]["result"] == "seen"
        assert {value["kind"] for value in client.progress()} == {"begin", "report", "end"}


@pytest.mark.requirement("X20")
async def test_two_clients_see_the_same_session_and_the_first_answer_wins(shared: Shared, workspace: Path) -> None:
    shared.play(writing("a.txt"))
    async with shared.server.opened(workspace, options=shared.options) as one, shared.server.opened(workspace) as two:
        two.handlers[ASK] = lambda _: Unanswered
        session_id, _ = await one.session()
        await two.request("deputy/session/load", {"sessionId": session_id})
        one.handlers[ASK] = lambda _: Unanswered
        turn = one.start_prompt(session_id, "go")
        asked = await two.until(lambda m: m.get("method") == ASK)
        other = await one.until(lambda m: m.get("method") == ASK)
        assert other["params"] == asked["params"]
        two.send({"jsonrpc": "2.0", "id": asked["id"], "result": approve(asked["params"])})
        withdrawn = await one.until(lambda m: m.get("method") == "$/cancelRequest")
        assert withdrawn["params"] == {"id": other["id"]}
        late = {"requestId": asked["params"]["requestId"], "outcome": approve(other["params"])["outcome"]}
        assert await one.request("deputy/permission/answer", late) == {"accepted": False}
        assert (await one.result(turn))["stopReason"] == "end_turn"
        await two.event("turn_finished")
        durable = [event["seq"] for event in one.events() if "seq" in event and event["seq"] > 1]
        assert [event["seq"] for event in two.events() if "seq" in event] == durable


async def test_a_client_receives_nothing_of_sessions_that_it_has_not_loaded(shared: Shared, workspace: Path) -> None:
    shared.play(lambda *_: say("secret"))
    async with shared.server.opened(workspace, options=shared.options) as one, shared.server.opened(workspace) as two:
        session_id, _ = await one.session()
        await one.prompt(session_id, "go")
        await two.request("deputy/metrics", {})
        assert two.events() == []
        assert two.progress() == []


async def test_each_client_is_served_by_its_own_capabilities(shared: Shared, workspace: Path) -> None:
    """One accepts events, the other is an editor without a plugin."""
    shared.play(writing("a.txt"))
    plain = {"window": {"workDoneProgress": True}}
    async with (
        shared.server.opened(workspace, options=shared.options) as one,
        shared.server.opened(workspace, plain) as two,
    ):
        one.handlers[ASK] = lambda _: Unanswered
        two.handlers["window/showMessageRequest"] = lambda _: {"title": "Approve"}
        session_id, _ = await one.session()
        await two.request("deputy/session/load", {"sessionId": session_id})
        await one.prompt(session_id, "go")
        assert (workspace / "a.txt").exists()
        assert two.events() == []
        assert [m["method"] for m in one.received if m.get("method") == "$/cancelRequest"] == ["$/cancelRequest"]


# -- disconnection -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leave", [lambda _client: None, reset], ids=["closed", "reset"])
async def test_a_turn_survives_its_client_and_can_be_loaded_again(
    shared: Shared, workspace: Path, leave: Callable[[RpcClient], None]
) -> None:
    gate = asyncio.Event()
    api = shared.play(lambda *_: say("here you are", gate=gate))
    async with shared.server.opened(workspace, options=shared.options) as client:
        session_id, _ = await client.session()
        client.start_prompt(session_id, "go")
        await api.until(lambda: len(api.requests) == 1)
        leave(client)
    async with shared.server.opened(workspace) as client:
        loaded = await client.request("deputy/session/load", {"sessionId": session_id})
        assert loaded["agents"][0]["status"] == "running"
        gate.set()
        assert (await client.event("turn_finished"))["stopReason"] == "end_turn"
        assert client.events("message")[-1]["text"] == "here you are"


async def test_a_permission_request_waits_for_a_client_to_reconnect(shared: Shared, workspace: Path) -> None:
    shared.play(writing("a.txt"))
    async with shared.server.opened(workspace, options=shared.options) as client:
        client.handlers[ASK] = lambda _: Unanswered
        session_id, _ = await client.session()
        client.start_prompt(session_id, "go")
        await client.until(lambda m: m.get("method") == ASK)
    async with shared.server.opened(workspace) as client:
        client.handlers[ASK] = approve
        loaded = await client.request("deputy/session/load", {"sessionId": session_id})
        assert [asked["title"] for asked in loaded["permissions"]] == ["write_file(a.txt)"]
        await client.event("turn_finished")
        assert (workspace / "a.txt").read_text() == "new a.txt\n"


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_a_turn_ends_when_no_client_reconnects_in_time(workspace: Path, carrier: str) -> None:
    gate = asyncio.Event()
    async with messages_api(lambda *_: say("never", gate=gate)) as api, listening(carrier, "0", env=KEY) as server:
        options = {"model": "m", "baseUrl": api.url, "permissions": {"reconnectGrace": 0.05}}
        async with server.opened(workspace, options=options) as client:
            session_id, _ = await client.session()
            client.start_prompt(session_id, "go")
            await api.until(lambda: len(api.requests) == 1)
        async with asyncio.timeout(PATIENCE):
            await api.until(lambda: not api.connections or all(r.left_early for r in api.requests))
        async with server.opened(workspace) as client:
            loaded = await client.request("deputy/session/load", {"sessionId": session_id})
            if loaded["agents"][0]["status"] != "idle":
                await client.event("agent_status", lambda event: event["status"] == "idle")
                loaded = await client.request("deputy/session/load", {"sessionId": session_id})
            assert loaded["lastTurn"]["interrupted"], "no user has stopped it"


async def test_exit_ends_the_connection_but_not_the_server(shared: Shared, workspace: Path) -> None:
    async with shared.server.opened(workspace, options=shared.options) as client:
        await client.request("shutdown")
        client.notify("exit")
        await client.at_end()
    async with shared.server.opened(workspace) as client:
        assert "sessions" in await client.request("deputy/session/list", {})


@pytest.mark.requirement("X12")
@pytest.mark.parametrize("carrier", CARRIERS)
async def test_a_signal_ends_the_server_and_answers_the_requests_of_all_clients(workspace: Path, carrier: str) -> None:
    gate = asyncio.Event()
    async with messages_api(lambda *_: say("never", gate=gate)) as api, listening(carrier, "0", env=KEY) as server:
        options = {"model": "m", "baseUrl": api.url}
        async with server.opened(workspace, options=options) as one, server.opened(workspace, options=options) as two:
            turns = []
            for client in (one, two):
                session_id, _ = await client.session()
                turns.append((client, client.start_prompt(session_id, "go")))
            await api.until(lambda: len(api.requests) == 2)
            server.end()
            for client, turn in turns:
                assert (await client.result(turn))["stopReason"] == "cancelled"


# -- the token ---------------------------------------------------------------------------------------------------------


async def test_a_client_without_the_token_is_rejected_over_tcp(workspace: Path) -> None:
    async with listening("--tcp", "0") as server:
        for given in (None, {}, {"token": ""}, {"token": "wrong"}, {"token": 1}, "x", []):
            async with server.client() as client:
                with pytest.raises(RpcFailure) as failure:
                    await client.initialize(workspace, initializationOptions=given)
                assert failure.value.code == -32007
                await client.at_end()
        async with server.opened(workspace) as client:
            assert (await client.request("deputy/session/list", {}))["sessions"] == []


async def test_a_client_without_the_token_is_rejected_over_websocket() -> None:
    async with listening("--ws", "0") as server:
        for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": server.where["token"]}):
            with pytest.raises(InvalidStatus, match="401"):
                await connect(f"ws://127.0.0.1:{server.port}", additional_headers=header, proxy=None)


async def test_the_scheme_of_the_token_is_not_case_sensitive() -> None:
    async with listening("--ws", "0") as server:
        header = {"Authorization": f"bearer {server.where['token']}"}
        async with connect(f"ws://127.0.0.1:{server.port}", additional_headers=header, proxy=None):
            pass


async def test_a_web_page_cannot_connect_even_with_the_token() -> None:
    async with listening("--ws", "0") as server:
        headers = {"Authorization": f"Bearer {server.where['token']}"}
        with pytest.raises(InvalidStatus, match="403"):
            await connect(
                f"ws://127.0.0.1:{server.port}", additional_headers=headers, origin="http://localhost", proxy=None
            )


async def test_large_messages_are_rejected_until_the_client_has_sent_the_token(workspace: Path) -> None:
    async with listening("--tcp", "0") as server, server.client() as client:
        client.send_bytes(b"Content-Length: 8000000\r\n\r\n" + b" " * 8_000_000)
        answer = await client.until(lambda m: "error" in m)
        assert answer["error"]["message"] == "The message is too large."


async def test_a_token_from_the_user_is_not_printed(workspace: Path, tmp_path: Path) -> None:
    token = "a-token-of-one's-own-0123456789"
    (tmp_path / "token").write_text(f"{token}\n")
    for arguments, env in ((["--token-file", str(tmp_path / "token")], {}), ([], {"DEPUTY_TOKEN": token})):
        async with listening("--tcp", "0", *arguments, env=env) as server:
            assert set(server.where) == {"transport", "host", "port"}
            async with server.opened(workspace, options={"token": token, "model": "offline"}) as client:
                assert (await client.request("deputy/session/list", {}))["sessions"] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--tcp", "0.0.0.0:0"), "is not this machine"),
        (("--ws", "example.com:80"), "is not this machine"),
        (("--tcp", "70000"), "port 70000 is not valid"),
        (("--tcp", "x"), "port x is not valid"),
        (("--tcp", "0", "--ws", "0"), "not allowed with"),
        (("--tcp", "0", "--token-file", "none"), "cannot be read"),
        (("--stdio", "--token-file", "none"), "--token-file requires --tcp or --ws"),
        (("--replay", "/no/such"), "--replay: /no/such cannot be read: No such file or directory\n"),
    ],
)
async def test_an_invalid_option_ends_the_server_with_an_error(arguments: tuple[str, ...], words: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "deputy_server", "serve", *arguments), stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(PATIENCE):
        _, errors = await process.communicate()
    assert process.returncode == 2
    assert words in errors.decode()


# -- documents ---------------------------------------------------------------------------------------------------------


class Editor:
    """A client's open document, to which the edits of the server are applied."""

    def __init__(self, client: RpcClient, path: Path, text: str) -> None:
        self.client = client
        self.uri = path.as_uri()
        self.text = text
        self.edits = 0
        self._version = 1
        client.handlers["workspace/applyEdit"] = self._apply
        item = {"uri": self.uri, "languageId": "text", "version": 1, "text": text}
        client.notify("textDocument/didOpen", {"textDocument": item})

    def _apply(self, params: Json) -> Json:
        (change,) = params["edit"]["documentChanges"]
        (edit,) = change["edits"]
        self.edits += 1
        self._version += 1
        changes = [{"range": edit["range"], "text": edit["newText"]}]
        identifier = {"uri": self.uri, "version": self._version}
        self.client.notify("textDocument/didChange", {"textDocument": identifier, "contentChanges": changes})
        return {"applied": True}


def editing(old: str, new: str) -> Script:
    """A primary agent that replaces ``old`` in ``a.txt``, and then replies with the result."""
    steps = [call("read_file", path="a.txt"), call("edit_file", path="a.txt", old_string=old, new_string=new)]

    def play(body: Json, _: int) -> Play:
        done = (len(body["messages"]) - 1) // 2
        if done < len(steps):
            return calls(steps[done] | {"id": f"toolu_step{done}"})
        return say(json.dumps(body["messages"][-1]["content"]))

    return play


async def test_an_edit_goes_to_the_client_that_prompts(shared: Shared, workspace: Path) -> None:
    (workspace / "a.txt").write_text("saved\n")
    shared.play(editing("of two", "changed"))
    async with shared.server.opened(workspace, options=shared.options) as one, shared.server.opened(workspace) as two:
        first = Editor(one, workspace / "a.txt", "saved\n")
        second = Editor(two, workspace / "a.txt", "saved\nunsaved of two\n")
        two.handlers[ASK] = approve
        session_id, _ = await one.session()
        await two.prompt(session_id, "go")
        assert (first.edits, second.edits) == (0, 1)


async def test_a_file_with_other_unsaved_changes_elsewhere_is_not_edited(shared: Shared, workspace: Path) -> None:
    (workspace / "a.txt").write_text("saved\n")
    shared.play(editing("of one", "changed"))
    async with shared.server.opened(workspace, options=shared.options) as one, shared.server.opened(workspace) as two:
        first = Editor(one, workspace / "a.txt", "saved\nunsaved of one\n")
        second = Editor(two, workspace / "a.txt", "saved\nunsaved of two\n")
        one.handlers[ASK] = approve
        session_id, _ = await one.session()
        await one.prompt(session_id, "go")
        assert (first.edits, second.edits) == (0, 0)
        assert "unsaved changes in another editor" in one.events("message")[-1]["text"]


async def test_a_file_that_only_another_client_has_open_is_read_and_edited_there(
    shared: Shared, workspace: Path
) -> None:
    (workspace / "a.txt").write_text("saved\n")
    shared.play(editing("of two", "changed"))
    async with shared.server.opened(workspace, options=shared.options) as one, shared.server.opened(workspace) as two:
        second = Editor(two, workspace / "a.txt", "saved\nunsaved of two\n")
        one.handlers[ASK] = approve
        session_id, _ = await one.session()
        await one.prompt(session_id, "go")
        assert second.edits == 1


async def test_a_client_without_settings_changes_those_of_no_other_client(shared: Shared, workspace: Path) -> None:
    shared.play(lambda *_: say("still m"))
    async with (
        shared.server.opened(workspace, options=shared.options) as one,
        shared.server.opened(workspace, EVERYTHING),
    ):
        session_id, _ = await one.session()
        assert (await one.prompt(session_id, "go"))["stopReason"] == "end_turn"
        assert shared.api.bodies[-1]["model"] == "m"
