"""Model histories of agents that do not run: the store has them, memory does not, and nobody notices."""

import asyncio
import gc
import json
import tracemalloc
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from anyio import to_thread

from deputy_agents.domain.errors import StoreError
from deputy_agents.domain.event import Event
from deputy_agents.domain.message import Message, Reply, Text, ToolResult, ToolUse
from deputy_agents.domain.settings import Budget, Budgets, Settings
from deputy_agents.model.scripted import Script, ScriptedModel, call, calls, say
from deputy_agents.ports.model import ModelRequest
from deputy_agents.ports.store import HistoryRecord, NotesRecord, Record
from deputy_agents.run.agent import Agent
from deputy_agents.session.runtime import Runtime
from deputy_agents.session.session import Session
from deputy_agents.store.memory import MemoryStore
from deputy_agents.store.sqlite import SqliteStore
from tests.support.core import BOUND, Cast, Core, Line, answers, core, delegate
from tests.support.delegation import accepted, background_use, reported_ends
from tests.support.history_rules import broken_history_rules

pytestmark = pytest.mark.asyncio


def agent(session: Session, label: str) -> Agent:
    node = next(node for node in session.agents() if node.info.label == label)
    return session.roster.agent(node.info.agent_id)


def in_memory(session: Session, label: str) -> int:
    return len(agent(session, label).history)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(BOUND):
        while not holds():  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.001)


async def until_left(session: Session, label: str) -> None:
    """Waits until the history of an agent is no longer in memory."""
    await until(lambda: agent(session, label).recall is not None)


class CountingStore(SqliteStore):
    """Counts which histories are read; ``broken`` ones cannot be."""

    def __init__(self, *parts: object) -> None:
        super().__init__(*parts)  # pyright: ignore[reportArgumentType]
        self.read: list[str] = []
        self.broken = False

    async def history(self, session_id: str, agent_id: str, limit: int | None = None) -> Sequence[Message]:
        if self.broken:
            raise StoreError("The session file cannot be read or written.")
        self.read.append(agent_id)
        return await super().history(session_id, agent_id, limit)


async def opened_store(folder: Path) -> CountingStore:
    store = await to_thread.run_sync(CountingStore.open, folder)
    assert isinstance(store, CountingStore)
    return store


@asynccontextmanager
async def again(
    store: SqliteStore, session_id: str, root: Path, script: Script, settings: Settings | None = None
) -> AsyncGenerator[tuple[Session, ScriptedModel]]:
    """The session in another runtime, as after a restart."""
    model = ScriptedModel(script)
    async with asyncio.timeout(3 * BOUND), Runtime(store=store) as runtime:
        client = runtime.clients.connect(settings or Settings(), lambda _: model)
        yield await runtime.load(client, session_id, roots=[root]), model
    assert [broken for request in model.requests if (broken := broken_history_rules(request.messages))] == []


async def turn(session: Session, text: str = "go on") -> None:
    async with asyncio.timeout(BOUND):
        await session.turns.accept([Text(text)]).result()


def resumed(core_of: Callable[[], Core]) -> Line:
    """A line that resumes the first background task."""

    def line(_: ModelRequest) -> Reply:
        return calls([background_use("look again", task_id=first_task(core_of()))])

    return line


def first_task(c: Core) -> str:
    return str(accepted(c.requests()[1])[0]["task_id"])


LOOK = [call("list_dir", path="."), say("I found it.")]


async def test_an_ended_child_leaves_memory_and_what_it_did_stays_readable(workspace: Path, tmp_path: Path) -> None:
    store = await opened_store(tmp_path / "state")

    def ask(request: ModelRequest) -> Reply:
        child = c.child("look").info.agent_id
        return calls(
            [
                ToolUse("r", "get_agent", {"agent_id": child}),
                ToolUse("m", "get_agent", {"agent_id": child, "messages": True}),
            ]
        )

    cast = Cast([delegate("look"), say("ok"), ask, say("read")], {"look": LOOK})
    async with core(workspace, cast, store=store) as c:
        await c.turn()
        await until_left(c.session, "look")
        child = agent(c.session, "look")
        assert (child.history, child.call_ids, child.calls, child.replies) == ([], set(), 1, 2)
        await c.turn()
        result, messages = map(json.loads, answers(c.requests()[-1]))
        assert result["result"] == "I found it."
        assert messages["messages"] == "**user**\n\nlook\n\n**assistant**\n\nI found it."
        page = await c.session.transcript(child.id)
        assert [type(entry.body).__name__ for entry in page.entries] == ["MessageAdded", "ToolCall", "MessageAdded"]
    assert store.read == []
    await store.close()


