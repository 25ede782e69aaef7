"""Failures of models, tools, gate and store: each ends what it concerns, and a session stays usable."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deputy_agents.domain.errors import (
    InvalidRequest,
    ModelError,
    ModelErrorKind,
    NotConfigured,
    StoreError,
    UnknownSession,
    WrongState,
)
from deputy_agents.domain.event import (
    AgentFinished,
    CallStatus,
    Event,
    MessageAdded,
    MessageDelta,
    StatusChanged,
    ToolCallStarted,
    UsageChanged,
)
from deputy_agents.domain.message import Reply, StopReason, Text, ToolUse, Usage
from deputy_agents.domain.outcome import AgentStatus, FailureReason
from deputy_agents.domain.settings import RetrySettings, Settings
from deputy_agents.events.commit_queue import RETRY
from deputy_agents.model.scripted import Script, call, calls, say, use
from deputy_agents.ports.model import ModelEvent, ModelRequest, TextPart, UsageReported
from deputy_agents.ports.store import Record, SessionRecord
from deputy_agents.run.tool_calls import ToolCalls
from deputy_agents.store.memory import MemoryStore
from deputy_agents.store.sqlite import FILE, SqliteStore
from deputy_agents.tool.base import ToolOutput
from deputy_agents.tool.read import ReadFile
from deputy_agents.tool.registry import file_tools
from tests.support.core import Cast, Pause, Person, StillClock, core, delegate, results
from tests.support.stored_sessions import record as session_record

BUSY = ModelError("Too many requests.", ModelErrorKind.RATE_LIMITED, retryable=True)
WRONG = ModelError("No such model.", ModelErrorKind.NOT_FOUND, action="Set `model`.")


def broken_off(*pieces: str, error: Exception = BUSY) -> Script:
    """A line that says ``pieces`` and then fails."""

    async def events() -> AsyncGenerator[ModelEvent]:
        for piece in pieces:
            yield TextPart(piece)
        raise error

    def line(request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        return events()

    return line


def parts(*pieces: str) -> Sequence[ModelEvent]:
    return [*(TextPart(piece) for piece in pieces), say("".join(pieces))]


# -- the model -----------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_failed_request_is_repeated_and_its_text_is_shown_once(workspace: Path) -> None:
    clock = StillClock()
    cast = Cast([broken_off("Hello", ", wor"), broken_off("Hel"), parts("Hello", ", world", "!")])
    async with core(workspace, cast, clock=clock) as c:
        assert (await c.turn()).stop_reason == "end_turn"
        await c.caught_up()
        said = c.bodies(MessageAdded)[-1]
        deltas = c.bodies(MessageDelta)
        assert said.text == "Hello, world!"
        assert {delta.message_id for delta in deltas} == {said.message_id}
        assert "".join(delta.text for delta in deltas) == "Hello, world!"
        assert len(clock.slept) == 2
        details = [body.detail for body in c.bodies(StatusChanged) if body.detail]
        assert details[0].startswith("rate limited, retrying in ")
        assert [detail[-5:] for detail in details] == ["(2/8)", "(3/8)"]
        assert len({len(request.messages) for request in c.requests()}) == 1


@pytest.mark.requirement("X10")
@pytest.mark.asyncio
async def test_what_failed_and_cancelled_requests_have_used_counts(workspace: Path) -> None:
    async def broken() -> AsyncGenerator[ModelEvent]:
        yield UsageReported(Usage(100, 1))
        raise BUSY

    pause = Pause(say("never"), [UsageReported(Usage(10, 1)), UsageReported(Usage(10, 5)), TextPart("so far")])
    async with core(workspace, Cast([lambda _: broken(), pause, say("ok")]), clock=StillClock()) as c:
        turn = c.start()
        await pause.asked.wait()
        await c.session.cancel()
        outcome = await turn.result()
        assert (outcome.stop_reason, outcome.usage) == ("cancelled", Usage(110, 6))
        assert [body.usage for body in c.bodies(UsageChanged)] == [Usage(100, 1), Usage(110, 6)]
        assert (await c.turn()).usage == Usage()


@pytest.mark.asyncio
async def test_a_turn_whose_repeats_are_used_up_ends_with_the_error_and_the_next_works(workspace: Path) -> None:
    settings = Settings(retry=RetrySettings(attempts=3))
    async with core(workspace, Cast([BUSY, BUSY, BUSY, say("ok")]), settings=settings, clock=StillClock()) as c:
        outcome = await c.turn()
        assert outcome.stop_reason == "error"
        assert outcome.error is not None
        assert (outcome.error.kind, outcome.error.message, outcome.error.retryable) == (
            "rate_limited",
            "Too many requests.",
            True,
        )
        assert len(c.requests()) == 3
        assert (await c.turn("again")).stop_reason == "end_turn"


@pytest.mark.parametrize("wait", [None, 10_000.0])
@pytest.mark.asyncio
async def test_what_repeating_cannot_repair_is_not_repeated(workspace: Path, wait: float | None) -> None:
    error = WRONG if wait is None else ModelError("Busy.", ModelErrorKind.OVERLOADED, retryable=True, retry_after=wait)
    async with core(workspace, Cast([error]), clock=StillClock()) as c:
        outcome = await c.turn()
        assert outcome.error is not None
        assert (outcome.error.message, outcome.error.action) == (str(error), error.action)
        assert len(c.requests()) == 1


@pytest.mark.asyncio
async def test_a_wait_that_the_server_asks_for_is_kept(workspace: Path) -> None:
    clock = StillClock()
    error = ModelError("Busy.", ModelErrorKind.OVERLOADED, retryable=True, retry_after=7)
    async with core(workspace, Cast([error, say("ok")]), clock=clock) as c:
        await c.turn()
        (slept,) = clock.slept
        assert 7 <= slept < 8


@pytest.mark.asyncio
async def test_a_child_whose_model_fails_tells_its_parent_why_and_what_it_had(workspace: Path) -> None:
    lines = [calls([use("list_dir", path=".")], "I looked."), broken_off("Then I", error=WRONG)]
    async with core(workspace, Cast([delegate("one"), say("ok")], {"one": lines})) as c:
        await c.turn()
        (result,) = results(c.requests()[-1])
        assert result.is_error
        assert result.content == "Sub-agent failed (model_error): No such model.\n\nThen I"
        assert c.child("one").failure_reason is FailureReason.MODEL_ERROR


@pytest.mark.asyncio
async def test_an_answer_that_ends_without_its_reply_is_asked_for_again(workspace: Path) -> None:
    async with core(workspace, Cast([[TextPart("Hal")], say("Hallo")]), clock=StillClock()) as c:
        assert (await c.turn()).stop_reason == "end_turn"
        assert [body.text for body in c.bodies(MessageAdded)] == ["go", "Hallo"]


@pytest.mark.parametrize("error", [RuntimeError("secret detail"), asyncio.CancelledError()])
@pytest.mark.asyncio
async def test_a_model_that_breaks_its_contract_ends_the_turn_with_an_error_without_details(
    workspace: Path, error: BaseException
) -> None:
    async def broken(request: ModelRequest) -> Reply:
        raise error

    async with core(workspace, Cast([broken, say("ok")])) as c:
        outcome = await c.turn()
        assert outcome.error is not None
        assert (outcome.error.kind, outcome.error.retryable) == ("unknown", False)
        assert "secret detail" not in outcome.error.message
        assert (await c.turn("again")).stop_reason == "end_turn"


@pytest.mark.asyncio
async def test_a_model_that_is_not_configured_says_what_to_set(workspace: Path) -> None:
    async with core(workspace, Cast([NotConfigured("Set ANTHROPIC_API_KEY.")])) as c:
        outcome = await c.turn()
        assert outcome.error is not None
        assert (outcome.error.kind, outcome.error.message) == ("not_configured", "Set ANTHROPIC_API_KEY.")


@pytest.mark.parametrize(
    ("reason", "stop"),
    [(StopReason.MAX_TOKENS, "max_tokens"), (StopReason.REFUSAL, "refusal"), (StopReason.OTHER, "end_turn")],
)
@pytest.mark.asyncio
async def test_the_stop_reason_of_a_turn_is_that_of_its_last_reply(
    workspace: Path, reason: StopReason, stop: str
) -> None:
    async with core(workspace, Cast([say("text", reason)])) as c:
        assert (await c.turn()).stop_reason == stop


# -- tools and the gate --------------------------------------------------------------------------------------------


class BrokenTool(ReadFile):
    """Breaks in the step named."""

    def __init__(self, step: str) -> None:
        super().__init__()
        self._step = step

    async def prepare(self, args: Any, context: Any) -> Any:
        if self._step == "prepare":
            raise KeyError("secret detail")
        return await super().prepare(args, context)

    async def run(self, args: Any, context: Any) -> ToolOutput:
        raise KeyError("secret detail")


@pytest.mark.requirement("X13")
@pytest.mark.parametrize("step", ["prepare", "run"])
@pytest.mark.asyncio
async def test_a_tool_that_breaks_breaks_its_own_call_and_no_other(
    workspace: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = (BrokenTool(step), *(tool for tool in file_tools() if tool.spec.name != "read_file"))
    monkeypatch.setattr("deputy_agents.session.builder.file_tools", lambda: broken)
    (workspace / "a.txt").write_text("hello\n")
    reply = calls([use("read_file", path="a.txt"), use("grep", pattern="hello")])
    async with core(workspace, Cast([reply, say("ok")])) as c:
        await c.turn()
        spoilt, fine = results(c.requests()[-1])
        assert spoilt.is_error
        assert "internal error" in spoilt.content
        assert "secret detail" not in spoilt.content
        assert "hello" in fine.content
        assert [body.tool for body in c.bodies(ToolCallStarted)] == ["read_file", "grep"]


@pytest.mark.asyncio
async def test_a_gate_that_breaks_rejects_everything(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> object:
        raise KeyError("secret detail")

    monkeypatch.setattr("deputy_agents.run.gate.Gate.decide", broken)
    reply = calls([use("list_dir", path="."), use("write_file", path="n", content="x")])
    async with core(workspace, Cast([reply, say("ok")]), Person()) as c:
        await c.turn()
        assert [result.is_error for result in results(c.requests()[-1])] == [True, True]
        assert all("gate" in told for told in c.told())
        assert not (workspace / "n").exists()
        assert [body.tool for body in c.bodies(ToolCallStarted)] == ["list_dir", "write_file"]


@pytest.mark.asyncio
async def test_calls_that_cannot_be_understood_are_answered_so_that_the_model_can_repair_them(workspace: Path) -> None:
    invalid = ToolUse("t1", "read_file", {}, error="line 1: unterminated string")
    reply = calls([invalid, use("no_such_tool"), use("read_file"), use("read_file", path="a", lines=3)])
    async with core(workspace, Cast([reply, say("ok")])) as c:
        await c.turn()
        assert all(result.is_error for result in results(c.requests()[-1]))
        json, unknown, missing, extra = c.told()
        assert "not a valid JSON object (line 1: unterminated string)" in json
        assert unknown.startswith("There is no tool 'no_such_tool' here. Tools: ")
        assert ", edit_file, " in unknown
        assert missing.startswith("path: ")
        assert extra.startswith("lines: unknown field")
        statuses = [body.status for body in c.results_seen(c.session.primary_id).values()]
        assert statuses == [CallStatus.FAILED] * 4


# -- internal errors ---------------------------------------------------------------------------------


@pytest.fixture
def faulty_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """An internal error while the driver performs an effect, not in a task of its own."""
    report = ToolCalls.report

    def broken(self: ToolCalls, effect: Any) -> None:
        if effect.use.name == "glob":
            raise ZeroDivisionError
        report(self, effect)

    monkeypatch.setattr(ToolCalls, "report", broken)


@pytest.mark.usefixtures("faulty_report")
@pytest.mark.asyncio
async def test_a_failure_in_a_childs_driver_ends_that_child_alone(workspace: Path) -> None:
    lines = {"one": [calls([use("glob", pattern="*")], "Looking.")], "two": [say("2")]}
    async with core(workspace, Cast([delegate("one", "two"), say("ok")], lines)) as c:
        assert (await c.turn()).stop_reason == "end_turn"
        assert c.told() == ["Sub-agent failed (runtime_error): an internal error ended it\n\nLooking.", "2"]


@pytest.mark.usefixtures("faulty_report")
@pytest.mark.asyncio
async def test_a_failure_in_the_primarys_driver_ends_its_session_and_no_other(workspace: Path) -> None:
    cast = Cast([call("glob", pattern="*")])
    async with core(workspace, cast) as c:
        other = await c.runtime.new_session(c.session.settings.client, cwd=workspace, roots=[workspace])
        turn, queued = c.start(), c.start("later", queue=True)
        outcome = await c.finish(turn)
        assert outcome.error is not None
        assert outcome.error.kind == "internal"
        assert (await c.finish(queued)).stop_reason == "error"
        with pytest.raises(UnknownSession):
            c.runtime.session(c.session.id)
        with pytest.raises(WrongState):
            c.start("more")
        assert await c.session.cancel() is False
        assert [session.id for session in c.runtime.live()] == [other.id]


# -- the store -----------------------------------------------------------------------------------------------------


class FailingStore(MemoryStore):
    """Keeps what it is given until ``failing``."""

    def __init__(self) -> None:
        super().__init__()
        self.failing = False

    async def create(self, record: SessionRecord) -> None:
        if self.failing:
            raise StoreError("The disk is full.")
        await super().create(record)

    async def append(self, session_id: str, events: Sequence[Event], records: Sequence[Record] = ()) -> None:
        if self.failing:
            raise StoreError("The disk is full.")
        await super().append(session_id, events, records)

    async def update(self, record: SessionRecord) -> None:
        if self.failing:
            raise StoreError("The disk is full.")
        await super().update(record)


@pytest.mark.asyncio
async def test_a_store_that_fails_does_not_stop_the_agents_nor_hide_what_they_do(
    workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = FailingStore()
    async with core(workspace, Cast([delegate("one"), say("ok")], {"one": [say("1")]}), store=store) as c:
        await c.caught_up()
        store.failing = True
        assert (await c.turn()).stop_reason == "end_turn"
        assert c.told() == ["1"]
        await c.caught_up()
        assert [event.seq for event in c.durable()] == list(range(1, c.session.log.last_seq + 1))
        late = c.session.log.subscribe(0)
        late.close()
        seen = [event async for event in late]
        assert [event for event in seen if event.seq] == c.durable()
    errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert any("cannot be stored at the moment" in message for message in errors)


@pytest.mark.asyncio
async def test_what_a_session_stores_is_what_its_model_was_told(workspace: Path) -> None:
    store = MemoryStore()
    async with core(workspace, Cast([call("list_dir", path="."), say("ok")]), store=store) as c:
        await c.turn()
        history = await store.history(c.session.id, c.session.primary_id)
        assert tuple(history[:-1]) == c.requests()[-1].messages
        assert history[-1].text == "ok"
        (record,) = (await c.runtime.sessions()).records
        assert (record.title, record.agent_count) == ("go", 1)
        assert replace(record, agent_count=1) == c.session.record


@pytest.mark.asyncio
async def test_only_one_end_is_reported_for_a_run(workspace: Path) -> None:
    pause = Pause(say("1"))
    async with core(workspace, Cast([delegate("one"), say("ok")], {"one": [pause]})) as c:
        turn = c.start()
        await c.child_started("one")
        pause.go.set()
        cancelled = await c.session.cancel_agent(c.child("one").info.agent_id)
        await c.finish(turn)
        (finished,) = c.bodies(AgentFinished)
        assert finished.status is (AgentStatus.CANCELLED if cancelled else AgentStatus.COMPLETED)


@pytest.mark.asyncio
async def test_a_prompt_without_content_is_rejected(workspace: Path) -> None:
    async with core(workspace, Cast([])) as c:
        for blocks in ([], [Text("  \n")]):
            with pytest.raises(InvalidRequest, match="empty"):
                c.session.turns.accept(blocks)
        assert c.session.turns.running is None


@pytest.mark.asyncio
async def test_a_disk_that_is_full_in_the_midst_costs_nothing_once_there_is_room_again(
    workspace: Path, tmp_path: Path
) -> None:
    store = await asyncio.to_thread(SqliteStore.open, tmp_path / "state")

    async def pages(most: int) -> None:
        sql = f"PRAGMA max_page_count = {most}"
        await store.writer.run(lambda connection: connection.execute(sql).fetchall())

    clock = StillClock()
    script = Cast([delegate("one"), say("ok"), delegate("two"), say("ok")], {"one": [say("1")], "two": [say("2")]})
    async with core(workspace, script, store=store, clock=clock) as c:
        await pages(1)
        await c.turn("long " * 100_000)
        assert c.told() == ["1"]
        assert c.session.keeper.store_problem is not None
        assert "disk is full" in c.session.keeper.store_problem
        assert len(await store.events(c.session.id)) < c.session.log.last_seq
        await pages(1_000_000)
        clock.advance(RETRY + 1)
        await c.turn()
        await c.caught_up()
        assert c.session.keeper.store_problem is None
        assert list(await store.events(c.session.id)) == c.durable()
        assert len(await store.history(c.session.id, c.session.primary_id)) == 8
    await store.close()


@pytest.mark.asyncio
async def test_a_session_that_begins_while_the_store_cannot_be_used_is_stored_when_it_can(workspace: Path) -> None:
    store = FailingStore()
    store.failing = True
    clock = StillClock()
    async with core(workspace, Cast([say("one"), say("two")]), store=store, clock=clock) as c:
        await c.turn()
        assert c.session.keeper.store_problem is not None
        store.failing = False
        clock.advance(RETRY + 1)
        await c.turn()
        await c.caught_up()
        assert c.session.keeper.store_problem is None
        assert list(await store.events(c.session.id)) == c.durable()


@pytest.mark.asyncio
async def test_what_is_not_stored_is_tried_once_more_when_the_session_closes(workspace: Path, tmp_path: Path) -> None:
    class Kept(FailingStore):
        async def close(self) -> None: ...

    store = Kept()
    async with core(workspace, Cast([say("one")]), store=store) as c:
        await c.caught_up()
        store.failing = True
        await c.turn()
        assert c.session.keeper.store_problem is not None
        await c.caught_up()
        told = c.durable()
        store.failing = False
    assert list(await store.events(c.session.id))[: len(told)] == told


@pytest.mark.asyncio
async def test_in_a_file_with_damaged_pages_a_session_begins_in_memory_and_says_so(
    workspace: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "state"
    store = await asyncio.to_thread(SqliteStore.open, folder)
    for number in range(200):
        await store.create(session_record(f"s{number}", title="x" * 500))
    await store.close()
    file = folder / FILE
    whole, schema = file.read_bytes(), 32 * 4096
    file.write_bytes(whole[:schema] + b"\x55" * (len(whole) - schema))
    damaged = file.read_bytes()
    store = await asyncio.to_thread(SqliteStore.open, folder)
    async with core(workspace, Cast([say("here I am")]), store=store) as c:
        assert (await c.turn()).stop_reason == "end_turn"
        assert c.session.keeper.store_problem is not None
        assert "damaged" in c.session.keeper.store_problem
    await store.close()
    assert file.read_bytes() == damaged
