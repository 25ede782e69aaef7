"""What differs between providers: set-up, odd services, and agents of one session with different providers."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import pytest

from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.domain.event import AgentFinished, MessageAdded
from deputy_agents.domain.message import Message, Reply, StopReason, Text, ToolUse, Usage, tool_uses
from deputy_agents.domain.model_card import ModelCard, ModelCards
from deputy_agents.domain.settings import Settings
from deputy_agents.model.endpoint import ApiSettings, ProviderSettings
from deputy_agents.model.factory import Models
from deputy_agents.model.providers import PROVIDERS, provider_of
from deputy_agents.model.service import PREFIXES
from deputy_agents.ports.model import ModelEvent, ModelRequest, ToolSpec
from tests.support.core import core, small
from tests.support.dialects import (
    CASES,
    KEY,
    MODEL,
    PROJECT,
    REGION,
    TOKEN,
    ChatApi,
    DialectApi,
    ResponsesApi,
    VertexApi,
)
from tests.support.messages_api import Script, serving
from tests.support.model_replies import Json, Play, call, calls, failing, say

pytestmark = [pytest.mark.requirement("M4")]

LOOK = ToolSpec("look", "Looks.", {"type": "object"})
CLOUDS = ("AWS_", "ANTHROPIC_", "GOOGLE_", "CLOUD_ML", "OPENAI_")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials of this machine, and none that a platform's library could search for."""
    for name in list(os.environ):
        if name.startswith(CLOUDS):
            monkeypatch.delenv(name)
    for name, value in {
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "CLOUDSDK_CONFIG": str(tmp_path),
        "NO_GCE_CHECK": "true",
    }.items():
        monkeypatch.setenv(name, value)


async def ask(environ: Mapping[str, str], name: str, api: ApiSettings | None = None) -> Reply:
    models = Models(environ)
    request = ModelRequest(name, "", (Message("user", (Text("hello"),)),), (LOOK,))
    try:
        async with asyncio.timeout(20), aclosing(models.of(api)(name).stream(request)) as events:
            found = [event async for event in events]
    finally:
        await models.aclose()
    assert isinstance(found[-1], Reply)
    return found[-1]


async def failure(environ: Mapping[str, str], name: str, api: ApiSettings | None = None) -> ModelError:
    with pytest.raises(ModelError) as raised:
        await ask(environ, name, api)
    return raised.value


# -- set-up ----------------------------------------------------------------------------------------------------------


def test_every_prefix_leads_to_its_provider_and_any_other_is_a_part_of_the_name() -> None:
    for provider in PROVIDERS:
        assert provider_of(f"{provider.prefix}/some/model") == (provider, "some/model")
        assert f"`{provider.prefix}/`" in PREFIXES
    assert provider_of("qwen/qwen3-coder") == (PROVIDERS[0], "qwen/qwen3-coder")
    assert provider_of("openai/") == (PROVIDERS[0], "openai/")


