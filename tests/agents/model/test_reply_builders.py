"""Builders of replies from the APIs of OpenAI: whatever a service sends, they never raise."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.message import Text, Thinking, ToolUse
from deputy_agents.model.chat_reply import ChatReplyBuilder
from deputy_agents.model.responses_reply import ResponsesReplyBuilder
from deputy_agents.model.service import Builder
from tests.support.model_replies import Json

pytestmark = pytest.mark.requirement("M4")

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False)
ANY = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)


def fields(**known: st.SearchStrategy[object]) -> st.SearchStrategy[Json]:
    """Objects with some of the fields that are known; each may be anything."""
    return st.fixed_dictionaries({}, optional={name: ANY | value for name, value in known.items()})


CALLS = st.lists(
    fields(
        index=st.integers(0, 2),
        id=st.sampled_from(["a", "b", ""]),
        function=fields(name=st.just("look"), arguments=st.sampled_from(["{", '"at":1}', "{}", "\ud800"])),
    ),
    max_size=3,
)
DELTA = fields(
    content=st.text(max_size=5) | st.lists(fields(text=st.text(max_size=3)), max_size=2),
    reasoning_content=st.text(max_size=5),
    refusal=st.just("no"),
    tool_calls=CALLS,
)
USAGE = fields(
    prompt_tokens=st.integers(-1, 99),
    completion_tokens=st.integers(-1, 99),
    prompt_tokens_details=fields(cached_tokens=st.integers(-1, 999)),
)
CHUNK = fields(
    choices=st.lists(fields(delta=DELTA, finish_reason=st.sampled_from(["stop", "tool_calls", "odd"])), max_size=2),
    usage=USAGE,
)
ITEM = fields(
    type=st.sampled_from(["message", "reasoning", "function_call", "web_search_call"]),
    id=st.just("i"),
    call_id=st.sampled_from(["a", "b", ""]),
    name=st.just("look"),
    arguments=st.sampled_from(["{", "{}"]),
    encrypted_content=st.just("x"),
    content=st.lists(fields(text=st.text(max_size=3)), max_size=2),
)
EVENT = fields(
    type=st.sampled_from(
        [
            "response.output_item.added",
            "response.output_item.done",
            "response.output_text.delta",
            "response.refusal.delta",
            "response.reasoning_summary_text.delta",
            "response.function_call_arguments.delta",
            "response.completed",
            "response.incomplete",
            "response.created",
        ]
    ),
    output_index=st.integers(0, 2),
    item=ITEM,
    delta=st.text(max_size=5),
    response=fields(usage=USAGE, incomplete_details=fields(reason=st.just("max_output_tokens"))),
)


def check(build: Callable[[], Builder], events: list[Json]) -> None:
    builder = build()
    for event in events:
        builder.add(event)
    builder.close()
    reply = builder.reply()
    assert (reply is not None) == builder.ended
    if reply is None:
        return
    ids = [block.id for block in reply.message.content if isinstance(block, ToolUse)]
    assert len(set(ids)) == len(ids)
    for block in reply.message.content:
        assert isinstance(block, Text | Thinking | ToolUse)
        str(block).encode()  # no half of a surrogate pair is left
    assert min(reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cache_read_tokens) >= 0


@given(st.lists(CHUNK, max_size=8))
def test_chunks_of_any_form_never_break_a_reply(chunks: list[Json]) -> None:
    check(ChatReplyBuilder, chunks)


@given(st.lists(EVENT, max_size=8))
def test_events_of_any_form_never_break_a_reply(events: list[Json]) -> None:
    check(ResponsesReplyBuilder, events)
