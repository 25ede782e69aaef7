"""Sessions over the wire, with a scripted Messages API behind the server."""

import asyncio
from base64 import b64encode
from pathlib import Path

import pytest

from deputy_protocol.event import EventParams
from tests.support.images import broken_png, png
from tests.support.model_replies import Json, Play, call, calls, failing, say
from tests.support.rpc import PLAIN, RpcClient, RpcFailure, Unanswered, serving
from tests.support.shared_server import Deputies, hanging, is_quiet, last_text, spawning

pytestmark = pytest.mark.asyncio(loop_scope="module")


# -- order -----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("A2")
async def test_events_follow_the_response_with_their_session_and_precede_that_of_the_prompt(
    deputy: Deputies,
    workspace: Path,
) -> None:
    async with deputy(spawning("look here", "look there", child=lambda *_: say("found")), workspace) as (client, _):
        opening = client.start("deputy/session/new", {})
        session_id, agent_id = (await client.result(opening)).values()
        prompt = client.start_prompt(session_id, "go", workDoneToken="mine")
        assert (await client.result(prompt))["stopReason"] == "end_turn"
        order = [m.get("id") if "method" not in m else m["method"] for m in client.received]
        assert order.index("deputy/event") > order.index(opening)
        assert order[-1] == prompt

        durable = [event for event in client.events() if "seq" in event]
        assert [event["seq"] for event in durable] == list(range(1, len(durable) + 1))
        for event in client.events():
            EventParams.model_validate(event)
            assert event["sessionId"] == session_id
        assert durable[0]["type"] == "agent_started"
        assert durable[0]["agentId"] == agent_id
        assert {"turn_started", "turn_finished", "message", "tool_call"} <= {event["type"] for event in durable}


@pytest.mark.requirement("P2")
async def test_every_sub_agent_streams_events_and_has_its_own_progress(deputy: Deputies, workspace: Path) -> None:
    (workspace / "a.txt").write_text("hello\n")

    def child(body: Json, _: int) -> Play:
        return say("found it") if len(body["messages"]) > 1 else calls(call("read_file", path="a.txt"))

    async with deputy(spawning("look here", "look there", child=child), workspace) as (client, _):
        session_id, primary = await client.session()
        await client.prompt(session_id, "go", workDoneToken=7)
        started = [event["agent"] for event in client.events("agent_started") if event["agentId"] != primary]
        assert [node["label"] for node in started] == ["look here", "look there"]
        for node in started:
            values = client.progress(f"deputy/{node['agentId']}")
            assert values[0].pop("message")
            assert values[0] == {"kind": "begin", "title": f"general: {node['label']}", "cancellable": True}
            assert values[-1] == {"kind": "end", "message": "completed"}
            assert [value["kind"] for value in values[1:-1]] == ["report"] * (len(values) - 2)
            own = [event["type"] for event in client.events() if event.get("agentId") == node["agentId"]]
            assert own[0] == "agent_started"
            assert own[-1] == "agent_finished"
            assert {"message", "tool_call", "tool_call_update"} <= set(own)
        assert [client.progress(7)[index]["kind"] for index in (0, -1)] == ["begin", "end"]


async def test_the_progress_title_of_a_turn_is_its_prompt(deputy: Deputies, workspace: Path) -> None:
    async with deputy(lambda _body, _n: say("done"), workspace) as (client, _):
        session_id, _ = await client.session()
        for words in ("look around", "and now\nelsewhere"):
            await client.prompt(session_id, words, workDoneToken=words)
        titles = [value["title"] for value in client.progress() if value["kind"] == "begin"]
        assert titles == ["Deputy: look around", "Deputy: and now elsewhere"]


async def test_a_client_without_events_gets_none(deputy: Deputies, workspace: Path) -> None:
    async with deputy(spawning("look", child=lambda *_: say("found")), workspace, PLAIN) as (client, _):
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        assert client.events() == []
        assert client.progress()


