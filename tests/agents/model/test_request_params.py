"""Bodies of requests. Prompt caching: each request of a conversation starts with the bytes of the previous one."""

import asyncio
import gc
import json
import tracemalloc
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.concurrency import long_json
from deputy_agents.domain.message import Block, Image, Message, Text, Thinking, ToolResult, ToolUse
from deputy_agents.model import request_body
from deputy_agents.model.request_body import RequestBodies
from deputy_agents.ports.model import ModelRequest, ToolSpec
from tests.support.api_rules import broken_rules
from tests.support.model_replies import Json
from tests.support.plain_body import plain_body
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
    bodies = RequestBodies()
    history: list[Message] = []
    before: Json | None = None
    for added in rounds:
        history += added
        body = json.loads(encode(bodies, ModelRequest("m", "Be brief.", tuple(history), TOOLS)))
        assert broken_rules(HEADERS, body) == []
        if before is not None:
            assert misses(before, body) == []
        before = body


@given(conversations(), st.booleans())
def test_a_body_is_the_same_whatever_was_encoded_before(rounds: list[list[Message]], continues: bool) -> None:
    bodies = RequestBodies()
    history: list[Message] = []
    for added in rounds:
        history += [replace(added[0], content=(*added[0].content, Text("end \n")))] if continues else added
        request = ModelRequest("m", "Be brief.", tuple(history), TOOLS)
        body = encode(bodies, request)
        assert json.loads(body) == json.loads(json.dumps(plain_body(request)))
        assert body == encode(bodies, request) == encode(RequestBodies(), request)


@pytest.mark.parametrize("part", [1, 2, 3, 64])
@pytest.mark.parametrize("kept", [0, 100, 10_000])
def test_long_texts_are_encoded_in_parts(part: int, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_json, "PART", part)
    monkeypatch.setattr(request_body, "MAX_KEPT", kept)
    odd = 'a"\\\n\x00é😀\u2028'
    nested: list[object] = [odd, {"x": odd}, 1.5, None, True, []]
    messages = (
        Message("user", (Text(odd), Image("image/png", "aGk="))),
        Message("assistant", (ToolUse("t", "edit", {odd: nested, "n": 2**60}),)),
        Message("user", (ToolResult("t", odd, images=(Image("image/png", "aGk="),)), Text(odd))),
    )
    request, bodies = ModelRequest("m", odd, messages, TOOLS), RequestBodies()
    for _ in range(2):
        assert json.loads(encode(bodies, request)) == plain_body(request)


@pytest.mark.asyncio
@pytest.mark.parametrize("length", [20, 2000])
@pytest.mark.parametrize("is_call", [True, False])
async def test_kept_blocks_are_bounded_by_the_memory_that_they_take(
    length: int, is_call: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_body, "MAX_KEPT", 1_000_000)
    history = [_numbered(number, length, is_call=is_call) for number in range(4000)]
    assert await _memory_taken_by_encoding(history) < 1_000_000


@pytest.mark.asyncio
async def test_blocks_that_no_history_has_any_more_are_not_kept() -> None:
    blocks = (_numbered(number, 2000, is_call=bool(number % 2)) for number in range(4000))
    assert await _memory_taken_by_encoding(blocks) < 100_000


@pytest.mark.asyncio
async def test_a_block_at_the_address_of_an_earlier_one_is_encoded_as_itself() -> None:
    bodies, ids = RequestBodies(), Counter[int]()
    for number in range(100):
        block = Text(f"text {number}")
        ids[id(block)] += 1
        body = await bodies.encode(ModelRequest("m", "", (Message("user", (block,)),)))
        del block
        assert f"text {number}".encode() in body
    assert max(ids.values()) > 1


def _numbered(number: int, length: int, *, is_call: bool) -> Block:
    text = f"{number:0{length}}"
    return ToolUse(f"t{number}", "grep", {"pattern": text}) if is_call else Text(text)


async def _memory_taken_by_encoding(blocks: Iterable[Block]) -> int:
    """Bytes that are still taken when each of the blocks has been in a request."""
    bodies = RequestBodies()
    await bodies.encode(ModelRequest("m", "", (Message("user", (Text("before"),)),)))
    tracemalloc.start()
    for block in blocks:
        role = "assistant" if isinstance(block, ToolUse) else "user"
        await bodies.encode(ModelRequest("m", "", (Message(role, (block,)),)))
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken


def encode(bodies: RequestBodies, request: ModelRequest) -> bytes:
    return asyncio.run(bodies.encode(request))
