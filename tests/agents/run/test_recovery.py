"""What the model service rejects because of what is in the request: it is left out, and the session continues."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from anyio import to_thread
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.domain.event import MessageAdded
from deputy_agents.domain.message import (
    Block,
    Image,
    Message,
    Reply,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    Usage,
)
from deputy_agents.domain.model_card import ModelCard, ModelCards
from deputy_agents.domain.settings import Settings
from deputy_agents.model.error_mapping import model_error
from deputy_agents.model.scripted import Scripted, ScriptedModel, call, calls, say, use
from deputy_agents.ports.model import ModelRequest, ToolSpec
from deputy_agents.run import context_window
from deputy_agents.run.context_window import WITHHELD, ContextWindow
from deputy_agents.run.recovery import rejected_tool, without_rejected
from deputy_agents.run.result import READ_ON, bounded_results
from deputy_agents.session.runtime import Runtime
from deputy_agents.store.sqlite import SqliteStore
from deputy_agents.text import utf8_size
from tests.support.core import core
from tests.support.history_rules import broken_history_rules
from tests.support.images import png

IMAGE = Image("image/png", "aGk=")
HISTORY = (
    Message("user", (Text("look"), IMAGE)),
    Message("assistant", (ToolUse("a", "read_file", {"path": "x.png"}),)),
    Message("user", (ToolResult("a", "x.png", images=(IMAGE,)),)),
    Message("assistant", (Thinking("hm", "c2ln"), ToolUse("b", "read_file", {"path": "y"}))),
    Message("user", (ToolResult("b", "text"),)),
)


def invalid(detail: str) -> ModelError:
    return model_error(ModelErrorKind.INVALID_REQUEST, detail)


# -- the pure part -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("detail", "counted", "withheld"),
    [
        ("messages.0.content.1.image.source.base64: could not process image", 0, {(0, 1)}),
        ("messages.2.content.0.tool_result: could not process image", 0, {(2, 0)}),
        ("messages[4].content: invalid", 0, {(4, 0)}),
        ("could not process image", 2, {(2, 0)}),
        ("Could not process image", 5, {(0, 1), (2, 0)}),
        ("unsupported media type", 5, {(0, 1), (2, 0)}),
        ("bad request", 2, {(2, 0)}),
        ("bad request", 5, None),
        ("messages.17: invalid", 5, None),
        ("temperature: too high", 5, None),
    ],
)
def test_the_named_or_likeliest_blocks_are_left_out(
    detail: str, counted: int, withheld: set[tuple[int, int]] | None
) -> None:
    history = [replace(m, content=tuple(b for b in m.content if not isinstance(b, Thinking))) for m in HISTORY]
    window = without_rejected(history, ContextWindow(counted=counted), detail)
    assert (None if window is None else window.withheld) == withheld


def test_rejected_thinking_is_left_out() -> None:
    window = without_rejected(HISTORY, ContextWindow(), "messages.3.content.0: Invalid `signature` in `thinking` block")
    assert window is not None
    sent = context_window.request_messages(HISTORY, window)
    assert not any(isinstance(block, Thinking) for message in sent for block in message.content)
    assert without_rejected(HISTORY, window, "thinking") != window


@given(st.lists(st.sampled_from(range(5)), max_size=4), st.integers(0, 5), st.text(max_size=20))
def test_a_request_without_rejected_blocks_is_valid(turns: list[int], counted: int, words: str) -> None:
    window: ContextWindow | None = ContextWindow(counted=counted)
    for turn in turns:
        window = window and (without_rejected(HISTORY, window, f"messages.{turn}.content {words}") or window)
    assert window is not None
    assert broken_history_rules(context_window.request_messages(HISTORY, window)) == []


@given(st.lists(st.text(max_size=300), max_size=6), st.integers(0, 900))
def test_results_of_one_reply_share_a_limit(texts: list[str], limit: int) -> None:
    blocks: tuple[Block, ...] = tuple(ToolResult(str(n), text) for n, text in enumerate(texts))
    bounded = bounded_results(Message("user", (*blocks, Text("a note"))), limit)
    assert bounded.content[-1] == Text("a note")
    for before, after in zip(blocks, bounded.content, strict=False):
        assert isinstance(before, ToolResult)
        assert isinstance(after, ToolResult)
        assert after == before or "\n[cut at " in after.content
    if sum(utf8_size(text) + 30 for text in texts) <= limit:
        assert bounded.content[:-1] == blocks
    told = [READ_ON in block.content for block in bounded.content if isinstance(block, ToolResult)]
    assert told.count(True) == (bounded.content[:-1] != blocks)


# -- in a session --------------------------------------------------------------------------------------------------


def rejecting_images(detail: str = "messages.2.content.0: could not process image") -> Callable[[ModelRequest], None]:
    def check(request: ModelRequest) -> None:
        for message in request.messages:
            for block in message.content:
                if isinstance(block, Image) or (isinstance(block, ToolResult) and block.images):
                    raise invalid(detail)

    return check


@pytest.fixture
def picture(workspace: Path) -> Path:
    (workspace / "broken.png").write_bytes(png(4, 4))
    return workspace


@pytest.mark.asyncio
@pytest.mark.parametrize("detail", ["messages.2.content.0: could not process image", "could not process image", "no"])
async def test_an_image_that_the_service_rejects_is_left_out_and_the_session_continues(
    picture: Path, detail: str
) -> None:
    check = rejecting_images(detail)

    def script(request: ModelRequest) -> Scripted:
        check(request)
        match len(request.messages):
            case 1:
                return call("read_file", path="broken.png")
            case 3:
                return call("read_file", path="other.txt")
            case _:
                return say("done")

    (picture / "other.txt").write_text("other\n")
    async with core(picture, script) as c:
        assert (await c.turn()).stop_reason == "end_turn"
        assert (await c.turn("again")).stop_reason == "end_turn"
        await c.caught_up()
        result = c.model.requests[-1].messages[2].content[0]
        assert isinstance(result, ToolResult)
        assert WITHHELD in result.content
        notices = [body.text for body in c.bodies(MessageAdded) if "was left out" in body.text]
        assert len(notices) == 1
        assert detail in notices[0]
        assert sum("again" in message.text for message in c.model.requests[-1].messages) == 1
        stored = await c.store.history(c.session.id, c.session.primary_id)
        assert any(isinstance(b, ToolResult) and b.images for m in stored for b in m.content), "the history stays"


@pytest.mark.asyncio
async def test_a_rejection_for_another_reason_is_reported_and_leaves_the_images_in(picture: Path) -> None:
    left = [invalid("temperature: too high"), invalid("temperature: too high")]

    def script(request: ModelRequest) -> Scripted:
        if len(request.messages) == 1:
            return call("read_file", path="broken.png")
        if left:
            raise left.pop()
        return say("done")

    async with core(picture, script) as c:
        result = await c.turn()
        assert result.error is not None
        assert "temperature: too high" in result.error.message
        assert (await c.turn("again")).stop_reason == "end_turn"
        shown = c.model.requests[-1].messages[2].content[0]
        assert isinstance(shown, ToolResult)
        assert shown.images
        assert not [body for body in c.bodies(MessageAdded) if "was left out" in body.text]


@pytest.mark.asyncio
@pytest.mark.parametrize("words", ["Input is too long for requested model", "token count exceeds", "无效"])
async def test_a_large_request_that_is_rejected_in_any_words_is_compacted(workspace: Path, words: str) -> None:
    (workspace / "long.txt").write_text("some words in a long line of a file\n" * 1200)
    settings = Settings(model="m", max_tokens=1000, cards=ModelCards((("m", ModelCard(30_000)),)))

    def script(request: ModelRequest) -> Scripted:
        if request.messages[-1].text.endswith(context_window.SUMMARY_REQUEST):
            return say("Summed up.")
        if context_window.estimate(request.messages) > 12_000:
            raise invalid(words)
        return (
            say("done") if any("Summed up." in m.text for m in request.messages) else call("read_file", path="long.txt")
        )

    async with core(workspace, script, settings=settings) as c:
        assert (await c.turn("Read.")).stop_reason == "end_turn"
        assert any("Summed up." in message.text for message in c.model.requests[-1].messages)


@pytest.mark.asyncio
@pytest.mark.parametrize("window", [8_192, 16_384, 24_000, 200_000])
async def test_a_session_works_and_compacts_itself_in_a_window_of_any_size(workspace: Path, window: int) -> None:
    (workspace / "long.txt").write_text("some words in a long line of a file\n" * (window // 8))
    settings = Settings(model="m", max_tokens=16_384, cards=ModelCards((("m", ModelCard(window)),)))
    rounds = 12

    def size(request: ModelRequest) -> int:
        frame = c.session.roster.primary.frame.tokens
        return context_window.estimate(request.messages) + frame + request.max_tokens

    def script(request: ModelRequest) -> Scripted:
        if size(request) > window:
            raise model_error(ModelErrorKind.CONTEXT_WINDOW)
        if request.messages[-1].text.endswith(context_window.SUMMARY_REQUEST):
            return say("We read. " * 2000)
        if len(c.model.requests) < 2 * rounds:
            return calls([use("read_file", path="long.txt") for _ in range(24)])
        return say("done")

    async with core(workspace, script, settings=settings) as c:
        assert (await c.turn("Read it again and again.")).stop_reason == "end_turn"
        assert "Read it again and again." in c.model.requests[-1].messages[0].text
        rejected = [request for request in c.model.requests if size(request) > window]
        assert not rejected


# -- after a restart -----------------------------------------------------------------------------------------------


def thoughtful(reply: Reply) -> Reply:
    content: tuple[Block, ...] = (Thinking("hm", "c2ln"), *reply.message.content)
    return replace(reply, message=Message("assistant", content), usage=Usage(10, 10))


@pytest.mark.asyncio
@pytest.mark.parametrize("change", [False, True], ids=["same", "changed prompt"])
async def test_thinking_survives_a_restart_unless_what_comes_before_it_has_changed(
    change: bool, workspace: Path, tmp_path: Path
) -> None:
    requests: list[ModelRequest] = []

    def script(request: ModelRequest) -> Scripted:
        requests.append(request)
        if len(requests) == 1:
            return thoughtful(call("list_dir", path="."))
        return thoughtful(say("done"))

    session_id = ""
    for start in range(2):
        store = await to_thread.run_sync(SqliteStore.open, tmp_path / "state")
        async with Runtime(store=store, home=tmp_path / "home") as runtime:
            client = runtime.clients.connect(Settings(), lambda name: ScriptedModel(script))
            if start == 0:
                session = await runtime.new_session(client, cwd=workspace, roots=[workspace])
            else:
                session = await runtime.load(client, session_id, roots=[workspace])
            session_id = session.id
            assert (await session.turns.accept([Text("go")]).result()).stop_reason == "end_turn"
        await store.close()
        if change:
            (workspace / "AGENTS.md").write_text("Be brief.\n")
    before, after = requests[-2], requests[-1]
    kept = [block for message in after.messages for block in message.content if isinstance(block, Thinking)]
    assert len(kept) == (0 if change else 2)
    if not change:
        assert after.messages[: len(before.messages)] == before.messages


@pytest.mark.asyncio
async def test_a_compacted_conversation_stays_compacted_after_a_restart(workspace: Path, tmp_path: Path) -> None:
    (workspace / "long.txt").write_text("some words in a long line of a file\n" * 400)
    settings = Settings(model="m", max_tokens=1000, cards=ModelCards((("m", ModelCard(24_000)),)))
    requests: list[ModelRequest] = []

    def script(request: ModelRequest) -> Scripted:
        if request.messages[-1].text.endswith(context_window.SUMMARY_REQUEST):
            return say("Summed up.")
        requests.append(request)
        return call("read_file", path="long.txt") if len(requests) < 9 else say("done")

    session_id = ""
    for start in range(2):
        store = await to_thread.run_sync(SqliteStore.open, tmp_path / "state")
        async with Runtime(store=store, home=tmp_path / "home") as runtime:
            client = runtime.clients.connect(settings, lambda name: ScriptedModel(script))
            if start == 0:
                session = await runtime.new_session(client, cwd=workspace, roots=[workspace])
            else:
                session = await runtime.load(client, session_id, roots=[workspace])
            session_id = session.id
            assert (await session.turns.accept([Text("go")]).result()).stop_reason == "end_turn"
        await store.close()
    before, after = requests[-2], requests[-1]
    assert "Summed up." in before.messages[0].text
    assert after.messages[: len(before.messages)] == before.messages


def test_a_stored_window_that_no_longer_fits_the_history_is_not_used() -> None:
    record = context_window.to_record("p", "f", ContextWindow("s", 5, 6, frozenset({(5, 0)})))
    assert context_window.from_record(record, 9) == ContextWindow("s", 5, 6, frozenset({(5, 0)}))
    assert context_window.from_record(record, 3) == ContextWindow(thinking_start=3)


# -- tools ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("detail", "name"),
    [
        ("tools.1.custom.input_schema.properties: Property keys should match pattern", "mcp__a__y"),
        ("tools[2].function.parameters: invalid", "mcp__b__x"),
        ("tools.9.custom.name: too long", None),
        ("Invalid schema for tool 'mcp__b__x': type is required", "mcp__b__x"),
        ("tools mcp__a__y and mcp__b__x differ", None),
        ("messages.2.content.0: tool_use mcp__b__x without a result", None),
        ("model: no such model", None),
    ],
)
def test_the_tool_that_an_error_names_is_found(detail: str, name: str | None) -> None:
    tools = [ToolSpec(name, "", {"type": "object"}) for name in ("grep", "mcp__a__y", "mcp__b__x", "read_file")]
    found = rejected_tool(tools, detail)
    assert (found.name if found else None) == name


@pytest.mark.asyncio
async def test_tools_that_the_service_rejects_are_left_out_and_the_user_is_told(workspace: Path) -> None:
    rejected = {"glob", "grep"}

    def answer(request: ModelRequest) -> Scripted:
        names = sorted(tool.name for tool in request.tools)
        bad = next((index for index, name in enumerate(names) if name in rejected), None)
        if bad is not None:
            raise invalid(f"tools.{bad}.custom.input_schema: JSON schema is invalid")
        return say("done")

    async with core(workspace, answer) as c:
        assert await c.turn() is not None
        assert len(c.requests()) == 3
        assert {tool.name for tool in c.requests()[0].tools} - {
            tool.name for tool in c.requests()[-1].tools
        } == rejected
        told = [message.text for message in c.bodies(MessageAdded) if "is left out" in message.text]
        assert [text.split()[2] for text in told] == ["glob", "grep"]
        assert "JSON schema is invalid" in told[0]
        await c.turn()
        assert len(c.requests()) == 4


@pytest.mark.asyncio
async def test_tools_come_back_if_the_request_is_rejected_without_them_too(workspace: Path) -> None:
    def answer(request: ModelRequest) -> Scripted:
        raise invalid("tools.0: the account has no tools")

    async with core(workspace, answer) as c:
        await c.turn()
        first, count = c.requests()[0].tools, len(c.requests())
        assert not [message for message in c.bodies(MessageAdded) if "is left out" in message.text]
        await c.turn()
        assert c.requests()[count].tools == first