async def test_progress_shows_waiting_until_every_permission_request_is_resolved(
    deputy: Deputies, workspace: Path
) -> None:
    steps = (call("write_file", path="a.txt", content="a"), call("write_file", path="b.txt", content="b"))

    def play(body: Json, _: int) -> Play:
        return calls(*steps) if len(body["messages"]) == 1 else say("Both are written.")

    async with deputy(play, workspace) as (client, _):
        client.handlers["deputy/permission/request"] = lambda asked: {
            "outcome": {"outcome": "selected", "optionId": asked["options"][0]["optionId"]}
        }
        session_id, _ = await client.session()
        await client.prompt(session_id, "go", workDoneToken="turn")
        said = [value.get("message", "") for value in client.progress("turn")]
        assert said.count("waiting for you") == 1, said  # until both are resolved
        after = said[said.index("waiting for you") + 1 :]
        assert any(text.startswith("write_file") for text in after), said


async def test_a_client_without_progress_gets_none(deputy: Deputies, workspace: Path) -> None:
    async with deputy(spawning("look", child=lambda *_: say("found")), workspace, {}) as (client, _):
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        assert [m for m in client.received if m.get("method") in ("window/workDoneProgress/create", "$/progress")] == []


@pytest.mark.parametrize("answer", [{"jsonrpc": "2.0", "id": "other"}, Unanswered])
async def test_a_client_that_ignores_a_progress_token_delays_nothing_for_long(
    deputy: Deputies, workspace: Path, answer: object
) -> None:
    async with deputy(lambda *_: say("hello"), workspace) as (client, _):
        client.handlers["window/workDoneProgress/create"] = lambda _: answer
        session_id, _ = await client.session()
        assert (await client.prompt(session_id, "go"))["stopReason"] == "end_turn"
        assert client.progress() == []


# -- prompts ---------------------------------------------------------------------------------------------------------


async def test_a_prompt_during_a_turn_is_rejected_or_queued_and_can_be_withdrawn(
    deputy: Deputies, workspace: Path
) -> None:
    gate = asyncio.Event()
    async with deputy(hanging(gate), workspace) as (client, api):
        session_id, _ = await client.session()
        first = client.start_prompt(session_id, "one")
        await api.until(lambda: len(api.requests) == 1)
        with pytest.raises(RpcFailure) as failure:
            await client.prompt(session_id, "two")
        assert failure.value.code == -32003

        second = client.start_prompt(session_id, "two", queue=True)
        queued = await client.event("prompt_queue", lambda e: len(e["entries"]) == 1)
        third = client.start_prompt(session_id, "three", queue=True)
        queued = await client.event("prompt_queue", lambda e: len(e["entries"]) == 2)
        assert [entry["text"] for entry in queued["entries"]] == ["two", "three"]
        taken = {"sessionId": session_id, "promptId": queued["entries"][0]["promptId"]}
        assert await client.request("deputy/session/unqueue", taken) == {"removed": True}
        assert await client.request("deputy/session/unqueue", taken) == {"removed": False}
        assert (await client.result(second))["stopReason"] == "cancelled"
        gate.set()
        assert (await client.result(first))["stopReason"] == "end_turn"
        assert (await client.result(third))["stopReason"] == "end_turn"


async def cancel_by_request(client: RpcClient, session_id: str, agent_id: str, prompt: int) -> None:
    client.notify("$/cancelRequest", {"id": prompt})


async def cancel_by_token(client: RpcClient, session_id: str, agent_id: str, prompt: int) -> None:
    client.notify("window/workDoneProgress/cancel", {"token": "turn"})


async def cancel_session(client: RpcClient, session_id: str, agent_id: str, prompt: int) -> None:
    assert await client.request("deputy/session/cancel", {"sessionId": session_id}) == {"cancelled": True}


async def cancel_session_by_command(client: RpcClient, session_id: str, agent_id: str, prompt: int) -> None:
    assert await client.command("deputy.cancelSession", {"sessionId": session_id}) == {"cancelled": True}