@pytest.mark.asyncio
async def test_an_unknown_prefix_is_named_with_those_that_exist() -> None:
    async with serving(CASES["anthropic"](lambda _b, _n: failing(404, "not_found_error", "model: gemini/x"))) as api:
        error = await failure(api.environ(Path()), "gemini/x")
    assert error.kind is ModelErrorKind.NOT_FOUND
    assert "`bedrock/`" in error.action


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("openai/m", "openai", "openai"),
        ("openai-responses/m", "openai", "openai"),
        ("bedrock/m", "boto3", "bedrock"),
        ("vertex/m", "google.auth", "vertex"),
    ],
)
@pytest.mark.asyncio
async def test_a_missing_extra_is_named_with_how_to_install_it(
    name: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    environ = {"OPENAI_API_KEY": "k", "AWS_REGION": "eu-west-3", "CLOUD_ML_REGION": "global"}
    error = await failure(environ, name)
    assert error.kind is ModelErrorKind.NOT_CONFIGURED
    assert f"uv tool install 'deputy-ls[{extra}]'" in error.action


@pytest.mark.parametrize(
    ("name", "environ", "action"),
    [
        ("openai/m", {}, "OPENAI_API_KEY"),
        ("bedrock/m", {}, "AWS_REGION"),
        ("bedrock/m", {"AWS_REGION": "eu-west-3"}, "aws sso login"),
        ("aws/m", {"AWS_REGION": "eu-west-3"}, "ANTHROPIC_AWS_WORKSPACE_ID"),
        ("vertex/m", {}, "CLOUD_ML_REGION"),
        ("vertex/m", {"CLOUD_ML_REGION": "global", "ANTHROPIC_VERTEX_PROJECT_ID": "p"}, "application-default login"),
        ("foundry/m", {}, "ANTHROPIC_FOUNDRY_API_KEY"),
        ("foundry/m", {"ANTHROPIC_FOUNDRY_API_KEY": "k"}, "ANTHROPIC_FOUNDRY_RESOURCE"),
    ],
)
@pytest.mark.asyncio
async def test_what_is_not_set_is_named(
    name: str, environ: dict[str, str], action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    error = await failure(environ, name)
    assert (error.kind, error.retryable) == (ModelErrorKind.NOT_CONFIGURED, False)
    assert action in error.action


@pytest.mark.asyncio
async def test_a_region_that_does_not_exist_is_named() -> None:
    environ = {"AWS_REGION": "nowhere.invalid", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    error = await failure(environ, "bedrock/m", ApiSettings(connect_timeout=2))
    assert error.kind is ModelErrorKind.UNREACHABLE
    assert "nowhere.invalid" in str(error)
    assert "AWS_REGION" in error.action


@pytest.mark.asyncio
async def test_expired_credentials_are_an_error_about_them() -> None:
    play = failing(403, "", "The security token included in the request is expired")
    async with serving(CASES["bedrock"](lambda _b, _n: play)) as api:
        error = await failure(api.environ(Path()), f"bedrock/{MODEL}")
    assert error.kind is ModelErrorKind.AUTHENTICATION
    assert "aws sso login" in error.action


@pytest.mark.asyncio
async def test_a_login_that_has_been_revoked_is_an_error_about_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Revoked(VertexApi):
        async def answer(self, connection: object, received: object) -> None:
            connection.send_json(400, {"error": "invalid_grant", "error_description": "revoked"})  # type: ignore[attr-defined]

    async with serving(Revoked(lambda _b, _n: say("never"))) as api:
        environ = api.environ(tmp_path)
        for variable, value in environ.items():
            monkeypatch.setenv(variable, value)
        error = await failure(environ, f"vertex/{MODEL}")
    assert error.kind is ModelErrorKind.NOT_CONFIGURED
    assert "revoked" in str(error)
    assert "application-default login" in error.action


@pytest.mark.asyncio
async def test_a_server_on_this_machine_needs_no_key() -> None:
    api = ChatApi(lambda _b, _n: say("Hello."))
    api.needs_key = False
    async with serving(api):
        reply = await ask({"OPENAI_BASE_URL": f"{api.url}/v1"}, "openai/llama")
    assert reply.message.text == "Hello."
    assert "authorization" not in api.requests[0].headers
    assert api.bodies[0]["max_tokens"] > 0  # the name that all of these servers know


@pytest.mark.asyncio
async def test_a_key_of_one_provider_is_never_sent_to_another() -> None:
    async with serving(ChatApi(lambda _b, _n: say("Hello."))) as api:
        settings = ApiSettings(key_command=("echo", "anthropic-secret"), headers=(("x-team", "secret-header"),))
        await ask({**api.environ(Path()), "ANTHROPIC_API_KEY": "anthropic-key"}, "openai/m", settings)
        sent = str(api.requests[0].headers)
    assert not any(secret in sent for secret in ("anthropic-secret", "anthropic-key", "secret-header"))


@pytest.mark.asyncio
async def test_settings_of_a_provider_precede_the_environment_and_its_key_command_is_used() -> None:
    async with serving(ChatApi(lambda _b, _n: say("Hello."))) as api:
        own = ProviderSettings(f"{api.url}/v1", ("echo", KEY), (("x-team", "blue"),))
        environ = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "old"}
        assert await ask(environ, "openai/m", ApiSettings(providers=(("openai", own),)))
        wrong = ProviderSettings(f"{api.url}/v1", ("echo", "wrong"))
        error = await failure(environ, "openai/m", ApiSettings(providers=(("openai", wrong),)))
    assert api.requests[0].headers["x-team"] == "blue"
    assert error.kind is ModelErrorKind.AUTHENTICATION
    assert "providers.openai.keyCommand" in error.action


@pytest.mark.asyncio
async def test_an_access_token_of_vertex_can_come_from_a_command() -> None:
    async with serving(VertexApi(lambda _b, _n: say("Hello."))) as api:
        options = (("region", REGION), ("project", PROJECT))
        own = ProviderSettings(f"{api.url}/v1", ("echo", TOKEN), options=options)
        reply = await ask({}, f"vertex/{MODEL}", ApiSettings(providers=(("vertex", own),)))
    assert reply.message.text == "Hello."


@pytest.mark.asyncio
async def test_models_of_a_service_with_openais_list_can_be_chosen() -> None:
    class Listing(ChatApi):
        async def answer(self, connection: object, received: object) -> None:
            connection.send_json(200, {"object": "list", "data": [{"id": "qwen3", "object": "model"}, {"id": 7}]})  # type: ignore[attr-defined]

    async with serving(Listing(lambda _b, _n: say("never"))) as api:
        models = Models(api.environ(Path()))
        listed = await models.client(provider_of("openai/x")[0]).list_models()
        await models.aclose()
    assert [name for name, _ in listed] == ["qwen3"]


@pytest.mark.parametrize(
    "name", ["bedrock/eu.anthropic.claude-x-20260101-v1:0", "vertex/claude-x@20260101", "aws/claude-x", "claude-x"]
)
def test_a_card_is_found_by_the_names_of_all_platforms(name: str) -> None:
    cards = ModelCards((("claude-x", ModelCard(123_456)),))
    assert cards.card(name).window == 123_456


# -- odd services ----------------------------------------------------------------------------------------------------


def chunks(*choices: str, usage: str = "") -> bytes:
    lines = [f'data: {{"choices": [{choice}]}}\n\n' for choice in choices]
    return "".join([*lines, usage]).encode()


DONE = "data: [DONE]\n\n"
TEXT = '{"index": 0, "delta": {"content": "Hi"}, "finish_reason": %s}'
NULL = '{"index": 0, "delta": {"role": "assistant", "content": null, "tool_calls": null}, "finish_reason": null}'
CALL = '{"delta": {"tool_calls": [{"id": "a", "function": {"name": "look", "arguments": %s}}]}, "finish_reason": %s}'


@pytest.mark.parametrize(
    ("raw", "stop"),
    [
        pytest.param(chunks(TEXT % '"stop"'), StopReason.END_TURN, id="no usage, no [DONE]"),
        pytest.param(chunks(NULL, TEXT % "null", usage=DONE), StopReason.END_TURN, id="no finish reason"),
        pytest.param(chunks(TEXT % "null"), StopReason.END_TURN, id="neither finish reason nor [DONE]"),
        pytest.param(chunks(TEXT % '"stop"').replace(b"\n", b"\r\n"), StopReason.END_TURN, id="CRLF"),
        pytest.param(chunks(TEXT % '"invented"'), StopReason.OTHER, id="an unknown finish reason"),
        pytest.param(chunks(TEXT % '"stop"').rstrip(), StopReason.END_TURN, id="no end of the last line"),
    ],
)
@pytest.mark.asyncio
async def test_text_of_odd_streams_is_complete(raw: bytes, stop: StopReason) -> None:
    async with serving(ChatApi(lambda _b, _n: Play(raw=raw, chunk=5))) as api:
        reply = await ask(api.environ(Path()), "openai/m")
    assert (reply.message.text, reply.stop_reason, reply.usage) == ("Hi", stop, Usage())


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(chunks(CALL % ('"{}"', '"stop"')), id="stop in place of tool_calls"),
        pytest.param(chunks(CALL % ("{}", '"tool_calls"')), id="arguments as an object"),
        pytest.param(chunks(CALL % ('""', "null"), usage=DONE), id="no finish reason"),
        pytest.param(chunks(CALL % ('"{}"', "null")), id="neither finish reason nor [DONE]"),
    ],
)
@pytest.mark.asyncio
async def test_calls_of_odd_streams_are_complete(raw: bytes) -> None:
    async with serving(ChatApi(lambda _b, _n: Play(raw=raw))) as api:
        reply = await ask(api.environ(Path()), "openai/m")
    assert tool_uses(reply.message) == (ToolUse("a", "look"),)
    assert reply.stop_reason is StopReason.TOOL_USE


