"""``ask_user`` in a client of the Agent Client Protocol: as a form, or as a permission request for one choice."""

from pathlib import Path

import pytest

from tests.support.acp import ASK, SUBAGENTS, Speakers
from tests.support.messages_api import Script
from tests.support.model_replies import Json, Play, call, calls, say
from tests.support.shared_server import spawning

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.requirement("Q5")]

FORMS: Json = {"elicitation": {"form": {}}}
OPTIONS = ["80", "8080"]


def asking(**how: object) -> Script:
    def play(body: Json, _: int) -> Play:
        if len(body["messages"]) == 1:
            return calls(call("ask_user", question="Which port?", **how))
        (result,) = body["messages"][-1]["content"]
        return say(f"told: {result['content']}")

    return play


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"action": "accept", "content": {"answer": "8080"}}, "8080"),
        ({"action": "accept", "content": {"answer": "81"}}, "Declined by the user."),
        ({"action": "accept"}, "Declined by the user."),
        ({"action": "decline"}, "Declined by the user."),
        ({"action": "cancel"}, "Declined by the user."),
        (None, "Declined by the user."),
    ],
    ids=str,
)
async def test_a_client_with_forms_gets_the_protocols_own(
    acp: Speakers, workspace: Path, answer: object, told: str
) -> None:
    async with acp(asking(options=OPTIONS), workspace, FORMS) as (client, _, session_id):
        asked: list[Json] = []
        client.handlers["elicitation/create"] = lambda params: asked.append(params) or answer
        await client.say(session_id, "go")
        assert client.text(session_id) == f"told: {told}"
        (request,) = asked
        assert request | {"toolCallId": ""} == {
            "sessionId": session_id,
            "toolCallId": "",
            "mode": "form",
            "message": "ask_user(Which port?)\n\nWhich port?",
            "requestedSchema": {
                "type": "object",
                "properties": {
                    "answer": {
                        "type": "string",
                        "oneOf": [{"const": "80", "title": "80"}, {"const": "8080", "title": "8080"}],
                    }
                },
                "required": ["answer"],
            },
        }


@pytest.mark.parametrize(
    ("chosen", "told"), [("1", "8080"), ("decline", "Declined by the user."), ("7", "Declined by the user.")]
)
async def test_a_client_without_forms_chooses_by_a_permission_request(
    acp: Speakers, workspace: Path, chosen: str, told: str
) -> None:
    async with acp(asking(options=OPTIONS), workspace) as (client, _, session_id):
        asked: list[Json] = []
        outcome = {"outcome": {"outcome": "selected", "optionId": chosen}}
        client.handlers[ASK] = lambda params: asked.append(params) or outcome
        await client.say(session_id, "go")
        assert client.text(session_id) == f"told: {told}"
        (request,) = asked
        assert [option["name"] for option in request["options"]] == ["80", "8080", "Decline"]
        assert request["toolCall"]["title"] == "Which port?"


async def test_a_text_needs_a_client_with_forms(acp: Speakers, workspace: Path) -> None:
    async with acp(asking(), workspace) as (client, _, session_id):
        client.handlers[ASK] = lambda _: {"outcome": {"outcome": "selected", "optionId": "0"}}
        await client.say(session_id, "go")
        assert client.text(session_id) == "told: No client can ask the user."


async def test_a_question_of_a_sub_agent_is_asked_in_its_session(acp: Speakers, workspace: Path) -> None:
    script = spawning("find the port", child=asking(options=OPTIONS))
    async with acp(script, workspace, {**SUBAGENTS, **FORMS}) as (client, _, session_id):
        asked: list[Json] = []
        answer = {"action": "accept", "content": {"answer": "80"}}
        client.handlers["elicitation/create"] = lambda params: asked.append(params) or answer
        await client.say(session_id, "go")
        (request,) = asked
        assert request["sessionId"] != session_id
        assert request["message"].startswith("[find the port] ask_user(Which port?)")
        (waiting,) = [u for u in client.updates("subagent_update") if u.get("state") == {"state": "requires_action"}]
        assert waiting["sessionId"] == request["sessionId"]
