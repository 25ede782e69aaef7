"""Prompt caching: each request of a conversation starts with the bytes of the previous one."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.message import Block, Image, Message, Text, Thinking, ToolResult, ToolUse
from deputy_agents.model.request_params import to_params
from deputy_agents.ports.model import ModelRequest, ToolSpec
from tests.support.api_rules import broken_rules
from tests.support.model_replies import Json
from tests.support.prefix import misses

HEADERS = {"anthropic-version": "2023-06-01"}
TEXTS = st.text(min_size=1, max_size=20).filter(lambda text: bool(text.strip()))
TOOLS = tuple(ToolSpec(name, "Does it.", {"type": "object", "b": 1, "a": {}}) for name in ("grep", "edit", "a"))


@st.composite
def conversations(draw: st.DrawFn) -> list[list[Message]]:
    """The messages that each round adds: the prompt, then pairs of a reply and its tool results."""
    rounds = [[Message("user", (Text(draw(TEXTS)),))]]
    for number in range(draw(st.integers(1, 6))):
        reply: list[Block] = []
        if draw(st.booleans()):
            reply.append(Thinking(draw(TEXTS), draw(st.sampled_from(["c2ln", None]))))
        reply.append(Text(draw(TEXTS)))
        uses = [
            ToolUse(f"t{number}-{index}", "grep", {"pattern": draw(TEXTS), "z": 1, "a": [draw(st.integers())]})
            for index in range(draw(st.integers(0, 3)))
        ]
        results: list[Block] = [
            ToolResult(
                use.id, draw(TEXTS), draw(st.booleans()), (Image("image/png", "aGk="),) * draw(st.integers(0, 1))
            )
            for use in uses
        ]
        if not results or draw(st.booleans()):
            results.append(Text(draw(TEXTS)))
        added = [Message("assistant", (*reply, *uses)), Message("user", tuple(results))]
        if draw(st.booleans()):
            added.append(Message("user", (Text(draw(TEXTS)),)))
        rounds.append(added)
    return rounds


@given(conversations())
def test_each_request_starts_with_the_bytes_of_the_previous_one_and_reads_its_cache(
    rounds: list[list[Message]],
) -> None:
    history: list[Message] = []
    before: Json | None = None
    for added in rounds:
        history += added
        body = to_params(ModelRequest("m", "Be brief.", tuple(history), TOOLS))
        assert broken_rules(HEADERS, body) == []
        if before is not None:
            assert misses(before, body) == []
        before = json.loads(json.dumps(body))


def test_the_order_of_tools_does_not_matter() -> None:
    request = ModelRequest("m", "Be brief.", (Message("user", (Text("hi"),)),), TOOLS)
    assert json.dumps(to_params(request)) == json.dumps(to_params(replace(request, tools=TOOLS[::-1])))