@pytest.mark.asyncio
async def test_pieces_of_calls_without_an_index_belong_together() -> None:
    piece = '{"delta": {"tool_calls": [{"function": {"arguments": %s}}]}}'
    second = '{"delta": {"tool_calls": [{"id": "b", "function": {"name": "look", "arguments": "{}"}}]}}'
    raw = chunks(CALL % ('"{\\"at\\""', "null"), piece % '": 1}"', second, usage=DONE)
    async with serving(ChatApi(lambda _b, _n: Play(raw=raw))) as api:
        reply = await ask(api.environ(Path()), "openai/m")
    assert tool_uses(reply.message) == (ToolUse("a", "look", {"at": 1}), ToolUse("b", "look"))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"data: [DONE]\n\n",
        b"data: {oops\n\n",
        b"data: \xff\xfe\n\n",
        b"data: 7\n\n",
        chunks(NULL),
        chunks(CALL % ('"{\\"at"', "null")),
    ],
)
@pytest.mark.asyncio
async def test_a_stream_without_a_whole_reply_is_cut_off(raw: bytes) -> None:
    async with serving(ChatApi(lambda _b, _n: Play(raw=raw))) as api:
        error = await failure(api.environ(Path()), "openai/m")
    assert (error.kind, error.retryable) == (ModelErrorKind.CUT_STREAM, True)


