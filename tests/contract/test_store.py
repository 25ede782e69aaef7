"""The contract of all stores."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from anyio import to_thread

from deputy_agents.domain import event as ev
from deputy_agents.domain.errors import InvalidRequest, StoreError, UnknownSession
from deputy_agents.domain.file_change import FileChange
from deputy_agents.domain.message import Image, Message, Text
from deputy_agents.ports.store import (
    ChangesDropped,
    CheckpointRecord,
    Claim,
    ContextRecord,
    HistoryEnds,
    HistoryRecord,
    NotesRecord,
    OutputRecord,
    PendingPrompt,
    PromptsRecord,
    RewindRecord,
    SessionQuery,
    SessionRecord,
    SessionState,
    Store,
)
from deputy_agents.store.memory import MemoryStore
from deputy_agents.store.sqlite import SqliteStore
from tests.support.stored_sessions import (
    BODIES,
    CHILD,
    MESSAGES,
    MODE,
    PRIMARY,
    RULES,
    lines,
    numbered,
    record,
    started,
)

pytestmark = pytest.mark.asyncio


@asynccontextmanager
async def opened(kind: str, folder: Path) -> AsyncGenerator[Store]:
    store: Store = MemoryStore() if kind == "memory" else await to_thread.run_sync(SqliteStore.open, folder)
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture(params=["memory", "sqlite"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


async def listed(store: Store, **query: object) -> list[str]:
    page = await store.sessions(SessionQuery(**query))  # pyright: ignore[reportArgumentType]
    return [row.session_id for row in page.records]


async def test_a_session_is_stored_unchanged_and_can_be_updated(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store:
        created = record(permission_mode=MODE, rules=RULES)
        await store.create(created)
        assert await store.get("s") == created
        changed = replace(created, title="another", archived=True, updated_at=9.0, rules=(), permission_mode=None)
        await store.update(changed)
        assert await store.get("s") == changed
        with pytest.raises(StoreError, match="already exists"):
            await store.create(created)


async def test_every_type_of_event_and_message_is_read_back_unchanged(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store:
        await store.create(record())
        events = numbered(*BODIES)
        await store.append("s", events, lines())
        assert list(await store.events("s")) == events
        assert list(await store.events("s", after=3, limit=2)) == events[3:5]
        assert list(await store.events("s", after=99)) == []
        assert list(await store.history("s", "p")) == list(MESSAGES)
        await store.append("s", [], [HistoryRecord("c", MESSAGES[0])])
        assert list(await store.history("s", "c")) == [MESSAGES[0]]
        assert list(await store.history("s", "p", 2)) == list(MESSAGES[:2])


async def test_events_are_read_by_their_numbers(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store:
        await store.create(record())
        events = numbered(*BODIES)
        await store.append("s", events)
        assert list(await store.events_at("s", [9, 2, 2, 5, 99, 0])) == [events[1], events[4], events[8]]
        assert list(await store.events_at("s", [])) == []


async def test_the_ends_of_histories_are_read_without_the_rest(kind: str, tmp_path: Path) -> None:
    notices = [Message("user", (Text(f'{{"task_id": "{name}"}} \U0001f600 "quoted"'),)) for name in ("one", "two")]
    said = Message("assistant", (Text("done"),))
    async with opened(kind, tmp_path) as store:
        await store.create(record())
        histories = {"p": [*MESSAGES, notices[0], said, notices[1], said], "c": [said]}
        for agent_id, messages in histories.items():
            await store.append("s", [], [HistoryRecord(agent_id, message) for message in messages])
        found = await store.history_ends("s", ["p", "c", "nobody"], '"task_id": "')
        assert found == {
            "p": HistoryEnds(7, MESSAGES[0], said, tuple(notices)),
            "c": HistoryEnds(1, said, said),
        }
        assert await store.history_ends("s", ["p"], '\U0001f600 "quoted"') == {"p": found["p"]}
        assert await store.history_ends("s", ["p"]) == {"p": HistoryEnds(7, MESSAGES[0], said)}


async def test_file_changes_and_full_outputs_are_read_back_unchanged(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store:
        await store.create(record())
        made = FileChange("1", "p", 1, "t", "/new", None, "neu \ud800\r\n", 5.0)
        changed = FileChange("2", "c", 2, "t", "/old", "", "x" * 1000, 6.0)
        await store.append("s", [], [made, changed, OutputRecord("p", "t", "all of it"), OutputRecord("c", "t", "")])
        assert list(await store.changes("s")) == [made, changed]
        assert [await store.output("s", *of) for of in (("p", "t"), ("c", "t"), ("p", "u"))] == ["all of it", "", None]
        await store.append("s", [], [ChangesDropped(("1", "unknown"))])
        assert list(await store.changes("s")) == [changed]


async def test_the_last_context_of_each_agent_is_read_back_unchanged(kind: str, tmp_path: Path) -> None:
    first, last = ContextRecord("p", "f"), ContextRecord("p", "g", "a summary", 3, 5, ((4, 0), (7, 2)))
    async with opened(kind, tmp_path) as store:
        await store.create(record())
        await store.append("s", [started(PRIMARY, 1), started(CHILD, 2)], [first])
        assert await store.state("s") == SessionState((first,))
        await store.append("s", [], [last])
        assert await store.state("s") == SessionState((last,))


async def test_input_that_waits_is_read_back_until_it_is_delivered(kind: str, tmp_path: Path) -> None:
    image = Image("image/png", "aGk=")
    prompts = (
        PendingPrompt("q1", Message("user", (Text("first \U0001f600"), image)), "first", "user"),
        PendingPrompt("q2", Message("user", (Text("second"),)), "/second", "command"),
    )
    async with opened(kind, tmp_path) as store:
        await store.create(record())
        await store.append("s", [started(PRIMARY, 1), started(CHILD, 2)], [PromptsRecord(prompts)])
        await store.append("s", [], [NotesRecord("c", ("be quick", "and quiet"))])
        notes = (NotesRecord("c", ("be quick", "and quiet")),)
        assert await store.state("s") == SessionState((), prompts, notes)
        await store.append("s", [], [PromptsRecord(prompts[1:]), NotesRecord("c", ())])
        assert await store.state("s") == SessionState((), prompts[1:])
        await store.append("s", [], [PromptsRecord(())])
        assert await store.state("s") == SessionState()


async def test_an_append_is_atomic_and_its_numbers_continue_after_the_last_one(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store:
        await store.create(record())
        good, *_, bad = numbered(*BODIES[:3])
        with pytest.raises(StoreError, match="does not follow"):
            await store.append("s", [good, bad], lines())
        assert list(await store.events("s")) == []
        assert await store.history_ends("s", ["p", "c"]) == {}
        await store.append("s", [good])
        with pytest.raises(StoreError, match="does not follow"):
            await store.append("s", [good])


async def test_a_missing_session_is_an_unknown_session(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store:
        for attempt in (
            store.get("x"),
            store.update(record("x")),
            store.delete("x"),
            store.append("x", numbered(BODIES[0], session_id="x")),
            store.events("x"),
            store.history("x", "p"),
            store.history_ends("x", ["p"]),
            store.events_at("x", [1]),
            store.changes("x"),
            store.output("x", "p", "t"),
            store.claim("x"),
        ):
            with pytest.raises(UnknownSession):
                await attempt
        await store.release("x")
        assert list(await store.abandoned()) == []


@pytest.mark.requirement("D8")
@pytest.mark.requirement("E9")
async def test_lists_contain_sessions_and_children_only_on_request(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store:
        await store.create(record("old", updated_at=1.0))
        await store.create(record("s", updated_at=2.0))
        await store.append("s", [started(PRIMARY, 1), started(CHILD, 2)])
        assert await listed(store) == ["s", "old"]
        rows = (await store.sessions(SessionQuery(children=True))).records
        assert [row.session_id for row in rows] == ["s", "c", "old"]
        assert rows[0].agent_count == 2
        assert rows[1] == SessionRecord(
            "c", "c", "look here", "/folder", 102.0, 102.0, "m", agent_count=1, parent_session_id="s"
        )


@pytest.mark.requirement("D13")
async def test_lists_filter_by_folder_and_archive(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store:
        await store.create(record("here", cwd="/here", updated_at=3.0))
        await store.create(record("there", cwd="/there", updated_at=2.0))
        await store.create(record("archived", cwd="/here", updated_at=1.0, archived=True))
        assert await listed(store, cwd="/here") == ["here", "archived"]
        assert await listed(store, archived=False) == ["here", "there"]
        assert await listed(store, cwd="/nowhere") == []


async def test_pages_of_a_list_stay_consistent_while_sessions_change(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store:
        for number in range(5):
            await store.create(record(f"s{number}", updated_at=float(number // 2)))
        first = await store.sessions(SessionQuery(limit=2))
        assert [row.session_id for row in first.records] == ["s4", "s3"]
        await store.create(record("s9", updated_at=9.0))
        await store.delete("s3")
        second = await store.sessions(SessionQuery(limit=2, cursor=first.cursor))
        assert [row.session_id for row in second.records] == ["s2", "s1"]
        last = await store.sessions(SessionQuery(limit=2, cursor=second.cursor))
        assert [row.session_id for row in last.records] == ["s0"]
        assert last.cursor is None
        for cursor in ("nowhere", "[1]", "{}", '[1, "s", 2]'):
            with pytest.raises(InvalidRequest) as rejected:
                await store.sessions(SessionQuery(cursor=cursor))
            assert rejected.value.field == "cursor"


async def test_a_deleted_session_leaves_nothing(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store:
        await store.create(record())
        await store.append("s", [started(PRIMARY, 1), started(CHILD, 2)], lines("c"))
        await store.delete("s")
        assert await listed(store, children=True) == []
        await store.create(record())
        assert list(await store.events("s")) == []
        assert await store.history_ends("s", ["p", "c"]) == {}


async def test_only_the_owner_changes_a_session_and_anyone_reads_it(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store:
        await store.create(record())
        assert await store.claim("s") is Claim.MINE
        await store.release("s")
        for attempt in (store.update(record()), store.append("s", numbered(BODIES[0])), store.delete("s")):
            with pytest.raises(StoreError, match="not open for changes"):
                await attempt
        assert await store.get("s") == record()
        assert await store.claim("s") is Claim.MINE
        await store.append("s", numbered(BODIES[0]))


async def test_text_that_cannot_be_encoded_does_not_fail_the_session(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store:
        await store.create(record())
        broken = ev.ToolCallStarted("t", "x", "x", ev.ToolKind.OTHER, ev.CallStatus.PENDING, {"lone": ["\ud800", 1.5]})
        await store.append("s", numbered(broken))
        (stored,) = await store.events("s")
        assert isinstance(stored.body, ev.ToolCallStarted)


def said(*texts: str) -> list[HistoryRecord]:
    return [HistoryRecord("p", Message("user", (Text(text),))) for text in texts]


async def texts(store: Store) -> list[str]:
    return [message.text for message in await store.history("s", "p")]


async def test_histories_go_back_to_a_checkpoint_and_forward_again(kind: str, tmp_path: Path) -> None:
    def checkpoint(checkpoint_id: str, *, is_left: bool = False) -> CheckpointRecord:
        return CheckpointRecord(checkpoint_id, "t", "p", 1.0, "title", None, is_left=is_left)

    def rewind(target: str, left: str, made: Sequence[CheckpointRecord]) -> RewindRecord:
        found = next(one for one in made if one.checkpoint_id == target)
        return RewindRecord(target, left, found.counts, "p", found.context)

    change = FileChange("c", "p", 1, "call", "/folder/a", None, "a", 1.0)
    async with opened(kind, tmp_path) as store:
        await store.create(record())
        before, after = ContextRecord("p", "frame", start=1), ContextRecord("p", "frame", start=2)
        await store.append("s", [started(PRIMARY, 1)], [*said("1", "2"), before, checkpoint("k"), change])
        await store.append("s", [], [*said("3"), after, checkpoint("left", is_left=True)])
        made = await store.checkpoints("s")
        assert [(one.checkpoint_id, one.counts, one.context) for one in made] == [
            ("k", {"p": 2}, before),
            ("left", {"p": 3}, after),
        ]
        assert await store.changes("s", "k") == [change]
        assert await store.changes("s", "left") == []
        await store.append("s", [], [rewind("k", "left", made), *said("other 3")])
        assert await texts(store) == ["1", "2", "other 3"]
        assert (await store.state("s")).contexts == (before,)
        await store.append("s", [], [checkpoint("left again", is_left=True)])
        made = await store.checkpoints("s")
        assert made[-1].counts == {"p": 3}
        await store.append("s", [], [rewind("left", "left again", made)])
        assert await texts(store) == ["1", "2", "3"]
        assert (await store.state("s")).contexts == (after,)
        await store.append("s", [], [rewind("left again", "x", made)])
        assert await texts(store) == ["1", "2", "other 3"]