async def cancel_primary(client: RpcClient, session_id: str, agent_id: str, prompt: int) -> None:
    params = {"sessionId": session_id, "agentId": agent_id}
    assert await client.request("deputy/agent/cancel", params) == {"cancelled": True}


@pytest.mark.parametrize(
    "cancel", [cancel_by_request, cancel_by_token, cancel_session, cancel_session_by_command, cancel_primary]
)
async def test_every_way_to_cancel_answers_the_prompt_as_cancelled(
    deputy: Deputies, workspace: Path, cancel: object
) -> None:
    assert callable(cancel)
    gate = asyncio.Event()
    script = spawning("look", child=hanging(gate))
    async with deputy(script, workspace) as (client, api):
        session_id, agent_id = await client.session()
        prompt = client.start_prompt(session_id, "go", workDoneToken="turn")
        await api.until(lambda: len(api.requests) == 2)
        await client.until(lambda m: m.get("method") == "$/progress" and m["params"]["token"] == "turn")
        await cancel(client, session_id, agent_id, prompt)
        result = await client.result(prompt)
        assert result["stopReason"] == "cancelled"
        assert result["usage"]["inputTokens"] >= 0
        assert [event["status"] for event in client.events("agent_finished")] == ["cancelled"]
        assert client.events("turn_finished")[-1]["stopReason"] == "cancelled"
        await api.until(lambda: is_quiet(api))
        assert await client.request("deputy/session/cancel", {"sessionId": session_id}) == {"cancelled": False}
        gate.set()
        assert (await client.prompt(session_id, "and now?"))["stopReason"] == "end_turn"


async def test_a_model_failure_is_an_error_with_an_action(deputy: Deputies, workspace: Path) -> None:
    refusal = failing(401, "authentication_error", "invalid x-api-key")
    async with deputy(lambda *_: refusal, workspace) as (client, _):
        session_id, _ = await client.session()
        with pytest.raises(RpcFailure) as failure:
            await client.prompt(session_id, "go")
        assert failure.value.code == -32006
        assert failure.value.data["kind"] == "authentication"
        assert failure.value.data["retryable"] is False
        assert failure.value.data["action"]
        assert "test-key" not in str(failure.value) + client.stderr


# -- cancel of one child ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("P4")
@pytest.mark.parametrize("way", ["method", "command", "progress"])
async def test_each_way_to_cancel_a_sub_agent_ends_only_that_agent(deputy: Deputies, workspace: Path, way: str) -> None:
    gate = asyncio.Event()
    async with deputy(spawning("look here", "look there", child=hanging(gate)), workspace) as (client, api):
        session_id, primary = await client.session()
        prompt = client.start_prompt(session_id, "go")
        await api.until(lambda: len(api.requests) == 3)
        child = (await client.event("agent_started", lambda e: e["agent"]["label"] == "look here"))["agentId"]
        token = f"deputy/{child}"
        await client.until(lambda m: m.get("method") == "$/progress" and m["params"]["token"] == token)
        params = {"sessionId": session_id, "agentId": child}
        match way:
            case "method":
                assert await client.request("deputy/agent/cancel", params) == {"cancelled": True}
            case "command":
                assert await client.command("deputy.cancelAgent", {"agentId": child}) == {"cancelled": True}
            case _:
                client.notify("window/workDoneProgress/cancel", {"token": token})
        finished = await client.event("agent_finished")
        assert (finished["agentId"], finished["status"]) == (child, "cancelled")
        assert (await client.request("deputy/agent/cancel", params)) == {"cancelled": False}
        assert client.progress(token)[-1] == {"kind": "end", "message": "cancelled"}
        gate.set()
        assert (await client.result(prompt))["stopReason"] == "end_turn"
        nodes = (await client.request("deputy/agent/list", {"sessionId": session_id}))["agents"]
        assert {node["label"]: node["status"] for node in nodes if node["agentId"] != primary} == {
            "look here": "cancelled",
            "look there": "completed",
        }