def rejecting(field: str, message: str) -> Script:
    """A service that rejects a field of a request."""

    def script(body: Json, _: int) -> Play:
        return failing(400, "invalid_request_error", message) if field in body else say("Hello.")

    return script


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("api", "field", "message"),
    [
        (ChatApi, "max_tokens", "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        (ChatApi, "stream_options", "unknown field stream_options"),
        (ResponsesApi, "include", "Encrypted content is not supported with this model."),
    ],
)
async def test_a_field_that_a_model_rejects_is_left_out_from_then_on(
    api: type[ChatApi], field: str, message: str
) -> None:
    async with serving(api(rejecting(field, message))) as service:
        models = Models(service.environ(Path()))
        name = f"{service.prefix}m"
        request = ModelRequest(name, "", (Message("user", (Text("hello"),)),))
        for _ in range(2):
            async with aclosing(models.of()(name).stream(request)) as events:
                last = [event async for event in events][-1]
            assert isinstance(last, Reply)
        await models.aclose()
    assert [field in body for body in service.bodies] == [True, False, False]


@pytest.mark.asyncio
async def test_a_model_without_tools_is_asked_without_them_and_the_user_is_told(workspace: Path) -> None:
    def script(body: Json, _: int) -> Play:
        if body.get("tools"):
            return failing(400, "invalid_request_error", "registry.ollama.ai/library/gemma does not support tools")
        return say("I can only talk.")

    async with serving(ChatApi(script)) as api, AsyncExitStack() as stack:
        routed = await stack.enter_async_context(routes(api))
        settings = Settings(model=f"openai/{MODEL}")
        async with core(workspace, no_script, settings=settings, wrap=lambda _: routed) as c:
            assert (await c.turn()).stop_reason == "end_turn"
            assert (await c.turn()).stop_reason == "end_turn"
            await c.caught_up()
            texts = [body.text for body in c.bodies(MessageAdded)]
    assert sum("does not accept tools" in text for text in texts) == 1
    assert len(api.requests) == 3


