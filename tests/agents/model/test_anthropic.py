"""The Anthropic adapter against a fake Messages API server on loopback."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.domain.message import (
    Image,
    Message,
    Reply,
    Source,
    StopReason,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    Usage,
)
from deputy_agents.model.anthropic import AnthropicModel
from deputy_agents.model.endpoint import Endpoint
from deputy_agents.ports.model import (
    ModelEvent,
    ModelRequest,
    RequestAccepted,
    TextPart,
    ThinkingPart,
    ToolSpec,
    UsageReported,
)
from tests.support.messages_api import MessagesApi, Script, messages_api
from tests.support.model_replies import Failure, Play, call, calls, event, failing, frames, redacted, say, text, think

KEY = "sk-secret-key"


def user(words: str) -> Message:
    return Message("user", (Text(words),))


def request(*messages: Message, tools: tuple[ToolSpec, ...] = (), system: str = "Be brief.") -> ModelRequest:
    return ModelRequest("any-model", system, messages or (user("hello"),), tools)


@asynccontextmanager
async def served(script: Script, idle_timeout: float = 5) -> AsyncGenerator[tuple[AnthropicModel, MessagesApi]]:
    async with asyncio.timeout(50), messages_api(script) as api:
        model = AnthropicModel(Endpoint(api.url, KEY, idle_timeout=idle_timeout))
        try:
            yield model, api
        finally:
            await model.aclose()


async def collect(model: AnthropicModel, sent: ModelRequest | None = None) -> list[ModelEvent]:
    async with aclosing(model.stream(sent or request())) as events:
        return [event async for event in events]


async def replied(play: Play, sent: ModelRequest | None = None) -> Reply:
    async with served(lambda body, n: play) as (model, api):
        events = await collect(model, sent)
        assert api.violations == []
    assert isinstance(events[-1], Reply)
    return events[-1]


async def failed(play: Play, idle_timeout: float = 5) -> ModelError:
    async with served(lambda body, n: play, idle_timeout) as (model, _):
        with pytest.raises(ModelError) as caught:
            await collect(model)
    return caught.value


# -- answers -------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_text_arrives_in_parts_and_then_complete() -> None:
    async with served(lambda body, n: say("Hello there", piece=4)) as (model, api):
        events = await collect(model)
    reply = Reply(Message("assistant", (Text("Hello there"),)), StopReason.END_TURN, Usage(10, 5))
    parts = [TextPart("Hell"), TextPart("o th"), TextPart("ere")]
    assert events == [RequestAccepted(), UsageReported(Usage(10, 1)), *parts, UsageReported(reply.usage), reply]
    assert api.violations == []


@pytest.mark.asyncio
async def test_thinking_keeps_its_signature_and_redacted_data_and_is_sent_back_unchanged() -> None:
    play = Play((think("Hmm, let me see", "U0lH"), redacted("ZW5j"), text("Yes.")), piece=5)
    async with served(lambda body, n: play) as (model, api):
        events = await collect(model)
        reply = events[-1]
        assert isinstance(reply, Reply)
        await collect(model, request(user("hello"), reply.message, user("And?")))
    assert [event for event in events if isinstance(event, ThinkingPart)] == [
        ThinkingPart("Hmm, "),
        ThinkingPart("let m"),
        ThinkingPart("e see"),
    ]
    assert reply.message.content == (
        Thinking("Hmm, let me see", "U0lH"),
        Thinking("", redacted="ZW5j"),
        Text("Yes."),
    )
    assert api.violations == []
    assert api.bodies[1]["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Hmm, let me see", "signature": "U0lH"},
        {"type": "redacted_thinking", "data": "ZW5j"},
        {"type": "text", "text": "Yes."},
    ]


@pytest.mark.asyncio
async def test_tool_calls_are_joined_from_pieces_of_json() -> None:
    reply = await replied(calls(text("Look."), call("grep", id="a", pattern="x"), call("list_dir", id="b"), piece=3))
    assert reply.stop_reason is StopReason.TOOL_USE
    assert reply.message.content == (
        Text("Look."),
        ToolUse("a", "grep", {"pattern": "x"}),
        ToolUse("b", "list_dir", {}),
    )


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("json_text", "stop_reason"),
    [
        ('{"command": "l\\q"}', "tool_use"),
        ('{"command": "rm -rf /nonexistent', "max_tokens"),
        ("[1, 2]", "tool_use"),
        ('{"n": NaN}', "tool_use"),
        ('{"half": "\\ud83d"}', "tool_use"),
        ("[" * 100_000, "tool_use"),
    ],
)
async def test_tool_input_that_is_not_a_json_object_is_an_error_of_the_call(json_text: str, stop_reason: str) -> None:
    reply = await replied(calls(call("shell", id="a", json_text=json_text), stop_reason=stop_reason))
    use = reply.message.content[0]
    assert isinstance(use, ToolUse)
    assert use.error is not None
    assert (use.id, use.name, use.input) == ("a", "shell", {})


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("end_turn", StopReason.END_TURN),
        ("max_tokens", StopReason.MAX_TOKENS),
        ("stop_sequence", StopReason.STOP_SEQUENCE),
        ("pause_turn", StopReason.PAUSE_TURN),
        ("refusal", StopReason.REFUSAL),
        ("model_context_window_exceeded", StopReason.CONTEXT_WINDOW),
        ("something_new", StopReason.OTHER),
    ],
)
async def test_every_stop_reason_has_a_meaning(value: str, expected: StopReason) -> None:
    assert (await replied(say("x", stop_reason=value))).stop_reason is expected


@pytest.mark.asyncio
async def test_usage_includes_the_cache_and_later_counts_replace_earlier_ones() -> None:
    usage = {"input_tokens": 3, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7, "output_tokens": 1}
    reply = await replied(say("x", usage=usage, final_usage={"input_tokens": 4, "output_tokens": 9}))
    assert reply.usage == Usage(4, 9, cache_read_tokens=100, cache_write_tokens=7)


@pytest.mark.asyncio
async def test_characters_split_between_packets_are_joined() -> None:
    raw = b"".join(frames(say("Grüße 👋"), "m")).replace(b"\\u00fc", "ü".encode()).replace(b"\\u00df", "ß".encode())
    assert (await replied(Play(raw=raw, chunk=1))).message.content == (Text("Grüße 👋"),)


@pytest.mark.asyncio
async def test_surrogate_halves_are_joined_or_replaced() -> None:
    def delta(words: str) -> bytes:
        return event("content_block_delta", index=0, delta={"type": "text_delta", "text": words})

    opening, *_, closing, stop = frames(say(""), "m")
    begin = event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    raw = opening + begin + delta("a\ud83d") + delta("\udc4b\ud83d") + closing + stop
    (block,) = (await replied(Play(raw=raw))).message.content
    assert block == Text("a👋�")


@pytest.mark.asyncio
async def test_unknown_events_blocks_and_deltas_are_ignored() -> None:
    known = list(frames(say("ok"), "m"))
    strange = [
        event("some_future_event", x=1),
        event("content_block_start", index=7, content_block={"type": "server_tool_use", "id": "s", "name": "web"}),
        event("content_block_delta", index=7, delta={"type": "future_delta", "y": []}),
        event("content_block_delta", index=99, delta={"type": "text_delta", "text": "lost"}),
        b"event: message_delta\ndata: [1]\n\n",
        b": a comment\n\n",
    ]
    reply = await replied(Play(raw=known[0] + b"".join(strange) + b"".join(known[1:])))
    assert reply.message.content == (Text("ok"),)


@pytest.mark.asyncio
async def test_a_web_search_of_the_service_returns_its_sources() -> None:
    page = {"type": "web_search_result", "url": "https://a.example/", "title": "A", "encrypted_content": "eA=="}
    play = Play(
        (
            text("I look. "),
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "a"}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [page, page, {"type": "new"}]},
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_2",
                "content": {"type": "web_search_tool_result_error", "error_code": "too_many_requests"},
            },
            text("It is A."),
        ),
        final_usage={"output_tokens": 5, "server_tool_use": {"web_search_requests": 2}},  # pyright: ignore[reportArgumentType]
    )
    async with served(lambda body, n: play) as (model, api):
        events = await collect(model, replace(request(user("find a")), search=True))
        assert api.violations == []
        assert api.bodies[0]["tools"] == [{"type": "web_search_20250305", "name": "web_search", "max_uses": 5}]
    reply = events[-1]
    assert isinstance(reply, Reply)
    assert reply.message.content == (Text("I look. "), Text("It is A."))
    assert (reply.sources, reply.searches) == ((Source("https://a.example/", "A"),), 2)


@pytest.mark.asyncio
async def test_a_huge_delta_is_accepted() -> None:
    words = "x" * 3_000_000
    assert (await replied(say(words))).message.content == (Text(words),)


@pytest.mark.asyncio
async def test_calls_with_the_same_id_get_different_ids() -> None:
    reply = await replied(calls(call("a", id="same"), call("b", id="same")))
    first, second = (block.id for block in reply.message.content if isinstance(block, ToolUse))
    assert first != second


# -- requests ------------------------------------------------------------------------------------------------------

GREP = ToolSpec("grep", "Search.", {"type": "object", "properties": {"pattern": {"type": "string"}}})
READ = ToolSpec("read_file", "Read.", {"type": "object", "properties": {}})
CACHED = {"type": "ephemeral"}


@pytest.mark.asyncio
async def test_a_history_is_converted_to_a_request_that_the_api_accepts() -> None:
    history = (
        user("Find it."),
        Message(
            "assistant",
            (Thinking("unsigned"), Text(" \n"), ToolUse("a", "grep", {"pattern": "x"}), ToolUse("b", "shell")),
        ),
        Message(
            "user",
            (
                Text("By the way"),
                ToolResult("a", "", is_error=True),
                ToolResult("b", "ok", images=(Image("image/png", "aGk="),)),
            ),
        ),
        Message("user", (Text("steer"),)),
        Message("assistant", (Text("   "),)),
        user("more"),
    )
    async with served(lambda body, n: say("done")) as (model, api):
        await collect(model, request(*history, tools=(GREP, READ)))
    assert api.violations == []
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    assert api.bodies[0] == {
        "model": "any-model",
        "max_tokens": 8192,
        "stream": True,
        "tools": [
            {"name": "grep", "description": "Search.", "input_schema": GREP.input_schema},
            {"name": "read_file", "description": "Read.", "input_schema": READ.input_schema, "cache_control": CACHED},
        ],
        "system": [{"type": "text", "text": "Be brief.", "cache_control": CACHED}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Find it.", "cache_control": CACHED}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "a", "name": "grep", "input": {"pattern": "x"}},
                    {"type": "tool_use", "id": "b", "name": "shell", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "(no output)", "is_error": True},
                    {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "ok"}, image]},
                    {"type": "text", "text": "By the way"},
                    {"type": "text", "text": "steer"},
                    {"type": "text", "text": "more", "cache_control": CACHED},
                ],
            },
        ],
    }


@pytest.mark.asyncio
async def test_the_credential_is_sent_and_connections_are_reused() -> None:
    async with served(lambda body, n: say("ok")) as (model, api):
        for _ in range(3):
            await collect(model)
        assert len(api.connections) == 1
        assert {received.headers["authorization"] for received in api.requests} == {f"Bearer {KEY}"}
        assert {received.path for received in api.requests} == {"/v1/messages"}


@pytest.mark.asyncio
async def test_a_proxy_in_the_environment_is_not_used_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert (await replied(say("direct"))).message.content == (Text("direct"),)


@pytest.mark.asyncio
async def test_many_streams_run_at_once_over_one_adapter() -> None:
    gate = asyncio.Event()
    async with served(lambda body, n: say("ok", gate=gate)) as (model, api), asyncio.TaskGroup() as group:
        tasks = [group.create_task(collect(model)) for _ in range(16)]
        await api.until(lambda: len(api.requests) == 16)
        gate.set()
    assert all(isinstance(task.result()[-1], Reply) for task in tasks)


# -- failures ------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("status", "type_", "message", "kind", "retryable"),
    [
        (429, "rate_limit_error", "slow down", ModelErrorKind.RATE_LIMITED, True),
        (529, "overloaded_error", "Overloaded", ModelErrorKind.OVERLOADED, True),
        (529, "api_error", "Overloaded", ModelErrorKind.OVERLOADED, True),
        (500, "api_error", "oops", ModelErrorKind.SERVER, True),
        (502, "", "bad gateway", ModelErrorKind.SERVER, True),
        (504, "timeout_error", "late", ModelErrorKind.TIMEOUT, True),
        (400, "invalid_request_error", "max_tokens: too large", ModelErrorKind.INVALID_REQUEST, False),
        (400, "invalid_request_error", "prompt is too long: 9 > 8", ModelErrorKind.CONTEXT_WINDOW, False),
        (401, "authentication_error", "invalid key", ModelErrorKind.AUTHENTICATION, False),
        (402, "billing_error", "no credit", ModelErrorKind.PERMISSION, False),
        (403, "permission_error", "not yours", ModelErrorKind.PERMISSION, False),
        (404, "not_found_error", "model: any-model", ModelErrorKind.NOT_FOUND, False),
        (413, "request_too_large", "too large", ModelErrorKind.TOO_LARGE, False),
        (418, "teapot", "tea", ModelErrorKind.UNKNOWN, False),
    ],
)
async def test_every_error_response_has_its_kind(
    status: int, type_: str, message: str, kind: ModelErrorKind, retryable: bool
) -> None:
    error = await failed(failing(status, type_, message))
    assert (error.kind, error.retryable) == (kind, retryable)
    assert message in str(error)
    assert error.action


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry_after": "2"}, 2),
        ({"retry_after": "1.5"}, 1.5),
        ({"retry_after": "2", "retry_after_ms": "250"}, 0.25),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "-3"}, None),
        ({"retry_after": "inf"}, None),
        ({"retry_after": "Mon, 01 Jan 2001 00:00:00 GMT"}, 0),
    ],
)
async def test_the_wait_that_the_service_asks_for_is_reported(headers: dict[str, str], seconds: float | None) -> None:
    assert (await failed(failing(429, "rate_limit_error", **headers))).retry_after == seconds


@pytest.mark.asyncio
async def test_a_wait_can_be_a_date() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    wait = (await failed(failing(529, "overloaded_error", retry_after=date))).retry_after
    assert wait is not None
    assert 3000 < wait <= 3600


@pytest.mark.asyncio
async def test_the_service_decides_whether_to_retry() -> None:
    error = await failed(failing(429, "rate_limit_error", "budget spent", x_should_retry="false"))
    assert (error.kind, error.retryable) == (ModelErrorKind.RATE_LIMITED, False)


@pytest.mark.asyncio
async def test_the_adapter_does_not_retry() -> None:
    async with served(lambda body, n: failing(529, "overloaded_error")) as (model, api):
        with pytest.raises(ModelError):
            await collect(model)
        assert len(api.requests) == 1


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Failure.CLOSE_BEFORE_HEADERS, ModelErrorKind.CONNECTION),
        (Failure.CUT, ModelErrorKind.CUT_STREAM),
        (Failure.RESET, ModelErrorKind.CUT_STREAM),
        (Failure.NO_STOP, ModelErrorKind.CUT_STREAM),
        (Failure.ERROR_EVENT, ModelErrorKind.OVERLOADED),
    ],
)
async def test_an_incomplete_reply_is_retryable(failure: Failure, kind: ModelErrorKind) -> None:
    error = await failed(say("half an answer", piece=4, failure=failure, after=2))
    assert (error.kind, error.retryable) == (kind, True)


@pytest.mark.asyncio
@pytest.mark.parametrize("failure", [Failure.STALL_BEFORE_HEADERS, Failure.STALL, Failure.PINGS])
async def test_silence_ends_after_the_idle_timeout(failure: Failure) -> None:
    error = await failed(say("half an answer", piece=4, failure=failure), idle_timeout=0.2)
    assert (error.kind, error.retryable) == (ModelErrorKind.TIMEOUT, True)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html>not the API</html>",
        b"event: message_start\ndata: {oops\n\n",
        b"event: content_block_delta\ndata: \xff\xfe\n\n",
    ],
)
async def test_an_invalid_stream_is_a_cut_stream(raw: bytes) -> None:
    error = await failed(Play(raw=raw))
    assert (error.kind, error.retryable) == (ModelErrorKind.CUT_STREAM, True)


@pytest.mark.asyncio
async def test_an_unreachable_host_is_an_error_of_its_own_kind() -> None:
    model = AnthropicModel(Endpoint("http://127.0.0.1:9", KEY))
    with pytest.raises(ModelError) as caught:
        await collect(model)
    await model.aclose()
    assert (caught.value.kind, caught.value.retryable) == (ModelErrorKind.UNREACHABLE, True)
    assert "baseUrl" in caught.value.action


@pytest.mark.asyncio
@pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", "application/json"])
async def test_a_web_page_or_json_body_in_place_of_a_stream_is_not_retryable(content_type: str) -> None:
    error = await failed(Play(raw=b"<html>sign in first</html>", headers={"content-type": content_type}))
    assert (error.kind, error.retryable) == (ModelErrorKind.NOT_FOUND, False)
    assert content_type in str(error)
    assert "baseUrl" in error.action


@pytest.mark.asyncio
async def test_an_error_that_contains_the_key_does_not_show_it() -> None:
    error_response = failing(403, "permission_error", f"{KEY} may not")
    error_in_the_stream = Play(raw=event("error", error={"type": "api_error", "message": f"{KEY} fell over"}))
    for play in (error_response, error_in_the_stream):
        assert KEY not in str(await failed(play))


@pytest.mark.asyncio
async def test_a_missing_key_is_reported_before_anything_is_imported() -> None:
    with pytest.raises(ModelError) as caught:
        await collect(AnthropicModel(Endpoint("https://models.invalid")))
    assert caught.value.kind is ModelErrorKind.NOT_CONFIGURED
    assert str(caught.value) == "No key for the model service is set: https://models.invalid needs one."
    assert "ANTHROPIC_API_KEY" in caught.value.action


@pytest.mark.asyncio
@pytest.mark.parametrize("key", ["sk-line\nbreak", "sk-ünïcode"])
async def test_a_key_that_cannot_be_sent_is_an_error_that_does_not_show_it(key: str) -> None:
    async with served(lambda body, n: say("never")) as (_, api):
        model = AnthropicModel(Endpoint(api.url, key))
        with pytest.raises(ModelError) as caught:
            await collect(model)
        await model.aclose()
    shown = f"{caught.value} {caught.value.action} {caught.value.__cause__} {model!r} {Endpoint(key=key)!r}"
    assert "sk-" not in shown


# -- cancellation -------------------------------------------------------------------------------------------------


async def started(model: AnthropicModel, first: asyncio.Event) -> None:
    async for _ in model.stream(request()):
        first.set()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "play", [say("x" * 10, piece=1, failure=Failure.STALL), say("x", failure=Failure.STALL_BEFORE_HEADERS)]
)
async def test_cancelling_closes_the_connection(play: Play) -> None:
    async with served(lambda body, n: play, idle_timeout=60) as (model, api):
        task = asyncio.create_task(started(model, asyncio.Event()))
        await api.until(lambda: len(api.requests) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await api.until(lambda: api.requests[0].left_early)
        assert not api.connections


@pytest.mark.asyncio
async def test_closing_the_iterator_closes_the_connection() -> None:
    async with served(lambda body, n: say("x" * 10, piece=1, failure=Failure.STALL), idle_timeout=60) as (model, api):
        events = model.stream(request())
        assert [type(await anext(events)) for _ in range(3)] == [RequestAccepted, UsageReported, TextPart]
        await events.aclose()
        await api.until(lambda: api.requests[0].left_early)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "failure",
    [
        Failure.CUT,
        Failure.RESET,
        Failure.NO_STOP,
        Failure.STALL,
        Failure.PINGS,
        Failure.ERROR_EVENT,
        Failure.LINGER,
    ],
)
async def test_a_reply_with_a_stop_reason_is_complete_whatever_follows(failure: Failure) -> None:
    play = say("All of it.", failure=failure, after=2)
    reply = await replied(play)
    assert reply.message.text == "All of it."
    assert reply.stop_reason is StopReason.END_TURN
    assert reply.usage.output_tokens == 5


@pytest.mark.asyncio
@pytest.mark.parametrize("end", [b"data: [DONE]\n\n", b"", b"data: {broken\n\n", b"\xff\xfe"])
async def test_odd_ends_of_a_complete_stream_are_ignored(end: bytes) -> None:
    whole = b"".join(frames(say("All of it."), "m"))
    at = whole.index(b"event: message_stop")
    assert (await replied(Play(raw=whole[:at] + end))).message.text == "All of it."


@pytest.mark.asyncio
async def test_a_complete_reply_does_not_wait_for_the_end_of_the_body() -> None:
    async with served(lambda body, n: say("ok", failure=Failure.LINGER)) as (model, _):
        assert isinstance((await collect(model))[-1], Reply)


# -- before the first request ----------------------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.requirement("M9")
async def test_preparing_sends_nothing_and_makes_the_first_request_fast() -> None:
    async with served(lambda body, n: say("hello")) as (model, api):
        await model.prepare()
        assert api.connections == set()
        async with asyncio.timeout(10):
            await collect(model)
        assert len(api.requests) == 1


@pytest.mark.asyncio
@pytest.mark.requirement("M9")
async def test_preparing_runs_no_key_command_and_never_fails() -> None:
    for endpoint in (Endpoint("http://127.0.0.1:9", key_command=("false",)), Endpoint("nonsense", KEY), Endpoint()):
        model = AnthropicModel(endpoint)
        await model.prepare()
        await model.aclose()
