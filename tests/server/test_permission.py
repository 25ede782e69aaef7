"""Permission requests over the wire: attributed, answered once, and approved only explicitly."""

import asyncio
from pathlib import Path

import pytest

from tests.support.messages_api import Script, messages_api
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import PLAIN, RpcClient, RpcFailure, Unanswered, serving
from tests.support.shared_server import Deputies, is_child, spawning

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASK = "deputy/permission/request"
MESSAGE = "window/showMessageRequest"


def writing(*paths: str) -> Script:
    """A sub-agent that writes all ``paths`` in one response, then reports the results."""

    def play(body: Json, _: int) -> Play:
        if len(body["messages"]) == 1:
            return calls(*(call("write_file", path=path, content=f"new {path}\n") for path in paths))
        results = body["messages"][-1]["content"]
        return say("; ".join(str(result["content"]) for result in results))

    return spawning("write the files", child=play, mode="default")


def choose(kind: str) -> object:
    """A handler that selects the first option of ``kind``."""

    def answer(permission_request: Json) -> Json:
        option = next(option for option in permission_request["options"] if option["kind"] == kind)
        return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}

    return answer


@pytest.mark.requirement("P3")
@pytest.mark.requirement("A6")
async def test_a_permission_request_has_the_requesting_agent_and_a_preview(deputy: Deputies, workspace: Path) -> None:
    async with deputy(writing("a.txt"), workspace) as (client, _):
        asked: list[Json] = []
        client.handlers[ASK] = lambda permission_request: (
            asked.append(permission_request) or choose("allow_once")(permission_request)
        )  # type: ignore[operator]
        session_id, primary = await client.session()
        assert (await client.prompt(session_id, "go"))["stopReason"] == "end_turn"
        assert (workspace / "a.txt").read_text() == "new a.txt\n"
        (permission_request,) = asked
        assert permission_request["title"] == "[write the files] write_file(a.txt)"
        assert permission_request["preview"] == {
            "type": "diff",
            "uri": (workspace / "a.txt").as_uri(),
            "oldText": None,
            "newText": "new a.txt\n",
        }
        agent = permission_request["agent"]
        assert (agent["label"], agent["definition"], agent["depth"]) == ("write the files", "general", 1)
        assert [ancestor["agentId"] for ancestor in agent["ancestry"]] == [primary]
        assert permission_request["batch"] | {"id": ""} == {"id": "", "index": 0, "size": 1}
        assert client.events("permission_resolved")[0]["by"] == "user"


@pytest.mark.requirement("A5")
async def test_permission_requests_of_one_response_form_a_batch_and_are_answered_separately(
    deputy: Deputies, workspace: Path
) -> None:
    async with deputy(writing("a.txt", "b.txt"), workspace) as (client, _):
        kinds = {"a.txt": "allow_once", "b.txt": "reject_once"}
        client.handlers[ASK] = lambda permission_request: choose(kinds[permission_request["input"]["path"]])(
            permission_request
        )  # type: ignore[operator]
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        assert (workspace / "a.txt").exists()
        assert not (workspace / "b.txt").exists()
        batches = [m["params"]["batch"] for m in client.received if m.get("method") == ASK]
        assert [(batch["index"], batch["size"]) for batch in batches] == [(0, 2), (1, 2)]
        assert len({batch["id"] for batch in batches}) == 1


RUBBISH = [
    None,
    {},
    [],
    "yes",
    True,
    {"outcome": "selected"},
    {"outcome": {"outcome": "approved"}},
    {"outcome": {"outcome": "selected"}},
    {"outcome": {"outcome": "selected", "optionId": "no-such-option"}},
    {"outcome": {"outcome": "cancelled"}},
]


@pytest.mark.parametrize("answer", RUBBISH, ids=str)
async def test_only_an_explicit_selection_approves(deputy: Deputies, workspace: Path, answer: object) -> None:
    async with deputy(writing("a.txt"), workspace) as (client, _):
        client.handlers[ASK] = lambda _: answer
        session_id, _ = await client.session()
        assert (await client.prompt(session_id, "go"))["stopReason"] == "end_turn"
        assert not (workspace / "a.txt").exists()
        assert client.events("permission_resolved")[0]["by"] == "dismissed"


