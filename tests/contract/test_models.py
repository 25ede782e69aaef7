"""One contract for the adapters of all providers, each against a server of its own format on loopback."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.domain.message import (
    Image,
    Message,
    Reply,
    StopReason,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    tool_uses,
)
from deputy_agents.model.factory import Models
from deputy_agents.ports.model import (
    Model,
    ModelEvent,
    ModelRequest,
    TextPart,
    ThinkingPart,
    ToolSpec,
    UsageReported,
)
from tests.support.dialects import CASES, MODEL, DialectApi
from tests.support.messages_api import Script, serving
from tests.support.model_replies import Failure, Json, Play, call, calls, failing, say, text, think

pytestmark = [pytest.mark.asyncio, pytest.mark.requirement("M4")]

LOOK = ToolSpec("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})
PIXEL = "iVBORw0KGgo="
BOUND = 20


@dataclass
class World:
    """One provider with its server."""

    api: DialectApi
    model: Model
    environ: dict[str, str]

    async def ask(self, *messages: Message, tools: tuple[ToolSpec, ...] = (LOOK,)) -> list[ModelEvent]:
        history = messages or (Message("user", (Text("hello"),)),)
        request = ModelRequest(f"{self.api.prefix}{MODEL}", "Be brief.", history, tools)
        async with asyncio.timeout(BOUND), aclosing(self.model.stream(request)) as events:
            return [event async for event in events]

    async def reply(self, *messages: Message) -> Reply:
        last = (await self.ask(*messages))[-1]
        assert isinstance(last, Reply)
        return last

    async def fails(self) -> ModelError:
        with pytest.raises(ModelError) as failure:
            await self.ask()
        return failure.value


Open = Callable[[Script], Awaitable[World]]


@asynccontextmanager
async def opened(name: str, script: Script, folder: Path, patch: pytest.MonkeyPatch) -> AsyncGenerator[World]:
    async with serving(CASES[name](script)) as api:
        environ = api.environ(folder)
        for variable, value in {**environ, "AWS_EC2_METADATA_DISABLED": "true", "NO_GCE_CHECK": "true"}.items():
            patch.setenv(variable, value)  # libraries of the platforms read it there
        models = Models(environ)
        try:
            yield World(api, models.of()(f"{api.prefix}{MODEL}"), environ)
        finally:
            await models.aclose()


@pytest_asyncio.fixture(params=CASES)
async def open_world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Open]:
    """Opens the provider in front of a script."""
    async with AsyncExitStack() as stack:

        async def open(script: Script) -> World:
            return await stack.enter_async_context(opened(request.param, script, tmp_path, monkeypatch))

        yield open


def user(words: str) -> Message:
    return Message("user", (Text(words),))


async def test_text_arrives_in_parts_and_then_complete_with_its_usage(open_world: Open) -> None:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 30, "output_tokens": 1}
    world = await open_world(lambda _b, _n: say("Hello wörld.", piece=3, usage=usage))
    events = await world.ask()
    assert "".join(event.text for event in events if isinstance(event, TextPart)) == "Hello wörld."
    assert sum(isinstance(event, TextPart) for event in events) == 4
    assert any(isinstance(event, UsageReported) for event in events)
    reply = events[-1]
    assert isinstance(reply, Reply)
    assert (reply.message.text, reply.stop_reason) == ("Hello wörld.", StopReason.END_TURN)
    assert (reply.usage.input_tokens, reply.usage.cache_read_tokens, reply.usage.output_tokens) == (10, 30, 5)
    assert world.api.tools(world.api.bodies[0]) == ["look"]
    assert world.api.violations == []


async def test_tools_are_called_in_parallel_and_their_results_and_images_are_sent_back(open_world: Open) -> None:
    def script(body: Json, number: int) -> Play:
        del body
        if number:
            return say("Seen.")
        return calls(text("Let me look."), call("look", id="c1", at="a"), call("look", id="c2", at="b"), piece=4)

    world = await open_world(script)
    reply = await world.reply()
    assert reply.stop_reason is StopReason.TOOL_USE
    assert tool_uses(reply.message) == (ToolUse("c1", "look", {"at": "a"}), ToolUse("c2", "look", {"at": "b"}))
    results = (
        ToolResult("c1", "all well", images=(Image("image/png", PIXEL),)),
        ToolResult("c2", "no such place", is_error=True),
    )
    answer = await world.reply(user("look"), reply.message, Message("user", (*results, Text("Hurry."))))
    assert answer.message.text == "Seen."
    sent = world.api.results(world.api.bodies[1])
    assert sent["c1"] == "all well"
    assert sent["c2"].endswith("no such place")
    assert world.api.images(world.api.bodies[1]) == [PIXEL]
    assert world.api.violations == []


async def test_images_of_the_user_are_sent(open_world: Open) -> None:
    world = await open_world(lambda _b, _n: say("A pixel."))
    await world.reply(Message("user", (Text("What is it?"), Image("image/png", PIXEL))))
    assert world.api.images(world.api.bodies[0]) == [PIXEL]
    assert world.api.violations == []


async def test_thinking_is_shown_and_sent_back_with_its_calls(open_world: Open) -> None:
    def script(body: Json, number: int) -> Play:
        del body
        return say("Done.") if number else calls(think("I must look.", "c2ln"), call("look", id="c1"), piece=5)

    world = await open_world(script)
    events = await world.ask()
    reply = events[-1]
    assert isinstance(reply, Reply)
    assert "".join(event.text for event in events if isinstance(event, ThinkingPart)) == "I must look."
    thoughts = [block for block in reply.message.content if isinstance(block, Thinking)]
    assert [block.thinking for block in thoughts] == ["I must look."]
    await world.reply(user("look"), reply.message, Message("user", (ToolResult("c1", "seen"),)))
    assert world.api.thoughts(world.api.bodies[1]) == ["I must look."]
    assert world.api.violations == []


@pytest.mark.parametrize(
    ("reason", "expected"), [("max_tokens", StopReason.MAX_TOKENS), ("refusal", StopReason.REFUSAL)]
)
async def test_the_reasons_of_an_early_end_are_known(open_world: Open, reason: str, expected: StopReason) -> None:
    world = await open_world(lambda _b, _n: say("So", stop_reason=reason))
    assert (await world.reply()).stop_reason is expected


async def test_arguments_that_are_not_json_are_an_error_of_the_call(open_world: Open) -> None:
    world = await open_world(lambda _b, _n: calls(call("look", id="c1", json_text='{"at": "a'), piece=3))
    [use] = tool_uses((await world.reply()).message)
    assert use.error
    assert use.input == {}


@pytest.mark.parametrize(
    ("play", "kind", "retryable"),
    [
        (failing(400, "invalid_request_error", "messages: too odd"), ModelErrorKind.INVALID_REQUEST, False),
        (
            failing(400, "invalid_request_error", "prompt is too long: context length"),
            ModelErrorKind.CONTEXT_WINDOW,
            False,
        ),
        (failing(401, "authentication_error", "invalid key"), ModelErrorKind.AUTHENTICATION, False),
        (failing(403, "permission_error", "not yours"), ModelErrorKind.PERMISSION, False),
        (failing(404, "not_found_error", "model: model-1"), ModelErrorKind.NOT_FOUND, False),
        (failing(429, "rate_limit_error", "slow down", retry_after="7"), ModelErrorKind.RATE_LIMITED, True),
        (failing(500, "api_error", "broken"), ModelErrorKind.SERVER, True),
        (failing(529, "overloaded_error", "busy"), ModelErrorKind.OVERLOADED, True),
    ],
)
async def test_every_error_has_the_same_kind(
    open_world: Open, play: Play, kind: ModelErrorKind, *, retryable: bool
) -> None:
    world = await open_world(lambda _b, _n: play)
    error = await world.fails()
    assert (error.kind, error.retryable) == (kind, retryable)
    if kind is ModelErrorKind.RATE_LIMITED:
        assert error.retry_after == 7
    assert "ANTHROPIC_API_KEY" not in error.action or world.api.prefix == "anthropic/"
    assert len(world.api.requests) == 1  # the adapter does not retry


@pytest.mark.parametrize("failure", [Failure.CUT, Failure.RESET, Failure.ERROR_EVENT, Failure.CLOSE_BEFORE_HEADERS])
async def test_a_broken_stream_is_retryable(open_world: Open, failure: Failure) -> None:
    world = await open_world(lambda _b, _n: say("half of it", piece=2, failure=failure, after=2))
    assert (await world.fails()).retryable


async def test_a_tool_call_that_is_cut_off_is_retryable(open_world: Open) -> None:
    cut = calls(call("look", id="c1", at="somewhere"), piece=4, failure=Failure.NO_STOP, after=2)
    world = await open_world(lambda _b, _n: cut)
    error = await world.fails()
    assert (error.kind, error.retryable) == (ModelErrorKind.CUT_STREAM, True)


async def test_cancelling_closes_the_connection(open_world: Open) -> None:
    world = await open_world(lambda _b, _n: say("half", piece=1, hold=asyncio.Event(), after=2))
    arrived = asyncio.Event()

    async def listen() -> None:
        request = ModelRequest(f"{world.api.prefix}{MODEL}", "", (user("hello"),))
        async for event in world.model.stream(request):
            if isinstance(event, TextPart):
                arrived.set()

    task = asyncio.create_task(listen())
    async with asyncio.timeout(BOUND):
        await arrived.wait()
        task.cancel()
        await asyncio.wait([task])
        await world.api.until(lambda: world.api.requests[0].left_early)
    assert task.cancelled()


async def test_a_refused_connection_names_the_address_and_what_to_check(open_world: Open) -> None:
    world = await open_world(lambda _b, _n: say("never"))
    port = world.api.url.rpartition(":")[2]
    dead = {name: value.replace(f":{port}", ":9") for name, value in world.environ.items()}
    models = Models(dead)
    try:
        world.model = models.of()(f"{world.api.prefix}{MODEL}")
        started = asyncio.get_running_loop().time()
        error = await world.fails()
        assert asyncio.get_running_loop().time() - started < 5
    finally:
        await models.aclose()
    assert error.kind is ModelErrorKind.UNREACHABLE
    assert "http://127.0.0.1:9" in str(error)
    assert "connection refused" in str(error)
    assert (world.api.prefix == "anthropic/") == ("ANTHROPIC_BASE_URL" in error.action)


async def test_no_error_shows_a_secret(open_world: Open) -> None:
    secrets = ("key-7f3a", "secret-41fd0a")
    world = await open_world(lambda _b, _n: failing(400, "invalid_request_error", f"not {secrets}"))
    error = await world.fails()
    shown = f"{error} {error.action}"
    used = [secret for secret in secrets if secret in world.environ.values()]
    assert not any(secret in shown for secret in used)