# -- lists -----------------------------------------------------------------------------------------------------------


async def test_a_reloaded_session_has_its_past_and_gets_later_events(deputy: Deputies, workspace: Path) -> None:
    async with deputy(spawning("look", child=lambda *_: say("found")), workspace) as (client, _):
        session_id, agent_id = await client.session(title="my session")
        await client.prompt(session_id, "go")
        assert await client.request("deputy/session/unload", {"sessionId": session_id}) == {}
        seen = len(client.received)
        load = client.start("deputy/session/load", {"sessionId": session_id})
        loaded = await client.result(load)
        assert loaded["session"]["title"] == "my session"
        assert [node["depth"] for node in loaded["agents"]] == [0, 1]
        assert [entry["type"] for entry in loaded["transcript"]] == ["message", "tool_call", "agent", "message"]
        assert loaded["permissions"] == []
        parts = {"sessionId": session_id, "agentId": agent_id, "limit": 2}
        page = await client.request("deputy/agent/transcript", parts)
        assert page["entries"] == loaded["transcript"][:2]
        rest = await client.request("deputy/agent/transcript", parts | {"after": page["entries"][-1]["seq"]})
        assert rest["entries"] == loaded["transcript"][2:]

        await client.prompt(session_id, "again")
        after = [m["params"] for m in client.received[seen:] if m.get("method") == "deputy/event"]
        assert next(event["seq"] for event in after if "seq" in event) == loaded["lastSeq"] + 1


async def test_progress_ends_after_its_session_was_reloaded(deputy: Deputies, workspace: Path) -> None:
    gate = asyncio.Event()
    async with deputy(hanging(gate), workspace) as (client, _):
        session_id, _ = await client.session()
        prompt = client.start_prompt(session_id, "go", workDoneToken="mine")
        await client.until(lambda m: m.get("method") == "$/progress")
        await client.request("deputy/session/load", {"sessionId": session_id})
        gate.set()
        assert (await client.result(prompt))["stopReason"] == "end_turn"
        assert [value["kind"] for value in client.progress("mine")][-1] == "end"


async def test_sessions_are_listed_newest_first_in_pages(deputy: Deputies, workspace: Path) -> None:
    other = workspace / "below"
    other.mkdir()
    async with deputy(spawning("look", child=lambda *_: say("found")), workspace) as (client, _):
        first, _ = await client.session(title="first")
        await client.prompt(first, "go")
        second, _ = await client.session(cwd=other.as_uri())
        page = await client.request("deputy/session/list", {"limit": 1})
        assert [info["sessionId"] for info in page["sessions"]] == [second]
        rest = await client.request("deputy/session/list", {"cursor": page["nextCursor"]})
        assert rest["sessions"][0]["sessionId"] == first
        assert "nextCursor" not in rest
        here = await client.request("deputy/session/list", {"cwd": workspace.as_uri(), "includeChildren": True})
        parents = [info.get("parentSessionId") for info in here["sessions"]]
        assert parents == [None, first]
        assert here["sessions"][1]["title"] == "look"


# -- a client without any plugin -------------------------------------------------------------------------------------


async def test_a_client_can_work_with_commands_only(deputy: Deputies, workspace: Path) -> None:
    gate = asyncio.Event()
    async with deputy(spawning("look", child=hanging(gate)), workspace, PLAIN) as (client, api):
        opened = await client.command("deputy.prompt", {"text": "go", "uri": (workspace / "a.py").as_uri()})
        await api.until(lambda: len(api.requests) == 2)
        assert "a.py" in last_text(api.bodies[0])
        agents = (await client.command("deputy.listAgents", {"sessionId": opened["sessionId"]}))["agents"]
        assert agents == (await client.command("deputy.listAgents"))["agents"][-len(agents) :]
        assert [node["label"] for node in agents][1] == "look"
        with pytest.raises(RpcFailure) as failure:
            await client.command("deputy.prompt", {"text": "again"})
        assert failure.value.code == -32003
        assert await client.command("deputy.cancelAgent", {"agentId": agents[1]["agentId"]}) == {"cancelled": True}
        told = await client.until(lambda m: m.get("method") == "window/showMessage")
        assert told["params"]["message"].startswith("done\n\nFull transcript: ")
        assert await client.command("deputy.newSession") != opened


