"""Replies built from the event stream of the Messages API: what a tool's input may be, and when a reply is complete."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.message import StopReason, Text, ToolUse
from deputy_agents.model.reply_builder import MAX_DEPTH, MAX_TOKENS, ReplyBuilder


def tool_use(*parts: str, start: object = None) -> ToolUse:
    """The call in a reply whose tool input arrives in ``parts``, or in its start event."""
    builder = ReplyBuilder()
    block: dict[str, object] = {"type": "tool_use", "id": "t1", "name": "grep", "input": {} if start is None else start}
    builder.add({"type": "content_block_start", "index": 0, "content_block": block})
    for part in parts:
        delta = {"type": "input_json_delta", "partial_json": part}
        builder.add({"type": "content_block_delta", "index": 0, "delta": delta})
    builder.add({"type": "message_delta", "delta": {"stop_reason": "tool_use"}})
    reply = builder.reply()
    assert reply is not None
    (call,) = reply.message.content
    assert isinstance(call, ToolUse)
    return call


def nested(depth: int, *, lists: bool = False) -> str:
    inner = "[" * depth + "]" * depth if lists else '{"a":' * depth + "1" + "}" * depth
    return f'{{"value": {inner}}}'


@pytest.mark.parametrize(
    "given_input",
    [
        '{"n": 1e400}',
        '{"n": -1e400}',
        '{"n": NaN}',
        '{"n": Infinity}',
        '{"deep": [{"n": [1, -Infinity]}]}',
        '{"n": 1' + "0" * 5000 + "}",
        '{"s": "\\ud800"}',
        '{"\\udc00": 1}',
        "[1]",
        "null",
        '"text"',
        '{"unfinished": ',
        '{"two": 1} {"objects": 2}',
        nested(MAX_DEPTH + 1),
        nested(MAX_DEPTH + 1, lists=True),
        nested(255),
        nested(100_000),
        nested(100_000, lists=True),
    ],
    ids=lambda text: text[:24],
)
def test_an_input_that_json_cannot_carry_is_an_error_of_that_call(given_input: str) -> None:
    call = tool_use(given_input)
    assert call.error
    assert call.input == {}


@pytest.mark.parametrize("start", [{"n": float("inf")}, {"a": [float("nan")]}, [1], "text"])
def test_an_input_in_the_start_event_is_checked_too(start: object) -> None:
    assert tool_use(start=start).error


@pytest.mark.parametrize("given_input", ["{}", '{"n": 1.5e300}', nested(MAX_DEPTH - 1), '{"emoji": "\\ud83d\\ude00"}'])
def test_a_valid_input_is_unchanged(given_input: str) -> None:
    assert tool_use(given_input) == ToolUse("t1", "grep", json.loads(given_input))


@given(st.text(max_size=60), st.integers(0, 60))
def test_what_the_builder_accepts_is_strict_json(text: str, cut: int) -> None:
    call = tool_use(text[:cut], text[cut:])
    json.loads(json.dumps(call.input, allow_nan=False))


def test_a_stop_reason_completes_a_reply_and_later_events_do_not_count() -> None:
    builder = ReplyBuilder()
    builder.add({"type": "message_start", "message": {"usage": {"input_tokens": 3}}})
    builder.add({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hello"}})
    assert not builder.complete
    assert builder.reply() is None
    builder.add({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}})
    assert builder.complete
    reply = builder.reply()
    assert reply is not None
    assert reply.message.content == (Text("Hello"),)
    assert (reply.stop_reason, reply.usage.input_tokens, reply.usage.output_tokens) == (StopReason.END_TURN, 3, 2)


@pytest.mark.parametrize("count", [-5, True, 1.5, "7", None, MAX_TOKENS + 1])
def test_an_invalid_count_of_tokens_is_ignored(count: object) -> None:
    builder = ReplyBuilder()
    builder.add({"type": "message_start", "message": {"usage": {"input_tokens": 3}}})
    usage = {"input_tokens": count, "server_tool_use": {"web_search_requests": count}}
    builder.add({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage})
    reply = builder.reply()
    assert reply is not None
    assert (reply.usage.input_tokens, reply.searches) == (3, 0)
