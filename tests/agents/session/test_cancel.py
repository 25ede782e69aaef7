"""Cancelling: one child, a turn, a session, the whole runtime; whatever an agent is doing at that moment."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import anyio
import pytest

from deputy_agents.domain.errors import ModelError, ModelErrorKind, UnknownAgent, UnknownSession, WrongState
from deputy_agents.domain.event import (
    AgentFinished,
    CallStatus,
    MessageAdded,
    PermissionResolved,
    PromptQueue,
    ResolvedBy,
    StatusChanged,
    ToolCallStarted,
    ToolCallUpdated,
    TurnFinished,
)
from deputy_agents.domain.message import Text, Usage
from deputy_agents.domain.outcome import CANCELLED_BY_USER, CANCELLED_WITH_PARENT, AgentStatus
from deputy_agents.domain.settings import Limits, Settings
from deputy_agents.domain.turn import TurnResult
from deputy_agents.model.scripted import ScriptedModel, call, calls, say, use
from deputy_agents.ports.model import ModelRequest, TextPart
from deputy_agents.session.runtime import Runtime
from deputy_agents.store.memory import MemoryStore
from deputy_agents.tool.base import ToolOutput
from deputy_agents.tool.read import ReadFile
from tests.support.core import (
    BOUND,
    Cast,
    Core,
    Pause,
    Person,
    StillClock,
    core,
    delegate,
    edit,
    results,
    silent,
    small,
)

BUSY = ModelError("Too many requests.", ModelErrorKind.RATE_LIMITED, retryable=True)
IMPATIENT = Settings(limits=Limits(cancel_grace=0.05))


async def bounded(wait: Awaitable[Any]) -> Any:
    async with asyncio.timeout(BOUND):
        return await wait


async def cancel_child(c: Core, label: str) -> bool:
    return await bounded(c.session.cancel_agent(c.child(label).info.agent_id))


class StuckTool(ReadFile):
    """Reading that hangs, politely (``deaf`` false) or beyond every cancel until ``free``."""

    def __init__(self, *, deaf: bool = False) -> None:
        super().__init__()
        self.running = asyncio.Event()
        self.free = asyncio.Event()
        self._deaf = deaf

    async def run(self, args: object, context: object) -> ToolOutput:
        self.running.set()
        with anyio.CancelScope(shield=self._deaf):
            await self.free.wait()
        return ToolOutput("read after all")


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> StuckTool:
    return _replace_read_file(monkeypatch, StuckTool())


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> StuckTool:
    return _replace_read_file(monkeypatch, StuckTool(deaf=True))


@pytest.fixture(autouse=True)
def _files(workspace: Path) -> None:
    for name in ("a.py", "b.py"):
        (workspace / name).write_text("text\n")


def _replace_read_file(monkeypatch: pytest.MonkeyPatch, tool: StuckTool) -> StuckTool:
    monkeypatch.setattr("deputy_agents.session.builder.file_tools", lambda: (tool,))
    return tool


# -- one child -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("C5")
@pytest.mark.asyncio
async def test_cancelling_one_child_of_three_leaves_its_siblings_and_its_parent_running(workspace: Path) -> None:
    pauses = {name: Pause(say(f"answer of {name}"), [TextPart("so far")]) for name in ("one", "two", "three")}
    cast = Cast([delegate(*pauses), say("ok")], {name: [pause] for name, pause in pauses.items()})
    async with core(workspace, cast) as c:
        turn = c.start()
        for pause in pauses.values():
            await bounded(pause.asked.wait())
        assert await cancel_child(c, "two")
        assert pauses["two"].over.is_set()
        assert pauses["two"].broken_off
        assert c.child("two").status is AgentStatus.CANCELLED
        assert not pauses["one"].over.is_set()
        assert not pauses["three"].over.is_set()
        pauses["one"].go.set()
        pauses["three"].go.set()
        assert (await c.finish(turn)).stop_reason == "end_turn"
        told = results(c.requests()[-1])
        assert [result.content for result in told] == ["answer of one", CANCELLED_BY_USER, "answer of three"]
        assert [result.is_error for result in told] == [False, True, False]
        assert c.results_seen(c.session.primary_id)[told[1].tool_use_id].status is CallStatus.CANCELLED


@pytest.mark.requirement("C5")
@pytest.mark.asyncio
async def test_cancelling_a_child_stops_the_tool_that_it_runs(workspace: Path, stuck: StuckTool) -> None:
    cast = Cast([delegate("reads"), say("ok")], {"reads": [call("read_file", path="a.py")]})
    async with core(workspace, cast) as c:
        turn = c.start()
        await bounded(stuck.running.wait())
        assert await cancel_child(c, "reads")
        await c.finish(turn)
        assert c.told() == [CANCELLED_BY_USER]
        (update,) = c.results_seen(c.child("reads").info.agent_id).values()
        assert update.status is CallStatus.CANCELLED
        assert str(update.content).startswith("Interrupted")


@pytest.mark.asyncio
async def test_a_tool_that_does_not_hear_the_cancel_is_left_behind_after_the_grace(
    workspace: Path, deaf: StuckTool
) -> None:
    cast = Cast([delegate("reads"), say("ok")], {"reads": [call("read_file", path="a.py")]})
    async with core(workspace, cast, settings=IMPATIENT) as c:
        turn = c.start()
        await bounded(deaf.running.wait())
        assert await cancel_child(c, "reads")
        assert not deaf.free.is_set()
        await c.finish(turn)
        assert c.told() == [CANCELLED_BY_USER]
        deaf.free.set()  # what it answers now is nobody's


@pytest.mark.asyncio
async def test_cancelling_a_child_withdraws_its_permission_request(workspace: Path) -> None:
    person = silent()
    cast = Cast([delegate("edits", mode="default"), say("ok")], {"edits": [call("write_file", path="n", content="x")]})
    async with core(workspace, cast, person) as c:
        turn = c.start()
        permission_request = await c.permission_request()
        assert await cancel_child(c, "edits")
        assert c.session.permission_requests() == []
        assert person.withdrawn == [permission_request.request_id]
        await c.finish(turn)
        assert [(body.request_id, body.by) for body in c.bodies(PermissionResolved)] == [
            (permission_request.request_id, ResolvedBy.CANCELLED)
        ]
        assert c.told() == [CANCELLED_BY_USER]
        assert not (workspace / "n").exists()


@pytest.mark.asyncio
async def test_a_queued_child_can_be_cancelled_and_never_starts(workspace: Path) -> None:
    first = Pause(say("1"))
    cast = Cast([delegate("first", "second", "third"), say("ok")], {"first": [first], "third": [say("3")]})
    async with core(workspace, cast, settings=small(max_parallel=1)) as c:
        turn = c.start()
        await bounded(first.asked.wait())
        assert (c.child("second").status, c.child("second").queue_position) == (AgentStatus.PENDING, 1)
        assert await cancel_child(c, "second")
        await c.seen(StatusChanged, lambda told: told.queue_position == 1)
        assert (c.child("third").status, c.child("third").queue_position) == (AgentStatus.PENDING, 1)
        first.go.set()
        await c.finish(turn)
        assert c.told() == ["1", CANCELLED_BY_USER, "3"]
        assert c.requests("second") == []


@pytest.mark.asyncio
async def test_a_child_that_waits_to_retry_can_be_cancelled_and_what_it_had_shown_is_kept(workspace: Path) -> None:
    clock = StillClock(hold=True)

    async def half(request: ModelRequest) -> Any:
        async def events() -> Any:
            yield TextPart("Half an ans")
            raise BUSY

        return events()

    cast = Cast([delegate("unlucky"), say("ok")], {"unlucky": [half]})
    async with core(workspace, cast, clock=clock) as c:
        turn = c.start()
        await bounded(clock.sleeping.wait())
        assert await cancel_child(c, "unlucky")
        await c.finish(turn)
        assert c.told() == [CANCELLED_BY_USER]
        child = c.child("unlucky").info.agent_id
        assert [body.text for body in c.bodies(MessageAdded, child)] == ["unlucky", "Half an ans"]
        (finished,) = c.bodies(AgentFinished)
        assert (finished.status, finished.result) == (AgentStatus.CANCELLED, "Half an ans")


@pytest.mark.asyncio
async def test_only_the_first_of_two_cancels_counts_and_both_return_when_the_child_has_stopped(workspace: Path) -> None:
    pause = Pause(say("never"))
    async with core(workspace, Cast([delegate("one"), say("ok")], {"one": [pause]})) as c:
        turn = c.start()
        await bounded(pause.asked.wait())
        agent_id = c.child("one").info.agent_id
        both = await bounded(asyncio.gather(c.session.cancel_agent(agent_id), c.session.cancel_agent(agent_id)))
        assert both == [True, False]
        assert await bounded(c.session.cancel_agent(agent_id)) is False
        await c.finish(turn)
        assert len(c.bodies(AgentFinished)) == 1


@pytest.mark.asyncio
async def test_a_child_that_ended_by_itself_is_not_cancelled(workspace: Path) -> None:
    async with core(workspace, Cast([delegate("one"), say("ok")], {"one": [say("1")]})) as c:
        await c.turn()
        assert await cancel_child(c, "one") is False
        assert c.child("one").status is AgentStatus.COMPLETED


@pytest.mark.asyncio
async def test_cancelling_an_agent_that_does_not_exist_is_an_error(workspace: Path) -> None:
    async with core(workspace, Cast([])) as c:
        with pytest.raises(UnknownAgent):
            await c.session.cancel_agent("nobody")


@pytest.mark.asyncio
async def test_a_child_can_be_cancelled_between_its_acceptance_and_its_first_step(workspace: Path) -> None:
    async def cancel_at_once(c: Core) -> None:
        async for event in c.session.log.subscribe():
            if event.agent_id not in (None, c.session.primary_id):
                await c.session.cancel_agent(event.agent_id)
                return

    async with core(workspace, Cast([delegate("one"), say("ok")], {"one": [Pause(say("1"))]})) as c:
        watcher = asyncio.create_task(cancel_at_once(c))
        await c.turn()
        await bounded(watcher)
        assert c.told() == [CANCELLED_BY_USER]


# -- the turn and the session --------------------------------------------------------------------------------------


@pytest.mark.requirement("X13")
@pytest.mark.asyncio
async def test_cancelling_the_turn_stops_all_children_and_the_next_prompt_works(workspace: Path) -> None:
    pauses = {name: Pause(say(name)) for name in ("one", "two")}
    lines = {name: [pause] for name, pause in pauses.items()}
    reply = calls([*(use("spawn_agent", instructions=name) for name in lines), use("list_dir", path=".")], "On it.")
    async with core(workspace, Cast([reply, say("Hello again.")], lines)) as c:
        turn = c.start()
        for pause in pauses.values():
            await bounded(pause.asked.wait())
        assert await bounded(c.session.turns.cancel())
        assert all(pause.over.is_set() for pause in pauses.values())
        assert await c.finish(turn) == TurnResult("cancelled", Usage())
        assert [c.child(name).status for name in lines] == [AgentStatus.CANCELLED, AgentStatus.CANCELLED]
        assert (await c.turn("and now?")).stop_reason == "end_turn"
        history = c.requests()[-1].messages
        told = [block.content for block in history[2].content if block.type == "tool_result"]
        assert told[:2] == [CANCELLED_WITH_PARENT, CANCELLED_WITH_PARENT]
        assert [message.text for message in history] == ["go", "On it.", "", "and now?"]
        await c.caught_up()
        finished = [body.stop_reason for body in c.bodies(TurnFinished)]
        assert finished == ["cancelled", "end_turn"]


@pytest.mark.requirement("X13")
@pytest.mark.asyncio
async def test_text_shown_before_a_cancel_stays_on_the_screen_and_in_the_history(workspace: Path) -> None:
    pause = Pause(say("The whole answer."), [TextPart("The who")])
    async with core(workspace, Cast([pause, say("ok")])) as c:
        turn = c.start()
        await bounded(pause.asked.wait())
        await c.session.log.flush()
        assert await bounded(c.session.turns.cancel())
        await c.finish(turn)
        assert [body.text for body in c.bodies(MessageAdded)] == ["go", "The who"]
        await c.turn("next")
        assert [message.text for message in c.requests()[-1].messages] == ["go", "The who", "next"]


@pytest.mark.requirement("X13")
@pytest.mark.parametrize("at", ["tool", "question", "retry", "deciding"])
@pytest.mark.asyncio
async def test_whatever_a_turn_was_doing_its_history_is_valid_after_a_cancel(
    workspace: Path, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = StuckTool()
    clock = StillClock(hold=True)
    match at:
        case "retry":
            line: Any = BUSY
        case "question":
            line = calls([use("write_file", path="n", content="x"), use("list_dir", path=".")])
        case _:
            line = calls([use("read_file", path="a.py"), use("read_file", path="b.py")])
            monkeypatch.setattr("deputy_agents.session.builder.file_tools", lambda: (tool,))
    if at == "deciding":
        monkeypatch.setattr(tool, "prepare", tool.run)
    async with core(workspace, Cast([line, say("ok")]), silent(), clock=clock) as c:
        turn = c.start()
        match at:
            case "retry":
                await bounded(clock.sleeping.wait())
            case "question":
                await c.permission_request()
            case _:
                await bounded(tool.running.wait())
        assert await bounded(c.session.turns.cancel())
        assert (await c.finish(turn)).stop_reason == "cancelled"
        assert (await c.turn("next")).stop_reason == "end_turn"
        await c.caught_up()
        started = [body.tool_call_id for body in c.bodies(ToolCallStarted)]
        updated = {body.tool_call_id for body in c.bodies(ToolCallUpdated)}
        assert updated <= set(started)
        assert len(started) == len(set(started))


@pytest.mark.asyncio
async def test_without_a_turn_there_is_nothing_to_cancel(workspace: Path) -> None:
    async with core(workspace, Cast([])) as c:
        assert await c.session.turns.cancel() is False
        assert await c.session.cancel() is False


@pytest.mark.asyncio
async def test_cancelling_the_session_ends_the_turn_and_empties_the_prompt_queue(workspace: Path) -> None:
    pause = Pause(say("never"))
    async with core(workspace, Cast([pause])) as c:
        running, waiting = c.start(), c.start("later", queue=True)
        await bounded(pause.asked.wait())
        assert await bounded(c.session.cancel())
        assert [(await c.finish(turn)).stop_reason for turn in (running, waiting)] == ["cancelled", "cancelled"]
        await c.caught_up()
        assert [body.entries for body in c.bodies(PromptQueue)][-1] == ()
        assert len(c.requests()) == 1


@pytest.mark.asyncio
async def test_cancelling_the_primary_is_cancelling_the_session(workspace: Path) -> None:
    pause = Pause(say("never"))
    async with core(workspace, Cast([delegate("one")], {"one": [pause]})) as c:
        turn = c.start()
        await bounded(pause.asked.wait())
        assert await bounded(c.session.cancel_agent(c.session.primary_id))
        assert (await c.finish(turn)).stop_reason == "cancelled"
        assert pause.over.is_set()
        (finished,) = c.bodies(AgentFinished)
        assert finished.error == CANCELLED_WITH_PARENT


@pytest.mark.asyncio
async def test_a_turn_whose_tool_is_deaf_ends_after_the_grace(workspace: Path, deaf: StuckTool) -> None:
    async with core(workspace, Cast([call("read_file", path="a.py"), say("ok")]), settings=IMPATIENT) as c:
        turn = c.start()
        await bounded(deaf.running.wait())
        assert await bounded(c.session.turns.cancel())
        assert (await c.finish(turn)).stop_reason == "cancelled"
        assert (await c.turn("next")).stop_reason == "end_turn"
        deaf.free.set()


# -- the end of everything -----------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_leaving_the_runtime_ends_running_agents_first_and_stores_their_ends(workspace: Path) -> None:
    store = MemoryStore()
    pause = Pause(say("never"))
    async with core(workspace, Cast([delegate("one", "two")], {"one": [pause], "two": [pause]}), store=store) as c:
        turn = c.start()
        queued = c.start("later", queue=True)
        await bounded(pause.asked.wait())
    assert (await c.finish(turn)).stop_reason == "cancelled"
    assert (await c.finish(queued)).stop_reason == "cancelled"
    stored = await store.events(c.session.id)
    ends = [event.body.status for event in stored if isinstance(event.body, AgentFinished)]
    assert ends == [AgentStatus.CANCELLED, AgentStatus.CANCELLED]
    assert stored == c.durable()
    assert pause.over.is_set()


@pytest.mark.asyncio
async def test_a_cancel_from_around_the_runtime_still_ends_agents_in_order(workspace: Path) -> None:
    """As when a server is told to stop: the scope around everything is cancelled."""
    store = MemoryStore()
    pause = Pause(say("never"))
    model = ScriptedModel(Cast([delegate("one")], {"one": [pause]}))
    before = asyncio.all_tasks()
    session, turn = None, None
    with anyio.fail_after(BOUND), anyio.CancelScope() as around:
        async with Runtime(store=store) as runtime:
            client = runtime.clients.connect(Settings(), lambda name: model)
            session = await runtime.new_session(client, cwd=workspace, roots=[workspace])
            turn = session.turns.accept([Text("go")])
            await pause.asked.wait()
            around.cancel()
            await anyio.sleep_forever()
    assert around.cancelled_caught
    assert session is not None
    assert turn is not None
    assert turn.outcome is not None
    assert turn.outcome.stop_reason == "cancelled"
    stored = await store.events(session.id)
    assert [type(event.body) for event in stored[-2:]] == [TurnFinished, StatusChanged]
    assert sum(isinstance(event.body, AgentFinished) for event in stored) == 1
    assert asyncio.all_tasks() == before


@pytest.mark.asyncio
async def test_a_closed_runtime_knows_no_session_and_opens_none(workspace: Path) -> None:
    async with core(workspace, Cast([])) as c:
        await c.runtime.close()
        with pytest.raises(UnknownSession):
            c.runtime.session(c.session.id)
        with pytest.raises(WrongState):
            await c.runtime.new_session(c.session.settings.client, cwd=workspace, roots=[workspace])
        with pytest.raises(WrongState):
            c.start()


@pytest.mark.asyncio
async def test_a_permission_request_that_is_open_when_the_runtime_closes_is_withdrawn(workspace: Path) -> None:
    person: Person = silent()
    async with core(
        workspace, Cast([calls([edit("a", "b", "c"), use("write_file", path="n", content="")])]), person
    ) as c:
        c.start()
        await c.permission_request()
    assert len(person.withdrawn) == 1
