"""Compaction: what the model receives when the history outgrows its context window, and that the history stays."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.errors import ModelErrorKind
from deputy_agents.domain.event import MessageAdded, StatusChanged
from deputy_agents.domain.message import (
    Block,
    Image,
    Message,
    Reply,
    StopReason,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    Usage,
)
from deputy_agents.domain.model_card import ModelCard, ModelCards, Price
from deputy_agents.domain.settings import Settings
from deputy_agents.model.error_mapping import model_error
from deputy_agents.model.scripted import Scripted, call, say
from deputy_agents.ports.model import ModelRequest
from deputy_agents.run import context_window
from deputy_agents.run.context_window import SUMMARY_REQUEST, ContextWindow
from tests.support.core import Cast, Core, StillClock, core, delegate
from tests.support.history_rules import broken_history_rules

WINDOW = 20_000
SMALL = Settings(model="m", max_tokens=2_000, cards=ModelCards((("m", ModelCard(WINDOW, Price(1, 1, 1, 1))),)))


# -- the pure part -------------------------------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """Valid histories: rounds of calls with their results, answers, prompts."""
    history = [Message("user", (Text("the task"),))]
    for number in range(draw(st.integers(0, 12))):
        size = draw(st.integers(1, 400))
        match draw(st.integers(0, 2)):
            case 0:
                uses = [
                    ToolUse(f"t{number}-{i}", "read_file", {"path": f"f{i}"}) for i in range(draw(st.integers(1, 3)))
                ]
                thinking = (Thinking("hm", "c2ln"),) if draw(st.booleans()) else ()
                history.append(Message("assistant", (*thinking, *uses)))
                notes = (Text("a note"),) if draw(st.booleans()) else ()
                history.append(Message("user", (*(ToolResult(use.id, "x" * size) for use in uses), *notes)))
            case 1:
                history += [Message("assistant", (Text("y" * size),)), Message("user", (Text("more"),))]
            case _:
                history.append(Message("user", (Text("and " + "z" * size),)))
    return history


# -- images ----------------------------------------------------------------------------------------------------------


def _with_images(counts: list[int], size: int) -> list[Message]:
    """A history with messages that have so many images, in turn in a prompt and in a result."""
    history: list[Message] = []
    for number, count in enumerate(counts):
        images = tuple(Image("image/png", "x" * size) for _ in range(count))
        if number % 2:
            history.append(Message("assistant", (ToolUse(f"t{number}", "paint", {}),)))
            history.append(Message("user", (ToolResult(f"t{number}", "painted", images=images),)))
        else:
            history += [Message("assistant", (Text("Go on."),)), Message("user", (Text("see"), *images))]
    return history[1:]


def _sent_images(history: list[Message], window: ContextWindow) -> list[Image]:
    blocks = [block for message in context_window.request_messages(history, window) for block in message.content]
    shown = [block.images if isinstance(block, ToolResult) else (block,) for block in blocks]
    return [image for images in shown for image in images if isinstance(image, Image)]


@given(st.lists(st.integers(0, 8), min_size=1, max_size=60), st.sampled_from([1, 500_000, 4_000_000]), st.data())
def test_no_request_has_more_images_than_services_accept(counts: list[int], size: int, data: st.DataObject) -> None:
    history = _with_images(counts, size)
    window = ContextWindow()
    changes = 0
    for length in sorted(data.draw(st.sets(st.integers(0, len(history)), max_size=10)) | {len(history)}):
        bounded = context_window.with_bounded_images(history[:length], window)
        changes += bounded != window
        window = bounded
        sent = _sent_images(history[:length], window)
        assert len(sent) <= context_window.MAX_IMAGES
        assert len(sent) * size <= context_window.MAX_IMAGE_BYTES
        assert context_window.with_bounded_images(history[:length], window) == window
    total = sum(counts)
    if total <= context_window.MAX_IMAGES and total * size <= context_window.MAX_IMAGE_BYTES:
        assert changes == 0
        assert len(_sent_images(history, window)) == total
    kept = context_window.MAX_IMAGES // 2 - 8
    assert len(_sent_images(history, window)) >= min(total, kept, context_window.MAX_IMAGE_BYTES // size // 2 - 8)
    assert broken_history_rules(context_window.request_messages(history, window)) == []


def test_the_oldest_images_are_left_out_with_a_text_in_their_place() -> None:
    history = _with_images([60, 8, 60], 10)
    window = context_window.with_bounded_images(history, ContextWindow())
    first, _, result, _, last = context_window.request_messages(history, window)
    assert [block for block in first.content[1:] if block != Text(context_window.TOO_MANY_IMAGES)] == []
    (painted,) = result.content
    assert isinstance(painted, ToolResult)
    assert (painted.content, painted.images) == (f"painted\n{context_window.TOO_MANY_IMAGES}", ())
    assert sum(isinstance(block, Image) for block in last.content) == 50


@pytest.mark.requirement("X19")
@given(histories(), st.integers(0, 400), st.data())
def test_every_compacted_request_is_valid(history: list[Message], keep: int, data: st.DataObject) -> None:
    window = ContextWindow()
    for _ in range(2):
        at = context_window.cut_index(history, window.start, keep)
        if at is None:
            break
        window = context_window.compacted(history, window, at, data.draw(st.sampled_from(["", "We decided."])))
        sent = context_window.request_messages(history, window)
        assert broken_history_rules(sent) == []
        assert "the task" in sent[0].text
        assert sent[-1] == history[-1] or not any(isinstance(block, Thinking) for block in sent[-1].content)
        keep //= 2


@given(histories(), st.integers(0, 14))
def test_a_changed_frame_removes_earlier_thinking_and_nothing_else(history: list[Message], length: int) -> None:
    sent = context_window.request_messages(
        history, context_window.without_earlier_thinking(ContextWindow(), min(length, len(history)))
    )
    assert broken_history_rules(sent) == []
    without = [replace(m, content=tuple(b for b in m.content if not isinstance(b, Thinking))) for m in history]
    assert list(sent[:length]) == without[:length]
    assert list(sent[length:]) == history[length:]


def test_the_kept_part_is_as_long_as_allowed_and_never_separates_a_call_from_its_result() -> None:
    history = [
        Message("user", (Text("a" * 350),)),
        Message("assistant", (ToolUse("t", "grep"),)),
        Message("user", (ToolResult("t", "b" * 350),)),
        Message("assistant", (Text("c" * 350),)),
        Message("user", (Text("d" * 350),)),
    ]
    assert context_window.cut_index(history, 0, 10_000) == 1
    assert context_window.cut_index(history, 0, 250) == 3
    assert context_window.cut_index(history, 0, 120) == 4
    assert context_window.cut_index(history, 0, 0) == 4
    assert context_window.cut_index(history, 4, 0) is None
    assert context_window.cut_index(history[:1], 0, 0) is None


def test_the_replacement_contains_the_task_the_users_messages_and_the_files() -> None:
    history = [
        Message("user", (Text("Fix the retry loop."),)),
        Message("assistant", (ToolUse("a", "read_file", {"path": "src/a.py"}), ToolUse("b", "grep", {"pattern": "x"}))),
        Message("user", (ToolResult("a", "text"), ToolResult("b", "none"), Text("Leave the tests alone."))),
        Message("assistant", (ToolUse("c", "edit_file", {"path": "src/a.py"}),)),
        Message("user", (ToolResult("c", "Changed."),)),
        Message("assistant", (Text("Now the rest."),)),
    ]
    summary = context_window.compacted(history, ContextWindow(), 5, "We keep the cap at 8.").summary
    for part in ("Fix the retry loop.", "Leave the tests alone.", "- src/a.py (edit_file)", "We keep the cap at 8."):
        assert part in summary
    assert "text" not in summary.replace("context", "")


def test_the_size_is_the_providers_count_plus_an_estimate_of_newer_messages() -> None:
    history = [Message("user", (Text("a" * 3500),)), Message("assistant", (Text("b" * 3500),))]
    assert context_window.request_size(history, ContextWindow(), 500) == 500 + 2 * 1010
    window = context_window.with_usage(ContextWindow(), Usage(4000, 100, 300, 200), 2)
    assert context_window.request_size(history, window, 500) == 4600
    assert context_window.request_size([*history, history[0]], window, 500) == 4600 + 1010
    assert context_window.with_usage(window, Usage(), 3) == window


# -- in a session --------------------------------------------------------------------------------------------------


def summaries(c: Core) -> list[ModelRequest]:
    return [r for r in c.model.requests if r.messages[-1].text.endswith(SUMMARY_REQUEST)]


def is_summary(request: ModelRequest) -> bool:
    return request.messages[-1].text.endswith(SUMMARY_REQUEST)


class Reader:
    """Reads the same long file again and again, then answers. ``summary`` is its reply to the summary request."""

    def __init__(self, rounds: int, summary: Reply | Exception) -> None:
        self._left = rounds
        self._summary = summary

    def __call__(self, request: ModelRequest) -> Scripted:
        if is_summary(request):
            if isinstance(self._summary, Exception):
                raise self._summary
            return self._summary
        if not self._left:
            return say("I have read it all.")
        self._left -= 1
        reply = call("read_file", path="long.txt")
        return replace(reply, message=Message("assistant", (Thinking("hm", "c2ln"), *reply.message.content)))


@pytest.fixture
def long_file(workspace: Path) -> Path:
    (workspace / "long.txt").write_text("a line of some words that fill the window\n" * 250)
    return workspace


@pytest.mark.requirement("X19")
@pytest.mark.asyncio
async def test_a_long_session_compacts_itself_continues_and_notifies_the_user(long_file: Path) -> None:
    script = Reader(9, say("We want all of the file; nothing is decided.", usage=Usage(1000, 100)))
    async with core(long_file, script, settings=SMALL) as c:
        assert (await c.turn("Read long.txt nine times.")).stop_reason == "end_turn"
        await c.caught_up()
        asked = summaries(c)
        assert asked
        for request in c.model.requests:
            assert context_window.estimate(request.messages) < WINDOW
        after = c.model.requests[c.model.requests.index(asked[0]) + 1]
        assert "Read long.txt nine times." in after.messages[0].text
        assert "nothing is decided" in after.messages[0].text
        assert "- long.txt (read_file)" in after.messages[0].text
        notices = [body.text for body in c.bodies(MessageAdded) if "The conversation was compacted" in body.text]
        assert len(notices) == len(asked)
        assert any("compacting" in (body.detail or "") for body in c.bodies(StatusChanged))
        cost = c.session.agents()[0].usage
        assert cost.input_tokens == 1000 * len(asked)
        whole = await c.store.history(c.session.id, c.session.primary_id)
        assert sum(isinstance(block, ToolResult) for message in whole for block in message.content) == 9
        assert whole[0].text == "Read long.txt nine times."


@pytest.mark.requirement("X19")
@pytest.mark.asyncio
async def test_thinking_from_before_a_compaction_is_not_sent_and_later_thinking_is(long_file: Path) -> None:
    async with core(long_file, Reader(9, say("Summed up.")), settings=SMALL) as c:
        await c.turn()
        asked = summaries(c)
        at = c.model.requests.index(asked[0])
        first, second = c.model.requests[at + 1 : at + 3]
        assert not any(isinstance(block, Thinking) for message in first.messages for block in message.content)
        assert isinstance(second.messages[-2].content[0], Thinking)
        assert second.messages[: len(first.messages)] == first.messages


@pytest.mark.requirement("X19")
@pytest.mark.asyncio
@pytest.mark.parametrize(
    "summary",
    [
        model_error(ModelErrorKind.CONTEXT_WINDOW),
        model_error(ModelErrorKind.INVALID_REQUEST),
        say("I must not.", StopReason.REFUSAL),
        call("read_file", path="long.txt"),
    ],
)
async def test_compaction_without_a_summary_of_the_model_keeps_the_task(
    long_file: Path, summary: Reply | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        async with core(long_file, Reader(9, summary), settings=SMALL) as c:
            assert (await c.turn("Read it.")).stop_reason == "end_turn"
            last = c.model.requests[-1].messages[0]
            assert "Read it." in last.text
            assert "I must not" not in last.text


@pytest.mark.requirement("X19")
@pytest.mark.asyncio
async def test_a_summary_request_is_retried_like_any_request(long_file: Path) -> None:
    left = [model_error(ModelErrorKind.OVERLOADED), model_error(ModelErrorKind.CUT_STREAM)]
    reader = Reader(9, say("Summed up."))

    def script(request: ModelRequest) -> Scripted:
        if is_summary(request) and left:
            raise left.pop()
        return reader(request)

    async with core(long_file, script, settings=SMALL, clock=StillClock()) as c:
        assert (await c.turn()).stop_reason == "end_turn"
        details = [body.detail or "" for body in c.bodies(StatusChanged)]
        assert any(detail.startswith("answer cut off, retrying") for detail in details)


@pytest.mark.requirement("X19")
@pytest.mark.asyncio
async def test_a_request_that_the_service_rejects_as_too_long_is_compacted_and_sent_again(workspace: Path) -> None:
    refused = [model_error(ModelErrorKind.CONTEXT_WINDOW)]

    def script(request: ModelRequest) -> Scripted:
        if is_summary(request):
            return say("Summed up.")
        if len(request.messages) > 4 and refused:
            raise refused.pop()
        if len(c.model.requests) < 5:
            return call("list_dir", path=".")
        return say("done")

    async with core(workspace, script) as c:
        assert (await c.turn("Look.")).stop_reason == "end_turn"
        assert "Summed up." in c.model.requests[-1].messages[0].text


@pytest.mark.asyncio
async def test_a_conversation_that_cannot_be_compacted_fails_with_the_error_of_the_service(workspace: Path) -> None:
    async with core(workspace, Cast([model_error(ModelErrorKind.CONTEXT_WINDOW)])) as c:
        outcome = await c.turn("A single prompt.")
        assert outcome.error is not None
        assert outcome.error.kind == "context_window"
        assert "new session" in outcome.error.action


@pytest.mark.requirement("X19")
@pytest.mark.asyncio
async def test_a_child_is_compacted_too_and_its_parent_receives_only_its_answer(long_file: Path) -> None:
    reader = Reader(9, say("Summed up."))
    primary = iter([delegate("read"), say("ok")])
    async with core(long_file, lambda r: next(primary) if r.depth == 0 else reader(r), settings=SMALL) as c:
        await c.turn()
        assert summaries(c)
        assert c.told() == ["I have read it all."]


@pytest.mark.asyncio
async def test_a_new_model_is_not_sent_the_thinking_of_the_previous_one(workspace: Path) -> None:
    def thoughtful(text: str) -> Reply:
        content: tuple[Block, ...] = (Thinking("hm", "c2ln"), Text(text))
        return Reply(Message("assistant", content), StopReason.END_TURN)

    async with core(workspace, Cast([thoughtful("1"), thoughtful("2"), thoughtful("3")])) as c:
        await c.turn("one")
        await c.turn("two")
        c.session.set_model("another")
        await c.turn("three")
        _, second, third = c.requests()
        assert isinstance(second.messages[1].content[0], Thinking)
        assert not any(isinstance(block, Thinking) for message in third.messages for block in message.content)
