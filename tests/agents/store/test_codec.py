"""Encoding and decoding of events and messages."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain import event as ev
from deputy_agents.domain.message import Block, Message, Text, Thinking, ToolResult, ToolUse
from deputy_agents.store.codec import (
    BLOCKS,
    EVENTS,
    MAX_EVENT,
    Redact,
    decode_event,
    decode_message,
    decode_rules,
    encode_event,
    encode_message,
    event_type,
    no_redaction,
)
from tests.support.stored_sessions import BODIES

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
inputs = st.dictionaries(texts, json_values, max_size=3)
blocks = st.one_of(
    st.builds(Text, texts),
    st.builds(Thinking, texts, st.none() | texts, st.none() | texts),
    st.builds(ToolUse, texts, texts, inputs, st.none() | texts),
    st.builds(ToolResult, texts, texts, st.booleans()),
)
messages = st.builds(
    Message, st.sampled_from(["user", "assistant"]), st.lists(blocks, min_size=1, max_size=4).map(tuple), texts
)


def test_every_durable_event_and_every_block_has_a_stored_name() -> None:
    assert set(EVENTS.values()) == set(get_args(ev.Durable)) == {type(body) for body in BODIES}
    assert set(BLOCKS.values()) == set(get_args(Block))


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_an_event_is_decoded_unchanged(body: ev.Durable) -> None:
    assert decode_event(event_type(body) or "", encode_event(body)) == body


@given(inputs)
def test_any_tool_input_is_decoded_unchanged(given_input: dict[str, object]) -> None:
    body = ev.ToolCallStarted("t", "x", "x", ev.ToolKind.OTHER, ev.CallStatus.PENDING, given_input)
    assert decode_event("tool_call", encode_event(body)) == body


@given(messages)
def test_any_message_is_decoded_unchanged(message: Message) -> None:
    assert decode_message(encode_message(message)) == message


@given(st.text(), st.sampled_from([*EVENTS, "other"]))
def test_decoding_never_raises(stored: str, name: str) -> None:
    assert decode_event(name, stored) == ev.Unknown(name)
    assert decode_message(stored) is None


@pytest.mark.requirement("E10")
@pytest.mark.parametrize(
    "body",
    [
        ev.MessageAdded("m", "user", "x" * (3 * MAX_EVENT)),
        ev.MessageAdded("m", "user", "\u0001" * MAX_EVENT),
        ev.ToolCallStarted(
            "t", "x", "x", ev.ToolKind.OTHER, ev.CallStatus.PENDING, {str(n): "y" * 99 for n in range(MAX_EVENT // 50)}
        ),
        ev.ToolCallStarted(
            "t", "x", "x", ev.ToolKind.OTHER, ev.CallStatus.PENDING, {"list": ["y" * 5000] * (MAX_EVENT // 2500)}
        ),
    ],
    ids=["text", "escapes", "object", "list"],
)
def test_a_stored_event_is_bounded_and_states_what_is_missing(body: ev.Durable) -> None:
    stored = encode_event(body)
    assert len(stored.encode()) <= MAX_EVENT
    assert type(decode_event(event_type(body) or "", stored)) is type(body)
    if isinstance(body, ev.MessageAdded):
        assert "more characters were not stored]" in stored


@pytest.mark.parametrize("stored", ["[" * 100_000, '{"a":' * 100_000, "nonsense", "1e999", "[1]", "null"])
def test_stored_text_that_cannot_be_read_raises_nothing(stored: str) -> None:
    assert all(isinstance(decode_event(name, stored), ev.Unknown) for name in EVENTS)
    assert decode_rules(stored) == ()


def _nested(depth: int) -> object:
    value: object = "end"
    for _ in range(depth):
        value = {"a": [value]}
    return value


def _unchanged(value: object) -> object:
    return value


@pytest.mark.parametrize("redact", [no_redaction, _unchanged])
@pytest.mark.parametrize(
    "value",
    [_nested(200), _nested(50_000), {"lone": "\ud800", "deep": _nested(300)}, {1: {"set"}}],
    ids=["200", "50000", "lone", "set"],
)
def test_an_event_with_a_value_that_json_does_not_support_is_stored(value: object, redact: Redact) -> None:
    body = ev.ToolCallStarted("t", "x", "x", ev.ToolKind.OTHER, ev.CallStatus.PENDING, {"value": value})
    read = decode_event("tool_call", encode_event(body, redact))
    assert isinstance(read, ev.ToolCallStarted)
    assert read.tool_call_id == "t"


@pytest.mark.parametrize("value", [_nested(200), _nested(50_000)], ids=["200", "50000"])
def test_a_message_with_a_value_that_json_does_not_support_is_stored(value: object) -> None:
    message = Message("assistant", (Text("before"), ToolUse("t", "x", {"value": value})))
    read = decode_message(encode_message(message))
    assert read is not None
    assert read.content[0] == Text("before")
    assert len(read.content) == 2