async def test_an_error_denies_and_a_client_without_the_method_is_unreachable(
    deputy: Deputies, workspace: Path
) -> None:
    async with deputy(writing("a.txt"), workspace) as (client, _):
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        assert client.events("permission_resolved")[0]["by"] == "unreachable"
        permission_request = next(m for m in client.received if m.get("method") == ASK)
        client.handlers[ASK] = lambda _: {"jsonrpc": "2.0", "id": permission_request["id"], "result": "late"}
        assert not (workspace / "a.txt").exists()
        assert await client.request("deputy/permission/list", {}) == {"requests": [], "inputs": []}


async def test_an_unanswered_permission_request_waits_and_is_withdrawn_with_its_turn(
    deputy: Deputies, workspace: Path
) -> None:
    async with deputy(writing("a.txt"), workspace) as (client, _):
        client.handlers[ASK] = lambda _: Unanswered
        session_id, _ = await client.session()
        prompt = client.start_prompt(session_id, "go")
        permission_request = await client.until(lambda m: m.get("method") == ASK)
        assert await client.request("deputy/session/cancel", {"sessionId": session_id}) == {"cancelled": True}
        assert (await client.result(prompt))["stopReason"] == "cancelled"
        withdrawn = await client.until(lambda m: m.get("method") == "$/cancelRequest")
        assert withdrawn["params"] == {"id": permission_request["id"]}
        choice = choose("allow_once")(permission_request["params"])  # type: ignore[operator]
        client.send({"jsonrpc": "2.0", "id": permission_request["id"], "result": choice})
        assert await client.request("deputy/permission/list", {}) == {"requests": [], "inputs": []}
        assert not (workspace / "a.txt").exists()


@pytest.mark.parametrize("way", ["request", "command"])
async def test_a_permission_request_can_be_answered_by_its_id_and_is_then_withdrawn(
    deputy: Deputies, workspace: Path, way: str
) -> None:
    async with deputy(writing("a.txt"), workspace) as (client, _):
        client.handlers[ASK] = lambda _: Unanswered
        session_id, _ = await client.session()
        prompt = client.start_prompt(session_id, "go")
        asked = await client.until(lambda m: m.get("method") == ASK)
        (permission_request,) = (await client.request("deputy/permission/list", {"sessionId": session_id}))["requests"]
        assert permission_request == asked["params"]

        async def answer(option_id: str) -> Json:
            if way == "command":
                argument = {"requestId": permission_request["requestId"], "optionId": option_id}
                return await client.command("deputy.answerPermission", argument)
            outcome = {"outcome": "selected", "optionId": option_id}
            params = {"requestId": permission_request["requestId"], "outcome": outcome}
            return await client.request("deputy/permission/answer", params)

        async def refuses_an_unknown_option() -> bool:
            with pytest.raises(RpcFailure) as failure:
                await answer("no-such-option")
            return failure.value.code == -32602

        assert await refuses_an_unknown_option()
        option_id = choose("allow_once")(permission_request)["outcome"]["optionId"]  # type: ignore[operator]
        assert await answer(option_id) == {"accepted": True}
        assert await answer(option_id) == {"accepted": False}
        assert await refuses_an_unknown_option()
        await client.until(lambda m: m.get("method") == "$/cancelRequest" and m["params"]["id"] == asked["id"])
        assert (await client.result(prompt))["stopReason"] == "end_turn"
        assert (workspace / "a.txt").exists()


