"""Input requests over the wire: asked of clients that can show them, answered once, and only by the user."""

import copy
from pathlib import Path

import pytest

from tests.support.messages_api import Script
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.rpc import EVERYTHING, PLAIN, RpcFailure, Unanswered
from tests.support.shared_server import Deputies

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.requirement("Q5")]

ASK = "deputy/input/request"
MESSAGE = "window/showMessageRequest"
FORMS: Json = copy.deepcopy(EVERYTHING)
FORMS["experimental"]["deputy"]["input"] = True


def asking(**how: object) -> Script:
    """A primary agent that asks and repeats what it was told."""

    def play(body: Json, _: int) -> Play:
        if len(body["messages"]) == 1:
            return calls(call("ask_user", question="Which port?", **how))
        (result,) = body["messages"][-1]["content"]
        return say(f"told: {result['content']} ({bool(result.get('is_error'))})")

    return play


async def told(client: object, session_id: str) -> str:
    await client.prompt(session_id, "go")  # type: ignore[attr-defined]
    return client.events("message")[-1]["text"]  # type: ignore[attr-defined]


async def test_a_form_is_asked_and_answered_by_the_request(deputy: Deputies, workspace: Path) -> None:
    async with deputy(asking(), workspace, FORMS) as (client, _):
        asked: list[Json] = []
        client.handlers[ASK] = lambda request: (
            asked.append(request) or {"outcome": "accepted", "values": {"answer": "8080"}}
        )
        session_id, primary = await client.session()
        assert await told(client, session_id) == "told: 8080 (False)"
        (request,) = asked
        assert request | {"requestId": "", "toolCallId": ""} == {
            "requestId": "",
            "sessionId": session_id,
            "toolCallId": "",
            "agent": request["agent"],
            "title": "ask_user(Which port?)",
            "message": "Which port?",
            "fields": [{"name": "answer", "type": "string", "required": True}],
            "source": "agent",
        }
        assert request["agent"]["agentId"] == primary
        (opened,), (resolved,) = client.events("input_requested"), client.events("input_resolved")
        assert opened["requestId"] == resolved["requestId"] == request["requestId"]
        assert (resolved["outcome"], resolved["by"], "values" in resolved) == ("accepted", "user", False)


@pytest.mark.parametrize(
    ("answer", "by"),
    [
        ({"outcome": "declined"}, "user"),
        ({"outcome": "cancelled"}, "dismissed"),
        ({"outcome": "accepted"}, "dismissed"),
        ({"outcome": "accepted", "values": {"answer": 8080}}, "dismissed"),
        ({"outcome": "accepted", "values": "8080"}, "dismissed"),
        ({"outcome": "yes"}, "dismissed"),
        (None, "dismissed"),
        ([], "dismissed"),
    ],
    ids=str,
)
async def test_anything_else_is_no_answer(deputy: Deputies, workspace: Path, answer: object, by: str) -> None:
    async with deputy(asking(), workspace, FORMS) as (client, _):
        client.handlers[ASK] = lambda _: answer
        session_id, _ = await client.session()
        assert await told(client, session_id) == "told: Declined by the user. (True)"
        assert client.events("input_resolved")[0]["by"] == by


async def test_an_open_form_is_listed_loaded_asked_again_and_answered_by_any_client(
    deputy: Deputies, workspace: Path
) -> None:
    async with deputy(asking(options=["80", "8080"]), workspace, FORMS) as (client, _):
        client.handlers[ASK] = lambda _: Unanswered
        session_id, _ = await client.session()
        prompt = client.start_prompt(session_id, "go")
        first = await client.until(lambda m: m.get("method") == ASK)
        request_id = first["params"]["requestId"]
        listed = await client.request("deputy/permission/list", {})
        assert listed["requests"] == []
        assert [one["requestId"] for one in listed["inputs"]] == [request_id]

        client.forget()
        client.handlers[ASK] = lambda _: Unanswered
        loaded = await client.request("deputy/session/load", {"sessionId": session_id})  # a window that was reloaded
        assert [one["requestId"] for one in loaded["inputs"]] == [request_id]
        again = await client.until(lambda m: m.get("method") == ASK)
        assert again["params"] == first["params"]

        wrong = {"requestId": request_id, "outcome": "accepted", "values": {"answer": "81"}}
        with pytest.raises(RpcFailure, match=r"values\.answer: must be one of: 80, 8080") as failure:
            await client.request("deputy/input/answer", wrong)
        assert failure.value.code == -32602
        other = {"requestId": request_id, "outcome": {"outcome": "cancelled"}}
        with pytest.raises(RpcFailure, match="no permission request"):
            await client.request("deputy/permission/answer", other)
        right = {"requestId": request_id, "outcome": "accepted", "values": {"answer": "80"}}
        assert await client.request("deputy/input/answer", right) == {"accepted": True}
        assert (await client.result(prompt))["stopReason"] == "end_turn"
        assert await client.request("deputy/input/answer", right) == {"accepted": False}
        await client.until(lambda m: m.get("method") == "$/cancelRequest" and m["params"] == {"id": again["id"]})
        assert client.events("message")[-1]["text"] == "told: 80 (False)"


async def test_an_unknown_input_request_is_an_error(deputy: Deputies, workspace: Path) -> None:
    async with deputy(asking(), workspace, FORMS) as (client, _):
        with pytest.raises(RpcFailure, match="There is no input request nothing") as failure:
            await client.request("deputy/input/answer", {"requestId": "nothing", "outcome": "declined"})
        assert failure.value.code == -32602


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"title": "8080"}, "told: 8080 (False)"),
        ({"title": "Decline"}, "told: Declined by the user. (True)"),
        ({"title": "443"}, "told: Declined by the user. (True)"),
        (None, "told: Declined by the user. (True)"),
    ],
    ids=str,
)
async def test_one_choice_is_a_message_for_a_plain_client(
    deputy: Deputies, workspace: Path, chosen: object, expected: str
) -> None:
    async with deputy(asking(options=["80", "8080"]), workspace, PLAIN) as (client, _):
        shown: list[Json] = []
        client.handlers[MESSAGE] = lambda params: shown.append(params) or chosen
        session_id, primary = await client.session()
        await client.prompt(session_id, "go")
        entries = (await client.request("deputy/agent/transcript", {"sessionId": session_id, "agentId": primary}))[
            "entries"
        ]
        assert entries[-1]["text"] == expected
        (message,) = shown
        assert message["message"] == "ask_user(Which port?)\nWhich port?"
        assert [action["title"] for action in message["actions"]] == ["Decline", "80", "8080"]


@pytest.mark.parametrize("how", [{}, {"options": ["80", "443"], "multiple": True}], ids=str)
async def test_a_plain_client_cannot_answer_anything_else(deputy: Deputies, workspace: Path, how: Json) -> None:
    async with deputy(asking(**how), workspace, PLAIN) as (client, _):
        client.handlers[MESSAGE] = lambda _: {"title": "80"}
        session_id, primary = await client.session()
        await client.prompt(session_id, "go")
        params = {"sessionId": session_id, "agentId": primary}
        entries = (await client.request("deputy/agent/transcript", params))["entries"]
        assert entries[-1]["text"] == "told: No client can ask the user. (True)"
        assert not any(m.get("method") == MESSAGE for m in client.received)
