"""The scripted model and all forms of scripts."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from deputy_agents.domain.errors import ModelError
from deputy_agents.domain.message import Message, Reply, StopReason, Text, ToolResult, tool_uses
from deputy_agents.model.scripted import Script, ScriptedModel, call, calls, say, tool_results, use
from deputy_agents.ports.model import ModelEvent, ModelRequest, TextPart

REQUEST = ModelRequest("scripted", "", (Message("user", (Text("go"),)),))


async def collect(script: Script) -> list[ModelEvent]:
    return [event async for event in ScriptedModel(script).stream(REQUEST)]


@pytest.mark.asyncio
async def test_a_reply_is_preceded_by_its_parts() -> None:
    reply = say("Hello")
    assert await collect(lambda request: reply) == [TextPart("Hello"), reply]


@pytest.mark.asyncio
async def test_a_list_and_a_generator_of_events_are_yielded_unchanged() -> None:
    reply = say("Hello")

    async def stream() -> AsyncIterator[ModelEvent]:
        yield TextPart("Hel")
        yield reply

    assert await collect(lambda request: [TextPart("Hel"), reply]) == [TextPart("Hel"), reply]
    assert await collect(lambda request: stream()) == [TextPart("Hel"), reply]


@pytest.mark.asyncio
async def test_a_script_can_wait() -> None:
    gate = asyncio.Event()

    async def script(request: ModelRequest) -> Reply:
        await gate.wait()
        return say("Now")

    task = asyncio.create_task(collect(script))
    await asyncio.sleep(0)
    assert not task.done()
    gate.set()
    assert len(await task) == 2


@pytest.mark.asyncio
async def test_a_script_can_fail() -> None:
    def script(request: ModelRequest) -> Reply:
        raise ModelError("no")

    with pytest.raises(ModelError):
        await collect(script)


def test_calls_have_unique_ids_and_results_are_found() -> None:
    reply = calls([use("grep", pattern="x"), use("grep", pattern="x")], "Look.")
    first, second = tool_uses(reply.message)
    assert first.id != second.id
    assert reply.stop_reason is StopReason.TOOL_USE
    (only,) = tool_uses(call("read_file", path="name", name="odd").message)
    assert only.input == {"path": "name", "name": "odd"}
    answered = Message("user", (ToolResult(first.id, "ok"),))
    assert tool_results(ModelRequest("m", "", (answered,))) == (ToolResult(first.id, "ok"),)
    assert tool_results(ModelRequest("m", "", ())) == ()