@pytest.mark.requirement("X5")
async def test_permission_requests_of_one_agent_are_answered_together_from_the_inbox(
    deputy: Deputies, workspace: Path
) -> None:
    """Two background tasks each make two requests; those of one are answered together, the others one by one."""

    def play(body: Json, n: int) -> object:
        name = str(body["messages"][0]["content"]).split("write ")[-1][:3]
        if is_child(body):
            paths = (f"{name}1.txt", f"{name}2.txt")
            done = len(body["messages"]) > 1
            return say("done") if done else calls(*(call("write_file", path=path, content="x\n") for path in paths))
        if len(body["messages"]) > 1:
            return say("started")
        return calls(*(_task(f"write {name}") for name in ("one", "two")))

    async with deputy(play, workspace) as (client, _):  # type: ignore[arg-type]
        client.handlers[ASK] = lambda _: Unanswered
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        await client.until(lambda m: m.get("method") == ASK and "one2.txt" in m["params"]["title"])
        inbox = (await client.request("deputy/permission/list", {"sessionId": session_id}))["requests"]
        of_one = [request["requestId"] for request in inbox if request["agent"]["label"] == "write one"]
        assert [request["title"] for request in inbox if request["requestId"] in of_one] == [
            "[write one] write_file(one1.txt)",
            "[write one] write_file(one2.txt)",
        ]
        outcome = {"outcome": "selected", "optionId": "allow_once"}
        both = {"requestIds": of_one, "outcome": outcome}
        with pytest.raises(RpcFailure, match="a changed input can answer only one request"):
            await client.request("deputy/permission/answerMany", both | {"outcome": outcome | {"input": {}}})
        assert await client.request("deputy/permission/answerMany", both) == {"accepted": of_one}
        for title, kind in (("two1.txt", "reject_once"), ("two2.txt", "allow_once")):
            asked = await client.until(lambda m, t=title: m.get("method") == ASK and t in m["params"]["title"])
            answer = {"requestId": asked["params"]["requestId"], "outcome": outcome | {"optionId": kind}}
            assert await client.request("deputy/permission/answer", answer) == {"accepted": True}
        await client.event("agent_finished", lambda e: len(client.events("agent_finished")) == 2)
        withdrawn = [m["params"]["id"] for m in client.received if m.get("method") == "$/cancelRequest"]
        assert len(withdrawn) == 4
        written = [name for name in ("one1.txt", "one2.txt", "two1.txt", "two2.txt") if (workspace / name).exists()]
        assert written == ["one1.txt", "one2.txt", "two2.txt"]


def _task(prompt: str) -> Json:
    return call("task", description=prompt, prompt=prompt, subagent_type="general")


@pytest.mark.requirement("X3")
async def test_an_edit_changed_by_the_user_is_written_as_changed(deputy: Deputies, workspace: Path) -> None:
    (workspace / "a.txt").write_text("one\ntwo\nthree\n")
    async with deputy(replacing("a.txt", "two", "deux"), workspace) as (client, api):

        def change(permission_request: Json) -> Json:
            """The editor lets the user change the proposed text."""
            preview = permission_request["preview"]
            edited = {"old_string": preview["oldText"], "new_string": preview["newText"].replace("deux", "zwei")}
            outcome = {"outcome": "selected", "optionId": "allow_once", "input": permission_request["input"] | edited}
            return {"outcome": outcome}

        client.handlers[ASK] = change
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        assert (workspace / "a.txt").read_text() == "one\nzwei\nthree\n"
        result, told = [body["messages"][-1]["content"] for body in api.bodies if is_child(body)][-1]
        assert result.get("is_error") is not True
        assert "the user changed it, and it ran as changed" in told["text"]


# -- plain clients ---------------------------------------------------------------------------------------------------


async def test_a_plain_client_gets_permission_requests_as_messages_one_at_a_time_in_order(
    deputy: Deputies, workspace: Path
) -> None:
    async with deputy(writing("a.txt", "b.txt"), workspace, PLAIN) as (client, _):
        open_now = 0

        async def answer(permission_request: Json) -> Json:
            nonlocal open_now
            open_now += 1
            assert open_now == 1
            await client.request("deputy/session/list", {})
            open_now -= 1
            return {"title": "Approve"}

        client.handlers[MESSAGE] = answer
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        asked = [m["params"] for m in client.received if m.get("method") == MESSAGE]
        assert [permission_request["message"].splitlines()[0] for permission_request in asked] == [
            "[write the files] write_file(a.txt)",
            "[write the files] write_file(b.txt)",
        ]
        assert "+new a.txt" in asked[0]["message"]
        assert (workspace / "b.txt").read_text() == "new b.txt\n"


@pytest.mark.parametrize("answer", [None, {}, {"title": "Sure"}, "Allow", 7], ids=str)
async def test_a_closed_message_or_an_invalid_response_denies(
    deputy: Deputies, workspace: Path, answer: object
) -> None:
    async with deputy(writing("a.txt"), workspace, PLAIN) as (client, _):
        client.handlers[MESSAGE] = lambda _: answer
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        assert not (workspace / "a.txt").exists()