@pytest.mark.parametrize(("length", "most"), [(100, 10_000), (100_000, 40_000)])
async def test_an_ended_child_keeps_little_memory(length: int, most: int, workspace: Path, tmp_path: Path) -> None:
    """Of each result, the tree has at most 16 KiB."""
    store = await opened_store(tmp_path / "state")
    groups = [[f"look {group} {number}" for number in range(5)] for group in range(5)]
    answer = "found it. " * (length // 10)
    lines = {task: [call("list_dir", path="."), say(answer)] for group in groups for task in group}
    primary = [line for group in groups for line in (delegate(*group), say("ok"))]
    taken: list[int] = []
    async with core(workspace, Cast(primary, lines), store=store) as c:
        for group in groups:
            await c.turn()
            for task in group:
                await until_left(c.session, task)
            await c.caught_up()
            c.events.clear()
            c.model.requests.clear()
            gc.collect()
            if not taken:
                tracemalloc.start()
            taken.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        assert set(c.session.supervisor.drivers) == {c.session.primary_id}
    # The first turns fill what is kept only for a while.
    assert (taken[-1] - taken[1]) / 15 < most
    await store.close()


async def test_a_resumed_child_is_sent_all_that_it_knew(workspace: Path, tmp_path: Path) -> None:
    store = await opened_store(tmp_path / "state")
    primary: list[Line] = [
        calls([background_use("look")]),
        say("ok"),
        say("noted"),
        resumed(lambda: c),
        say("ok"),
        say("noted"),
    ]
    async with core(
        workspace, Cast(primary, {"look": [*LOOK, call("list_dir", path="."), say("Again.")]}), store=store
    ) as c:
        await c.turn()
        await c.until(lambda: not c.session.works and len(c.requests()) == 3)
        await until_left(c.session, "do look")
        before = c.requests("look")[-1].messages
        await c.turn()
        await c.until(lambda: not c.session.works and len(c.requests()) == 6)
        after = c.requests("look")[-1].messages
        assert after[: len(before)] == before
        assert after[len(before)].text == "I found it."
        child = agent(c.session, "do look")
        assert (child.run, child.calls) == (2, 2)
        ids = [use.id for message in after for use in message.content if isinstance(use, ToolUse)]
        assert len(set(ids)) == len(ids) == 2
    await store.close()


class FullStore(MemoryStore):
    """Keeps nothing from some time on."""

    failing = False

    async def append(self, session_id: str, events: Sequence[Event], records: Sequence[Record] = ()) -> None:
        if self.failing:
            raise StoreError("The disk is full.")
        await super().append(session_id, events, records)

    async def history(self, session_id: str, agent_id: str, limit: int | None = None) -> Sequence[Message]:
        raise AssertionError("what is in memory is not read")


async def test_what_the_store_does_not_have_stays_in_memory(workspace: Path) -> None:
    store = FullStore()

    def breaks(_: ModelRequest) -> Reply:
        store.failing = True
        return say("I found it.")

    primary: list[Line] = [
        calls([background_use("look")]),
        say("ok"),
        say("noted"),
        resumed(lambda: c),
        say("ok"),
        say("noted"),
    ]
    async with core(workspace, Cast(primary, {"look": [LOOK[0], breaks, say("Again.")]}), store=store) as c:
        await c.turn()
        await c.until(lambda: not c.session.works and len(c.requests()) == 3)
        await c.session.log.flush()
        assert in_memory(c.session, "do look") == 4
        await c.turn()
        await c.until(lambda: not c.session.works and len(c.requests()) == 6)
        assert len(c.requests("look")[-1].messages) == 5
        assert in_memory(c.session, "do look") == 6


async def test_when_the_store_works_again_what_waited_for_it_leaves_memory(workspace: Path) -> None:
    store = FullStore()

    def breaks(_: ModelRequest) -> Reply:
        store.failing = True
        return say("one")

    cast = Cast([delegate("one"), say("ok"), delegate("two"), say("ok")], {"one": [breaks], "two": [say("two")]})
    async with core(workspace, cast, store=store) as c:
        await c.turn()
        await c.session.log.flush()
        assert in_memory(c.session, "one") == 2
        store.failing = False
        await c.session.log.retry_now()
        await c.turn()
        await until_left(c.session, "two")
        assert (in_memory(c.session, "one"), in_memory(c.session, "two")) == (0, 0)


# -- after a restart -------------------------------------------------------------------------------------------------


async def test_a_loaded_session_reads_the_history_of_an_agent_when_it_continues(
    workspace: Path, tmp_path: Path
) -> None:
    store = await opened_store(tmp_path / "state")
    primary = [calls([background_use("look"), background_use("dig")]), say("ok"), say("noted"), say("noted")]
    async with core(workspace, Cast(primary, {"look": LOOK, "dig": [say("dug")]}), store=store) as c:
        await c.turn()
        await c.until(lambda: not c.session.works)
    before, children = c.requests()[-1].messages, c.requests("look")[-1].messages
    store.read = []

    resume = calls([background_use("look again", task_id=first_task(c))])
    cast = Cast([resume, say("fine"), say("noted")], {"look": [say("still there")]})
    async with again(store, c.session.id, workspace, cast) as (session, model):
        assert store.read == []
        assert [len(agent(session, node.info.label).history) for node in session.agents()] == [0, 0, 0]
        counts = {a.info.label: (a.calls, a.replies) for a in (agent(session, "do look"), agent(session, "do dig"))}
        assert counts == {"do look": (1, 2), "do dig": (0, 1)}
        await turn(session)
        await until(lambda: not session.works)
        look = first_task(c)
        assert store.read == [session.primary_id, look]
        (first, *_) = (request for request in model.requests if request.depth == 0)
        assert first.messages[: len(before)] == before
        (again_asked,) = (request for request in model.requests if request.depth > 0)
        assert again_asked.messages[: len(children)] == children
    # Nothing was stored twice, and everything in order.
    kept = await store.history(c.session.id, c.session.primary_id)
    assert kept[: len(before)] == list(before)
    assert broken_history_rules([*kept, Message("user", (Text("next"),))]) == []
    await store.close()


async def test_a_long_result_is_complete_after_a_restart(workspace: Path, tmp_path: Path) -> None:
    store = await opened_store(tmp_path / "state")
    whole = "a long result " * 5000
    async with core(workspace, Cast([delegate("look"), say("ok")], {"look": [say(whole)]}), store=store) as c:
        await c.turn()
        child = c.child("look").info.agent_id
    read = calls([ToolUse("r", "get_agent", {"agent_id": child, "offset": 60_000})])
    async with again(store, c.session.id, workspace, Cast([read, say("ok")])) as (session, model):
        await turn(session)
        (found,) = map(json.loads, answers(model.requests[-1]))
        assert (found["result"], found.get("next_offset")) == (whole.strip()[60_000:], None)
    await store.close()


async def test_a_resumed_child_gets_the_results_that_a_crash_has_lost(workspace: Path, tmp_path: Path) -> None:
    store = await opened_store(tmp_path / "state")
    primary = [calls([background_use("look")]), say("ok"), say("noted")]
    async with core(workspace, Cast(primary, {"look": LOOK}), store=store) as c:
        await c.turn()
        await c.until(lambda: not c.session.works and len(c.requests()) == 3)
    look = first_task(c)
    # As if the child had been broken off in the middle of its calls.
    await store.claim(c.session.id)
    unanswered = Message("assistant", (ToolUse("lost", "list_dir", {"path": "."}),), "x")
    await store.append(c.session.id, [], [HistoryRecord(look, unanswered)])
    await store.release(c.session.id)
    cast = Cast(
        [calls([background_use("look again", task_id=look)]), say("fine"), say("noted")], {"look": [say("seen")]}
    )
    async with again(store, c.session.id, workspace, cast) as (session, model):
        await turn(session)
        await until(lambda: not session.works)
        (asked,) = (request for request in model.requests if request.depth > 0)
        (result,) = (
            b for m in asked.messages for b in m.content if isinstance(b, ToolResult) and b.tool_use_id == "lost"
        )
        assert result.is_error
    kept = await store.history(c.session.id, look)
    assert [type(block).__name__ for block in kept[5].content] == ["ToolResult"]
    await store.close()


async def test_a_resumed_child_gets_the_messages_that_it_had_not_read_before_a_crash(
    workspace: Path, tmp_path: Path
) -> None:
    store = await opened_store(tmp_path / "state")
    primary = [calls([background_use("look")]), say("ok"), say("noted")]
    async with core(workspace, Cast(primary, {"look": LOOK}), store=store) as c:
        await c.turn()
        await c.until(lambda: not c.session.works and len(c.requests()) == 3)
    look = first_task(c)
    await store.claim(c.session.id)
    await store.append(c.session.id, [], [NotesRecord(look, ("Mind the gap.",))])
    await store.release(c.session.id)
    resume = calls([background_use("look again", task_id=look)])
    cast = Cast([resume, say("fine"), say("noted")], {"look": [say("seen")]})
    async with again(store, c.session.id, workspace, cast) as (session, model):
        await turn(session)
        await until(lambda: not session.works)
        (asked,) = (request for request in model.requests if request.depth > 0)
        assert "Mind the gap." in asked.messages[-1].text
    assert (await store.state(c.session.id)).notes == ()
    await store.close()


async def test_a_history_that_cannot_be_read_fails_its_task_and_nothing_else(workspace: Path, tmp_path: Path) -> None:
    store = await opened_store(tmp_path / "state")
    primary = [calls([background_use("look")]), say("ok"), say("noted")]
    async with core(workspace, Cast(primary, {"look": LOOK}), store=store) as c:
        await c.turn()
        await c.until(lambda: not c.session.works and len(c.requests()) == 3)

    def resume(_: ModelRequest) -> Reply:
        store.broken = True
        return calls([background_use("look again", task_id=first_task(c))])

    async with again(store, c.session.id, workspace, Cast([resume, say("fine"), say("noted")])) as (session, model):
        await turn(session)
        await until(lambda: not session.works)
        end = reported_ends(model.requests[-1])[-1]
        assert (end["status"], "cannot be read" in end["error"]) == ("failed", True)
    await store.close()


async def test_a_prompt_whose_history_cannot_be_read_fails_and_can_be_repeated(workspace: Path, tmp_path: Path) -> None:
    store = await opened_store(tmp_path / "state")
    async with core(workspace, Cast([say("one")]), store=store) as c:
        await c.turn("first")
    settings = Settings()
    async with again(store, c.session.id, workspace, Cast([say("two")]), settings) as (session, model):
        store.broken = True
        failed = session.turns.accept([Text("second")])
        await until(lambda: any("retrying" in (node.detail or "") for node in session.agents()))
        store.broken = False
        async with asyncio.timeout(BOUND):
            assert (await failed.result()).stop_reason == "end_turn"
        assert [message.text for message in model.requests[-1].messages] == ["first", "one", "second"]
    await store.close()


async def test_a_turn_that_is_cancelled_while_its_history_is_read_loses_nothing(
    workspace: Path, tmp_path: Path
) -> None:
    store = await opened_store(tmp_path / "state")
    async with core(workspace, Cast([say("one")]), store=store) as c:
        await c.turn("first")
    reading, go = asyncio.Event(), asyncio.Event()

    async with again(store, c.session.id, workspace, Cast([say("three")])) as (session, model):
        read = store.history

        async def slow(session_id: str, agent_id: str, limit: int | None = None) -> Sequence[Message]:
            reading.set()
            await go.wait()
            return await read(session_id, agent_id, limit)

        store.history = slow
        cancelled = session.turns.accept([Text("second")])
        async with asyncio.timeout(BOUND):
            await reading.wait()
            assert await session.cancel()
            assert (await cancelled.result()).stop_reason == "cancelled"
        go.set()
        await turn(session, "third")
        texts = [message.text for message in model.requests[-1].messages if message.role == "user"]
        assert texts[0] == "first"
        assert texts[-1].endswith("third")
        assert sum("second" in text for text in texts) == 1
    await store.close()


async def test_budgets_count_what_an_agent_did_before_a_restart(workspace: Path, tmp_path: Path) -> None:
    store = await opened_store(tmp_path / "state")
    cast = Cast([call("list_dir", path="."), call("list_dir", path="."), say("ok")])
    async with core(workspace, cast, store=store) as c:
        await c.turn()
    settings = Settings(budgets=Budgets(tree=Budget(tool_calls=2)))
    async with again(store, c.session.id, workspace, Cast([say("never asked")]), settings) as (session, model):
        await turn(session)
        assert model.requests == []
    await store.close()