async def test_without_a_key_the_offline_model_answers_and_a_notice_appears_once(workspace: Path) -> None:
    async with serving() as client:
        await client.initialize(workspace)
        await client.session()
        await client.session()
        told = [m["params"]["message"] for m in client.received if m.get("method") == "window/showMessage"]
        assert len(told) == 1
        assert "ANTHROPIC_API_KEY" in told[0]
        assert await client.shut_down() == 0


async def test_a_missing_key_is_reported_with_the_setting(workspace: Path) -> None:
    async with serving() as client:
        await client.initialize(workspace, initializationOptions={"model": "some-model"})
        session_id, _ = await client.session()
        with pytest.raises(RpcFailure) as failure:
            await client.prompt(session_id, "hello")
        assert failure.value.code == -32004
        assert "ANTHROPIC_API_KEY" in str(failure.value)
        assert await client.shut_down() == 0


async def test_a_list_with_children_is_paged_by_its_rows(deputy: Deputies, workspace: Path) -> None:
    async with deputy(spawning("one", "two", "three", child=lambda *_: say("found")), workspace) as (client, _):
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        rows: list[str] = []
        cursor: Json = {}
        while True:
            page = await client.request("deputy/session/list", {"includeChildren": True, "limit": 2, **cursor})
            assert len(page["sessions"]) <= 2
            rows += [info["sessionId"] for info in page["sessions"]]
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert len(rows) == len(set(rows))
        assert len([info for info in rows if info == session_id]) == 1
        assert len(rows) >= 4


async def test_an_invalid_image_is_rejected_and_the_session_continues(deputy: Deputies, workspace: Path) -> None:
    async with deputy(lambda *_: say("seen"), workspace) as (client, api):
        session_id, _ = await client.session()
        for picture, field in (
            ({"mimeType": "image/png", "data": "!!!"}, "prompt[0].data"),
            ({"mimeType": "text/html", "data": "aGk="}, "prompt[0].mimeType"),
            ({"mimeType": "image/png", "data": "aGk="}, "prompt[0].data: not a PNG, JPEG, GIF or WebP image"),
            ({"mimeType": "image/png", "data": based(png()[:-9])}, "prompt[0].data: The image is damaged"),
        ):
            prompt = [{"type": "image", **picture}]
            with pytest.raises(RpcFailure) as failure:
                await client.request("deputy/session/prompt", {"sessionId": session_id, "prompt": prompt})
            assert failure.value.code == -32602
            assert field in str(failure.value)
        assert api.requests == []


def based(data: bytes) -> str:
    return b64encode(data).decode()


@pytest.mark.requirement("D12")
async def test_the_model_gets_images_of_prompts_and_of_sub_agents(deputy: Deputies, workspace: Path) -> None:
    drawn, saved = based(png(3, 3)), based(png(4, 4))
    (workspace / "shot.png").write_bytes(png(4, 4))

    def look(body: Json, _: int) -> Play:
        return say("I saw it.") if len(body["messages"]) > 1 else calls(call("read_file", path="shot.png"))

    async with deputy(spawning("look at shot.png", child=look), workspace) as (client, api):
        session_id, _ = await client.session()
        prompt = [
            {"type": "image", "mimeType": "image/jpeg", "data": drawn},
            {"type": "text", "text": "Compare this with shot.png."},
        ]
        await client.request("deputy/session/prompt", {"sessionId": session_id, "prompt": prompt})
        first = api.bodies[0]["messages"][0]["content"]
        assert first[0]["source"] == {"type": "base64", "media_type": "image/png", "data": drawn}
        (answer,) = next(body for body in api.bodies if len(body["messages"]) > 1)["messages"][-1]["content"]
        text, picture = answer["content"]
        assert text["text"] == "shot.png: PNG image, 4 x 4 pixels"
        assert picture["source"]["data"] == saved
        assert all(saved not in str(event) for event in client.events())
        asked = next(event for event in client.events() if event["type"] == "message")
        assert (asked["text"], asked["pictures"]) == ("Compare this with shot.png.", 1)