# -- a path outside, a client that leaves ------------------------------------------------------------------------------


async def test_a_path_outside_the_roots_is_rejected_without_a_permission_request(
    deputy: Deputies, workspace: Path
) -> None:
    outside = workspace.parent / "outside.txt"
    async with deputy(writing("../outside.txt"), workspace) as (client, _):
        session_id, primary = await client.session()
        await client.prompt(session_id, "go")
        assert not outside.exists()
        assert [m for m in client.received if m.get("method") == ASK] == []
        updates = [e for e in client.events("tool_call_update") if e["agentId"] != primary]
        assert updates[-1]["status"] == "failed"


async def test_a_client_that_disconnects_during_a_permission_request_leaves_nothing_behind(workspace: Path) -> None:
    async with messages_api(writing("a.txt")) as api, serving(env={"ANTHROPIC_API_KEY": "test-key"}) as client:
        await client.initialize(workspace, initializationOptions={"model": "m", "baseUrl": api.url})
        client.handlers[ASK] = lambda _: Unanswered
        session_id, _ = await client.session()
        client.start_prompt(session_id, "go")
        await client.until(lambda m: m.get("method") == ASK)
        client.close_input()
        assert await client.exit_code() == 0
        await api.until(lambda: not api.connections)
        assert not (workspace / "a.txt").exists()


# -- open documents --------------------------------------------------------------------------------------------------


def replacing(path: str, old: str, new: str) -> Script:
    """A sub-agent that reads ``path``, replaces ``old`` in it, then reports the last result."""
    steps = [call("read_file", path=path), call("edit_file", path=path, old_string=old, new_string=new)]

    def play(body: Json, _: int) -> Play:
        done = (len(body["messages"]) - 1) // 2
        if done < len(steps):
            return calls(steps[done] | {"id": f"toolu_step{done}"})
        return say(str(body["messages"][-1]["content"][0]["content"]))

    return spawning("fix it", child=play, mode="default")


async def edited(client: RpcClient, workspace: Path, answer: object) -> list[Json]:
    """Run an edit of an open, unsaved document; the resulting ``workspace/applyEdit`` requests."""
    uri = (workspace / "a.txt").as_uri()
    client.handlers[ASK] = choose("allow_once")  # type: ignore[assignment]
    client.handlers["workspace/applyEdit"] = answer  # type: ignore[assignment]
    document = {"uri": uri, "languageId": "text", "version": 4, "text": "one\r\ntwo \U0001f600 unsaved\r\n"}
    client.notify("textDocument/didOpen", {"textDocument": document})
    stale = {"textDocument": {"uri": uri, "version": 4}, "contentChanges": [{"text": "stale"}]}
    client.notify("textDocument/didChange", stale)
    session_id, _ = await client.session()
    await client.prompt(session_id, "go")
    return [m["params"] for m in client.received if m.get("method") == "workspace/applyEdit"]


@pytest.mark.requirement("A8")
async def test_an_edit_of_an_open_document_is_a_minimal_edit_in_the_editor(deputy: Deputies, workspace: Path) -> None:
    (workspace / "a.txt").write_text("on disk\n")
    async with deputy(replacing("a.txt", "unsaved", "fixed"), workspace) as (client, _):

        def apply(params: Json) -> Json:
            (change,) = params["edit"]["documentChanges"]
            identifier = change["textDocument"] | {"version": 5}
            changes = [{"range": edit["range"], "text": edit["newText"]} for edit in change["edits"]]
            client.notify("textDocument/didChange", {"textDocument": identifier, "contentChanges": changes})
            return {"applied": True}

        (params,) = await edited(client, workspace, apply)
        assert "fix it" in params["label"]
        (change,) = params["edit"]["documentChanges"]
        assert change["textDocument"] == {"uri": (workspace / "a.txt").as_uri(), "version": 4}
        (edit,) = change["edits"]
        assert edit["range"]["start"]["line"] == edit["range"]["end"]["line"] == 1
        assert edit["range"]["start"]["character"] >= 7
        assert (workspace / "a.txt").read_text() == "on disk\n"
        assert client.events("agent_finished")[0]["status"] == "completed"


