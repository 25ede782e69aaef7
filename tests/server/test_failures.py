"""Failures of the model service with a real server: what the user sees, and what the next request contains."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.api_rules import blocks_of
from tests.support.connections import faulty
from tests.support.facts import without_facts
from tests.support.messages_api import MessagesApi, messages_api
from tests.support.model_replies import (
    Failure,
    Json,
    Play,
    answering,
    call,
    calls,
    event,
    failing,
    frames,
    say,
    text,
    think,
)
from tests.support.prefix import misses
from tests.support.rpc import PATIENCE, RpcClient, RpcFailure, serving
from tests.support.shared_server import Deputies

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANSWER = "All is well again, as you can see."


class Plays:
    """A script that plays its parts in order, then repeats the last one."""

    def __init__(self, *plays: Play) -> None:
        self._plays = list(plays)

    def __call__(self, body: Json, n: int) -> Play:
        return self._plays.pop(0) if len(self._plays) > 1 else self._plays[0]


def configured(client: RpcClient, api: MessagesApi, /, **settings: object) -> None:
    client.notify(
        "workspace/didChangeConfiguration", {"settings": {"deputy": {"model": "m", "baseUrl": api.url, **settings}}}
    )


def shown(client: RpcClient) -> str:
    """The joined deltas of the last message."""
    deltas = client.events("message_delta")
    return "".join(delta["text"] for delta in deltas if delta["messageId"] == deltas[-1]["messageId"])


def said(client: RpcClient) -> list[str]:
    return [message["text"] for message in client.events("message") if message["role"] == "assistant"]


def details(client: RpcClient) -> list[str]:
    return [status["detail"] for status in client.events("agent_status") if "detail" in status]


def texts(message: Json) -> list[str]:
    return without_facts(block["text"] for block in blocks_of(message) if block["type"] == "text")


# -- temporary failures ----------------------------------------------------------------------------------------------


def broken(failure: Failure) -> Play:
    return say(ANSWER, piece=6, failure=failure, after=3)


PASSING = {
    "rate limit": (failing(429, "rate_limit_error"), "rate limited, retrying in"),
    "rate limit that says when": (failing(429, "rate_limit_error", retry_after_ms="40"), "rate limited, retrying in"),
    "overload": (failing(529, "overloaded_error"), "overloaded, retrying in"),
    "server error": (failing(500, "api_error"), "service failed, retrying in"),
    "bad gateway": (failing(502, ""), "service failed, retrying in"),
    "cut before headers": (say("", failure=Failure.CLOSE_BEFORE_HEADERS), "service unreachable, retrying in"),
    "error in mid-stream": (broken(Failure.ERROR_EVENT), "overloaded, retrying in"),
    "cut in mid-stream": (broken(Failure.CUT), "answer cut off, retrying in"),
    "reset in mid-stream": (broken(Failure.RESET), "answer cut off, retrying in"),
    "no message_stop": (broken(Failure.NO_STOP), "answer cut off, retrying in"),
    "garbage": (Play(raw=b"event: message_start\ndata: {oops\n\n"), "answer cut off, retrying in"),
    "no stream at all": (Play(raw=b"<html>sign in first</html>"), "answer cut off, retrying in"),
}


@pytest.mark.parametrize("bad", PASSING)
async def test_what_passes_is_told_and_repeated_and_no_text_is_shown_twice(
    deputy: Deputies, workspace: Path, bad: str
) -> None:
    play, detail = PASSING[bad]
    async with deputy(Plays(play, say(ANSWER, piece=6)), workspace) as (client, api):
        session_id, _ = await client.session()
        assert (await client.prompt(session_id, "go"))["stopReason"] == "end_turn"
        assert [told for told in details(client) if told.startswith(detail)]
        assert (shown(client), said(client)) == (ANSWER, [ANSWER])
        first, second = api.bodies
        assert first == second


@pytest.mark.parametrize("failure", [Failure.STALL, Failure.STALL_BEFORE_HEADERS])
async def test_silence_is_told_and_repeated(deputy: Deputies, workspace: Path, failure: Failure) -> None:
    async with deputy(Plays(say(ANSWER, piece=6, failure=failure), say(ANSWER)), workspace) as (client, api):
        configured(client, api, api={"idleTimeout": 0.3})
        session_id, _ = await client.session()
        assert (await client.prompt(session_id, "go"))["stopReason"] == "end_turn"
        assert [told for told in details(client) if told.startswith("no answer in time, retrying in")]
        assert (shown(client), said(client)) == (ANSWER, [ANSWER])
        configured(client, api)


async def test_a_service_that_cannot_be_reached_ends_the_turn_after_a_second_attempt(
    deputy: Deputies, workspace: Path
) -> None:
    async with deputy(lambda *_: say(ANSWER), workspace) as (client, api), asyncio.timeout(PATIENCE):
        with faulty("full") as url:
            client.notify(
                "workspace/didChangeConfiguration",
                {"settings": {"deputy": {"model": "m", "baseUrl": url, "api": {"connectTimeout": 0.3}}}},
            )
            session_id, _ = await client.session()
            with pytest.raises(RpcFailure) as failure:
                await client.prompt(session_id, "go")
        assert [told for told in details(client) if "retrying" in told] == [details(client)[0]]
        assert details(client)[0].startswith("service unreachable, retrying in")
        assert details(client)[0].endswith("(2/2)")
        assert (failure.value.code, failure.value.data["kind"]) == (-32006, "unreachable")
        assert f"could not connect to {url}: no connection within 0.3 s" in failure.value.message
        configured(client, api)


async def test_a_wait_for_the_next_try_can_be_cancelled_and_keeps_what_was_shown(
    deputy: Deputies, workspace: Path
) -> None:
    play = Plays(broken(Failure.CUT), *[failing(500, "api_error")] * 3, say(ANSWER))
    async with deputy(play, workspace) as (client, api):
        session_id, _ = await client.session()
        prompt = client.start_prompt(session_id, "go")
        await client.event("agent_status", lambda e: "(4/8)" in e.get("detail", ""))
        client.notify("$/cancelRequest", {"id": prompt})
        assert (await client.result(prompt))["stopReason"] == "cancelled"
        assert said(client) == [ANSWER[:18]]
        await client.prompt(session_id, "again")
        messages = api.bodies[-1]["messages"]
        assert [texts(message) for message in messages] == [["go"], [ANSWER[:18]], ["again"]]


# -- permanent failures ----------------------------------------------------------------------------------------------

FINAL = {
    "wrong key": (failing(401, "authentication_error", "invalid x-api-key"), "authentication", "ANTHROPIC_API_KEY"),
    "no right": (failing(403, "permission_error"), "permission", "permissions of your key"),
    "no credit": (failing(400, "billing_error", "your credit is too low"), "permission", "billing"),
    "unknown model": (failing(404, "not_found_error", "model: m"), "not_found", "`model`"),
    "unknown model in other words": (answering(400, {"error": "model 'x' not found"}), "not_found", "`model`"),
    "an error with status 200": (answering(200, {"error": "model 'x' not found"}), "not_found", "`model`"),
    "no credit in other words": (
        failing(400, "invalid_request_error", "Your credit balance is too low"),
        "permission",
        "billing",
    ),
    "wrong address": (answering(404, "404 page not found"), "not_found", "`baseUrl`"),
    "a page": (answering(200, "<html><title>Sign in</title></html>", "text/html"), "not_found", "`baseUrl`"),
    "refused as invalid": (failing(400, "invalid_request_error", "bad"), "invalid_request", "`model`"),
    "too large": (failing(413, "request_too_large"), "too_large", "attach less"),
    "too long": (failing(400, "invalid_request_error", "prompt is too long"), "context_window", "new session"),
    "a limit of an hour": (failing(429, "rate_limit_error", retry_after="3600"), "rate_limited", ("until", "in ")),
    "a limit of some hours": (failing(429, "rate_limit_error", retry_after="18000"), "rate_limited", ("until", "in ")),
    "a spent budget": (failing(429, "rate_limit_error", x_should_retry="false"), "rate_limited", "later"),
}


@pytest.mark.parametrize("bad", FINAL)
async def test_what_does_not_pass_is_one_clear_error_and_the_session_goes_on(
    deputy: Deputies, workspace: Path, bad: str
) -> None:
    play, kind, action = FINAL[bad]
    async with deputy(Plays(play, say(ANSWER)), workspace) as (client, api):
        session_id, _ = await client.session()
        with pytest.raises(RpcFailure) as failure:
            await client.prompt(session_id, "go")
        assert (failure.value.code, failure.value.data["kind"]) == (-32006, kind)
        assert any(one in failure.value.data["action"] for one in ([action] if isinstance(action, str) else action))
        assert "\n" not in failure.value.message
        finished = await client.event("turn_finished")
        assert (finished["stopReason"], finished["error"]["kind"]) == ("error", kind)
        assert len(api.requests) == 1
        assert (await client.prompt(session_id, "again"))["stopReason"] == "end_turn"
        assert texts(api.bodies[-1]["messages"][0]) == ["go", "again"]


async def test_a_missing_key_is_one_message_with_what_to_do(deputy: Deputies, workspace: Path) -> None:
    async with deputy(lambda *_: say("never"), workspace) as (client, api):
        configured(client, api, api={"keyCommand": ["no-such-program-anywhere"]})
        session_id, _ = await client.session()
        with pytest.raises(RpcFailure) as failure:
            await client.prompt(session_id, "go")
        assert failure.value.code == -32004
        assert "api.keyCommand" in failure.value.message
        assert api.requests == []
        configured(client, api)


# -- all kinds of responses ------------------------------------------------------------------------------------------

STOPS = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "something_new": "end_turn",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refusal",
}


@pytest.mark.parametrize("stop", STOPS)
async def test_each_reason_to_stop_has_its_word_and_what_was_said_stays(
    deputy: Deputies, workspace: Path, stop: str
) -> None:
    async with deputy(Plays(say("So far.", stop_reason=stop), say("more")), workspace) as (client, api):
        session_id, _ = await client.session()
        assert (await client.prompt(session_id, "go"))["stopReason"] == STOPS[stop]
        await client.prompt(session_id, "on")
        assert [texts(message) for message in api.bodies[-1]["messages"]] == [["go"], ["So far."], ["on"]]


async def test_a_pause_goes_on_by_itself(deputy: Deputies, workspace: Path) -> None:
    plays = Plays(say("I am thinking. \n", stop_reason="pause_turn"), say("Now I know."))
    async with deputy(plays, workspace) as (client, api):
        session_id, _ = await client.session()
        assert (await client.prompt(session_id, "go"))["stopReason"] == "end_turn"
        assert said(client) == ["I am thinking. \n", "Now I know."]
        assert [texts(message) for message in api.bodies[1]["messages"]] == [
            ["go"],
            ["I am thinking. \n"],
            ["Continue."],
        ]


@pytest.mark.parametrize("json_text", ['{"path": "a', "[1]", "nonsense", '{"path": NaN}'])
async def test_a_call_that_cannot_be_read_is_an_error_that_the_model_can_repair(
    deputy: Deputies, workspace: Path, json_text: str
) -> None:
    cut = calls(call("read_file", json_text=json_text), stop_reason="max_tokens" if json_text[-1] == "a" else None)
    async with deputy(Plays(cut, say("I fix it.")), workspace) as (client, api):
        session_id, _ = await client.session()
        assert (await client.prompt(session_id, "go"))["stopReason"] == "end_turn"
        (result,) = blocks_of(api.bodies[1]["messages"][-1])
        assert result["is_error"]
        assert "JSON" in json.dumps(result["content"])


@pytest.mark.parametrize(
    ("name", "sent"),
    [("functions.read_file", "functions_read_file"), ("read file!", "read_file_"), ("ü" * 200, "_" * 128)],
)
async def test_a_made_up_tool_is_an_error_to_the_model_and_no_name_or_number_of_it_breaks_the_history(
    deputy: Deputies, workspace: Path, name: str, sent: str
) -> None:
    made_up = calls(call(name, id="call:1 of 2", path="a.txt"))
    async with deputy(Plays(made_up, say("I fix it.")), workspace) as (client, api):
        session_id, _ = await client.session()
        assert (await client.prompt(session_id, "go"))["stopReason"] == "end_turn"
        (used,), (result,) = (blocks_of(message) for message in api.bodies[1]["messages"][1:])
        assert (used["name"], result["is_error"]) == (sent, True)


async def test_reasoning_goes_back_with_its_signature_and_is_shown_apart(deputy: Deputies, workspace: Path) -> None:
    thoughtful = Play((think("Let me look."), call("list_dir", path=".")))
    async with deputy(Plays(thoughtful, say("ok")), workspace) as (client, api):
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        assert "".join(thought["text"] for thought in client.events("thought_delta")) == "Let me look."
        assert blocks_of(api.bodies[1]["messages"][1])[0] == {
            "type": "thinking",
            "thinking": "Let me look.",
            "signature": "c2lnbmF0dXJl",
        }


def strange(words: str) -> Play:
    known = list(frames(say(words), "m"))
    unknown = [event("weather", sun=True), event("content_block_delta", index=0, delta={"type": "new_delta", "x": 1})]
    return Play(raw=known[0] + b"".join(unknown) + b"".join(known[1:]), chunk=1)


ODD = {
    "split characters": say("Grüße, 世界 🌍!", piece=3, chunk=1),
    "unknown events": strange("Grüße, 世界 🌍!"),
    "a huge delta": say("wörter " * 40_000),
    "a body that does not end": say("ok", failure=Failure.LINGER),
}


@pytest.mark.parametrize("odd", ODD)
async def test_odd_streams_are_read_as_they_are_meant(deputy: Deputies, workspace: Path, odd: str) -> None:
    async with deputy(Plays(ODD[odd]), workspace) as (client, _):
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        meant = said(client)[0]
        assert meant == shown(client)
        assert meant.strip() == (ODD[odd].blocks[0]["text"].strip() if ODD[odd].blocks else "Grüße, 世界 🌍!")


async def test_every_request_of_a_turn_begins_with_the_bytes_of_the_one_before(
    deputy: Deputies, workspace: Path
) -> None:
    (workspace / "a.txt").write_text("hello\n")
    looks: Sequence[Play] = [
        Play((think("Hm."), text("I look."), call("read_file", path="a.txt"), call("list_dir", path="."))),
        calls(call("grep", pattern="hello")),
        say("Found."),
        calls(call("read_file", path="none.txt")),
        say("Done."),
    ]
    async with deputy(Plays(*looks), workspace) as (client, api):
        session_id, _ = await client.session()
        await client.prompt(session_id, "go")
        await client.prompt(session_id, "more")
        assert len(api.bodies) == 5
        for before, after in zip(api.bodies, api.bodies[1:], strict=False):
            assert misses(before, after) == []


# -- cost ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "cost"), [("mine", 0.000_04), ("unknown", None)])
async def test_the_users_own_prices_give_costs_and_unknown_models_tokens_alone(
    workspace: Path, tmp_path: Path, model: str, cost: float | None
) -> None:
    prices = tmp_path / "models.toml"
    prices.write_text("[mine]\nprice = {input = 2, output = 4, cache_read = 0, cache_write = 0}\n")
    env = {"ANTHROPIC_API_KEY": "test-key", "DEPUTY_MODELS": str(prices)}
    async with messages_api(lambda *_: say("ok")) as api, serving(env=env) as client:
        await client.initialize(workspace, initializationOptions={"model": model, "baseUrl": api.url})
        session_id, _ = await client.session()
        usage = (await client.prompt(session_id, "go"))["usage"]
        assert (usage["inputTokens"], usage["outputTokens"]) == (10, 5)
        assert usage.get("cost") == (None if cost is None else pytest.approx(cost))
        assert (await client.event("usage"))["usage"] == usage


# -- a bug report ----------------------------------------------------------------------------------------------------


async def test_a_recorded_session_plays_again_without_key_and_network(workspace: Path, tmp_path: Path) -> None:
    record = tmp_path / "failure.jsonl"
    (workspace / "a.txt").write_text("hello\n")
    plays = Plays(calls(call("read_file", path="a.txt")), failing(500, "api_error"), say("It says hello.", piece=4))
    async with messages_api(plays) as api, serving(options=["--record", str(record)]) as client:
        options = {"model": "m", "baseUrl": api.url, "api": {"keyCommand": ["echo", "sk-key"]}}
        await client.initialize(workspace, initializationOptions=options)
        session_id, _ = await client.session()
        await client.prompt(session_id, "what does it say?")
        before = [told["text"] for told in client.events("message")]
        assert await client.shut_down() == 0
    assert "sk-key" not in await asyncio.to_thread(record.read_text)
    async with serving(options=["--replay", str(record)]) as client:
        await client.initialize(workspace)
        session_id, _ = await client.session()
        assert (await client.prompt(session_id, "what does it say?"))["stopReason"] == "end_turn"
        assert [told["text"] for told in client.events("message")] == before
        assert await client.shut_down() == 0


@pytest.mark.parametrize("option", ["--record", "--replay"])
async def test_a_file_that_cannot_be_used_is_told_before_anything_starts(tmp_path: Path, option: str) -> None:
    path = tmp_path / "file"
    path.write_text("no recording\n")
    async with serving(options=[option, str(path)]) as client:
        assert await client.exit_code() == 2
        await client.gone()
        assert option in client.stderr
        assert "Traceback" not in client.stderr
    assert path.read_text() == "no recording\n"