async def test_a_prompt_with_only_images_is_a_message(deputy: Deputies, workspace: Path) -> None:
    async with deputy(lambda *_: say("I saw them."), workspace) as (client, _):
        session_id, agent_id = await client.session()
        pictures = [{"type": "image", "mimeType": "image/png", "data": based(png(side, side))} for side in (2, 3)]
        await client.request("deputy/session/prompt", {"sessionId": session_id, "prompt": pictures})
        answer = await client.request("deputy/agent/transcript", {"sessionId": session_id, "agentId": agent_id})
        asked = answer["entries"][0]
        assert (asked["role"], asked["text"], asked["pictures"]) == ("user", "", 2)


async def test_a_damaged_image_of_a_prompt_is_replaced_by_a_text_that_the_user_sees(
    deputy: Deputies, workspace: Path
) -> None:
    async with deputy(lambda *_: say("I see."), workspace) as (client, api):
        session_id, _ = await client.session()
        prompt = [
            {"type": "text", "text": "Compare these."},
            {"type": "image", "mimeType": "image/png", "data": based(broken_png())},
            {"type": "image", "mimeType": "image/png", "data": based(png(3000, 20))},
        ]
        ended = await client.request("deputy/session/prompt", {"sessionId": session_id, "prompt": prompt})
        assert ended["stopReason"] == "end_turn"
        text, left_out, image, _ = api.bodies[-1]["messages"][0]["content"]
        assert text["text"] == "Compare these."
        assert left_out["text"] == "[An image of this prompt is left out: The image is damaged or incomplete.]"
        assert image["source"]["data"] != based(png(3000, 20))
        asked = next(event for event in client.events() if event["type"] == "message")
        assert (asked["text"], asked["pictures"]) == (f"Compare these.\n{left_out['text']}", 1)


async def test_prompts_are_accepted_in_their_order_while_images_are_decoded(deputy: Deputies, workspace: Path) -> None:
    async with deputy(lambda *_: say("I see."), workspace) as (client, api):
        session_id, _ = await client.session()
        image = {"type": "image", "mimeType": "image/png", "data": based(png(4000, 4000))}
        texts = [{"type": "text", "text": text} for text in ("first", "second")]
        sent = [
            client.start("deputy/session/prompt", {"sessionId": session_id, "prompt": prompt, "queue": True})
            for prompt in ([texts[0], image], [texts[1]])
        ]
        for one in sent:
            await client.result(one)
        assert [body["messages"][-1]["content"][0]["text"] for body in api.bodies] == ["first", "second"]


@pytest.mark.requirement("X1")
async def test_a_search_finds_unsaved_text(deputy: Deputies, workspace: Path) -> None:
    (workspace / "a.txt").write_text("needle on disk\n")

    def play(body: Json, _: int) -> Play:
        if len(body["messages"]) == 1:
            return calls(call("grep", pattern="needle"))
        return say(str(body["messages"][-1]["content"][0]["content"]))

    async with deputy(play, workspace) as (client, _):
        document = {"uri": (workspace / "a.txt").as_uri(), "languageId": "text", "version": 1}
        client.notify("textDocument/didOpen", {"textDocument": document | {"text": "\nunsaved needle\n"}})
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        said = [event["text"] for event in client.events("message") if event["role"] == "assistant"]
        assert said == ["a.txt:2:unsaved needle"]