@pytest.mark.parametrize(
    "answer",
    [{"applied": False, "failureReason": "it is locked"}, {"applied": True, "failedChange": 0}, None, {}, "yes"],
    ids=str,
)
async def test_an_edit_that_the_editor_rejects_is_an_error_result(
    deputy: Deputies, workspace: Path, answer: object
) -> None:
    (workspace / "a.txt").write_text("on disk\n")
    async with deputy(replacing("a.txt", "unsaved", "fixed"), workspace) as (client, api):
        await edited(client, workspace, lambda _: answer)
        results = [body["messages"][-1]["content"] for body in api.bodies if is_child(body)]
        assert results[-1][0]["is_error"] is True
        assert (workspace / "a.txt").read_text() == "on disk\n"


async def test_many_simultaneous_permission_requests_are_all_sent_and_resolved(
    deputy: Deputies, workspace: Path
) -> None:
    paths = [f"{n}.txt" for n in range(20)]
    async with deputy(writing(*paths), workspace) as (client, _):
        arrived = asyncio.Event()
        asked = 0

        async def answer(permission_request: Json) -> object:
            nonlocal asked
            asked += 1
            if asked == len(paths):
                arrived.set()
            await arrived.wait()
            return choose("allow_once")(permission_request)  # type: ignore[operator]

        client.handlers[ASK] = answer
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        assert all((workspace / path).exists() for path in paths)


@pytest.mark.parametrize("steps", [["load"], ["load", "load"], ["unload", "load"], ["unload", "load", "load"]])
@pytest.mark.parametrize("delegated", [False, True], ids=["primary", "sub-agent"])
async def test_loading_a_session_again_keeps_its_open_permission_request(
    deputy: Deputies, workspace: Path, steps: list[str], delegated: bool
) -> None:
    def direct(body: Json, _: int) -> Play:
        return say("done") if len(body["messages"]) > 1 else call_write()

    def call_write() -> Play:
        return calls(call("write_file", path="a.txt", content="new\n"))

    async with deputy(writing("a.txt") if delegated else direct, workspace) as (client, _):
        asked: list[Json] = []
        hold = Unanswered
        client.handlers[ASK] = lambda request: asked.append(request) or hold  # type: ignore[operator,func-returns-value]
        session_id, _ = await client.session()
        prompt = client.start_prompt(session_id, "go")
        await client.event("permission_requested")
        for step in steps:
            loaded = await client.request(f"deputy/session/{step}", {"sessionId": session_id})
        request_id = asked[0]["requestId"]
        assert [open_request["requestId"] for open_request in loaded["permissions"]] == [request_id]
        sent = 1 + steps.count("load")
        await client.until(lambda _: [m.get("method") for m in client.received].count(ASK) == sent)
        assert {request["requestId"] for request in asked} == {request_id}
        await client.until(lambda _: len(withdrawn_and_asked(client)) == 2 * sent - 1)
        order = withdrawn_and_asked(client)
        for earlier, cancelled in zip(order[::2], order[1::2], strict=False):
            assert earlier == cancelled, "a request is withdrawn before it is sent again"
        allowed = next(option["optionId"] for option in asked[0]["options"] if option["kind"] == "allow_once")
        outcome = {"outcome": "selected", "optionId": allowed}
        answered = await client.request("deputy/permission/answer", {"requestId": request_id, "outcome": outcome})
        assert answered["accepted"]
        assert (await client.result(prompt))["stopReason"] == "end_turn"
        assert (workspace / "a.txt").exists()
        assert [event["by"] for event in client.events("permission_resolved")][-1:] == ["user"]


def withdrawn_and_asked(client: RpcClient) -> list[str]:
    """The JSON-RPC ids of permission requests, and those that were withdrawn, in order."""
    ids = [m["id"] for m in client.received if m.get("method") == ASK]
    return [
        m["id"] if m["method"] == ASK else m["params"]["id"]
        for m in client.received
        if m.get("method") == ASK or (m.get("method") == "$/cancelRequest" and m["params"]["id"] in ids)
    ]