# -- sessions --------------------------------------------------------------------------------------------------------


def no_script(request: ModelRequest) -> Reply:
    raise AssertionError(f"the scripted model was asked by {request.agent_id}")


class Routed:
    """The models of several services, by the name in each request."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        return self._models.of()(request.model).stream(request)

    async def prepare(self) -> None:
        pass


class routes:  # noqa: N801 - used like a function
    """The models of ``apis``, as long as the block lasts."""

    def __init__(self, *apis: DialectApi, folder: Path = Path()) -> None:
        self._environ = {name: value for api in apis for name, value in api.environ(folder).items()}

    async def __aenter__(self) -> Routed:
        self._patch = pytest.MonkeyPatch()
        for name, value in self._environ.items():
            self._patch.setenv(name, value)
        self._models = Models(self._environ)
        return Routed(self._models)

    async def __aexit__(self, *_: object) -> None:
        self._patch.undo()
        await self._models.aclose()


TASKS = ("read the first part", "read the second part", "read the third part")


def parent_and_children(api: DialectApi, model: str = "") -> object:
    """Three children in parallel; each reads a file and answers, and their parent sums up."""

    def script(body: Json, _: int) -> Play:
        results = api.results(body)
        task = next((task for task in TASKS if task in api.task(body)), None)
        if task is None:
            more = {"model": model} if model else {}
            spawned = [call("spawn_agent", id=f"s{n}", instructions=task, **more) for n, task in enumerate(TASKS)]
            return say("All is read.") if results else calls(*spawned, piece=7)
        return (
            say(f"It says {results['r1'][-6:].strip()}.")
            if results
            else calls(call("read_file", id="r1", path="a.txt"))
        )

    return script


def finished(bodies: list[AgentFinished]) -> Iterator[str]:
    return (f"{body.status}: {body.result}" for body in bodies)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.asyncio
async def test_three_children_run_with_every_provider(name: str, workspace: Path, tmp_path: Path) -> None:
    (workspace / "a.txt").write_text("hello\n")
    api = CASES[name](no_play)
    api.script = parent_and_children(api)  # type: ignore[assignment]
    async with serving(api), routes(api, folder=tmp_path) as routed:
        settings = Settings(model=f"{api.prefix}{MODEL}")
        async with core(workspace, no_script, settings=settings, wrap=lambda _: routed) as c:
            assert (await c.turn("Read all.")).stop_reason == "end_turn"
            await c.caught_up()
            assert sorted(finished(c.bodies(AgentFinished))) == ["completed: It says hello."] * 3
            assert c.session.agents()[0].usage.output_tokens > 0
    assert api.violations == []
    assert len(api.requests) == 8


@pytest.mark.asyncio
async def test_children_may_have_another_provider_than_their_parent(workspace: Path, tmp_path: Path) -> None:
    (workspace / "a.txt").write_text("hello\n")
    parents, children = CASES["openai-responses"](no_play), CASES["bedrock"](no_play)
    of_children = f"{children.prefix}{MODEL}"
    parents.script = parent_and_children(parents, of_children)  # type: ignore[assignment]
    children.script = parent_and_children(children)  # type: ignore[assignment]
    async with serving(parents), serving(children), routes(parents, children, folder=tmp_path) as routed:
        settings = small(Settings(model=f"{parents.prefix}{MODEL}"), models=(of_children,))
        async with core(workspace, no_script, settings=settings, wrap=lambda _: routed) as c:
            assert (await c.turn("Read all.")).stop_reason == "end_turn"
            await c.caught_up()
            assert sorted(finished(c.bodies(AgentFinished))) == ["completed: It says hello."] * 3
            models = [node.info.model for node in c.session.agents()]
    assert models == [f"{parents.prefix}{MODEL}", *[of_children] * 3]
    assert (len(parents.requests), len(children.requests)) == (2, 6)
    assert parents.violations == children.violations == []


def no_play(body: Json, number: int) -> Play:
    raise AssertionError("the script is set before the first request")
