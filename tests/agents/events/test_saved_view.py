"""Saved views: with the events that follow, they equal the fold of all events; what does not fit is ignored."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from anyio import to_thread
from hypothesis import given, settings
from hypothesis import strategies as st

from deputy_agents.domain import event as ev
from deputy_agents.domain.message import Usage
from deputy_agents.domain.outcome import AgentStatus, FailureReason
from deputy_agents.events import event_log, saved_view
from deputy_agents.events.event_log import EventLog
from deputy_agents.events.view import View
from deputy_agents.ports.store import StoredView, ViewRecord
from deputy_agents.session.stored_sessions import past_of
from deputy_agents.store import codec
from deputy_agents.store.sqlite import FILE, SqliteStore
from tests.agents.store.test_sqlite import raw
from tests.support.core import StillClock
from tests.support.fold import folded, transcripts
from tests.support.stored_sessions import BODIES, CHILD, PERMISSION_REQUEST, PRIMARY, record

AGENTS = ("p", "c", "d", "ghost")
STATUSES = st.sampled_from(list(AgentStatus))
CALLS = st.sampled_from(["t1", "t2", "t3"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


def _started(agent_id: str, status: AgentStatus) -> ev.AgentStarted:
    info = PRIMARY if agent_id == "p" else replace(CHILD, agent_id=agent_id, tool_call_id="t1")
    return ev.AgentStarted(info, status)


CALLED = st.builds(
    ev.ToolCallStarted,
    tool_call_id=CALLS,
    tool=st.sampled_from(["task", "edit_file"]),
    title=TEXTS,
    kind=st.sampled_from(list(ev.ToolKind)),
    status=st.sampled_from(list(ev.CallStatus)),
    input=st.dictionaries(TEXTS, TEXTS, max_size=1),
)
OTHERS = st.one_of(
    st.builds(ev.StatusChanged, STATUSES, st.none() | st.integers(1, 3), st.none() | TEXTS),
    st.builds(ev.MessageAdded, TEXTS, st.sampled_from(["user", "assistant"]), TEXTS),
    CALLED,
    CALLED,
    st.builds(ev.ToolCallUpdated, CALLS, st.sampled_from(list(ev.CallStatus)), st.none() | TEXTS),
    st.builds(ev.ToolCallUpdated, CALLS, st.sampled_from(list(ev.CallStatus)), st.none() | TEXTS),
    st.builds(ev.PermissionRequested, st.builds(replace, st.just(PERMISSION_REQUEST), request_id=CALLS)),
    st.builds(ev.PermissionResolved, CALLS, st.sampled_from(list(ev.ResolvedBy))),
    st.builds(ev.PlanChanged, st.lists(st.builds(ev.PlanEntry, TEXTS), max_size=2).map(tuple)),
    st.builds(ev.UsageChanged, st.builds(Usage, st.integers(0, 9), cost=st.none() | st.just(0.5))),
    st.builds(
        ev.AgentFinished,
        STATUSES,
        TEXTS,
        st.just(Usage(1)),
        st.integers(0, 3),
        st.integers(0, 3),
        st.none() | st.sampled_from(list(FailureReason)),
        truncated=st.booleans(),
    ),
    st.builds(ev.TurnStarted, TEXTS),
    st.builds(ev.TurnFinished, TEXTS, st.just("end_turn"), st.none() | st.just(ev.TurnError("a", "b", True, "c"))),
    st.just(ev.Unknown("later")),
)


@st.composite
def logs(draw: st.DrawFn) -> list[ev.Event]:
    """Events of a session, in an order that need not make sense."""
    numbers: dict[tuple[str, int], int] = {}
    events: list[ev.Event] = []
    for seq in range(1, draw(st.integers(0, 40)) + 1):
        agent_id, run = draw(st.sampled_from(AGENTS)), draw(st.integers(1, 2))
        starts = draw(st.integers(0, 4)) == 0 and agent_id != "ghost"
        body = _started(agent_id, draw(STATUSES)) if starts else draw(OTHERS)
        numbers[agent_id, run] = numbers.get((agent_id, run), 0) + 1
        events.append(ev.Event("s", 1e9 + seq, body, agent_id, run, seq, numbers[agent_id, run]))
    return events


def stored(view: View) -> StoredView:
    made: ViewRecord = saved_view.saved(view, saved_view.version())
    return StoredView(made.seq, made.version, *codec.encode_view(made))


def content(view: View, events: Sequence[ev.Event]) -> object:
    nodes = {agent_id: replace(node, activity=None) for agent_id, node in view.agents.items()}
    others = {name: value for name, value in vars(view).items() if name != "agents"}
    return nodes, others, view.status(), transcripts(view, events)


@given(logs(), st.data())
@settings(deadline=None)
def test_a_saved_view_and_the_events_after_it_equal_the_fold_of_all_events(
    events: list[ev.Event], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(events)))
    live = folded(events[:cut])
    if events[:cut]:  # what is not stored leaves no trace
        live.apply(ev.Event("s", 2e9, ev.Activity("looking", 1), "p", events[0].run))
    base = saved_view.restored(stored(live))
    assert base is not None
    assert saved_view.follows(base, events[cut:])
    assert content(saved_view.fold(events[cut:], base), events) == content(folded(events), events)


@given(logs(), st.data())
@settings(deadline=None)
def test_saving_does_not_change_with_later_events(events: list[ev.Event], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(events)))
    live = folded(events[:cut])
    made = saved_view.saved(live, saved_view.version())
    before = codec.encode_view(made)
    folded(events[cut:], live)
    assert codec.encode_view(made) == before


@pytest.mark.parametrize("redact", [codec.no_redaction, lambda plain: plain])
def test_agents_of_a_saved_view_are_encoded_one_by_one(redact: codec.Redact, monkeypatch: pytest.MonkeyPatch) -> None:
    """While pydantic encodes a value, no other thread runs."""
    view = View()
    for number in range(50):
        info = replace(CHILD, agent_id=f"agent-{number}")
        started = ev.AgentStarted(info, AgentStatus.RUNNING)
        view.apply(ev.Event("s", 1e9, started, info.agent_id, 1, number + 1, 1))
    encoded: list[object] = []
    real = codec._adapter  # pyright: ignore[reportPrivateUsage]

    def adapter(kind: type[object]) -> Any:
        found = real(kind)

        def noted(dump: Callable[..., Any]) -> Callable[..., Any]:
            return lambda value, **how: encoded.append(value) or dump(value, **how)

        return SimpleNamespace(dump_json=noted(found.dump_json), dump_python=noted(found.dump_python))

    monkeypatch.setattr(codec, "_adapter", adapter)
    codec.encode_view(saved_view.saved(view, ""), redact)
    assert max(str(value).count("label=") for value in encoded) == 1
    assert sum(str(value).count("label=") for value in encoded) == 50


DAMAGES: dict[str, Callable[[StoredView], StoredView]] = {
    "other code": lambda one: replace(one, version="0" * 32),
    "no facts": lambda one: replace(one, facts=b""),
    "facts cut off": lambda one: replace(one, facts=one.facts[:-5]),
    "other facts": lambda one: replace(one, facts=b'{"agents": 1}'),
    "index cut off": lambda one: replace(one, index=one.index[:-5]),
    "other index": lambda one: replace(one, index=b'{"entries": {"p": ["x"]}}'),
    "deep index": lambda one: replace(one, index=b"[" * 100_000),
    "no text": lambda one: replace(one, facts=b"\xff\x00"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_saved_view_that_is_damaged_or_of_other_code_is_ignored(damage: str) -> None:
    view = folded(ev.Event("s", 1.0, body, "p", 1, seq, seq) for seq, body in enumerate(BODIES, 1))
    assert saved_view.restored(stored(view)) is not None
    assert saved_view.restored(DAMAGES[damage](stored(view))) is None


# -- in the store ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def running_log(store: SqliteStore) -> AsyncGenerator[EventLog]:
    past = await past_of(store, "s")
    log = EventLog("s", store, StillClock(), past.view, past.saved_seq)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(log.run)
        yield log
        await log.save_view()
        tasks.cancel_scope.cancel()


async def _emit(log: EventLog, count: int) -> None:
    for number in range(count):
        log.emit(ev.MessageAdded(f"m{log.last_seq}-{number}", "assistant", f"text {number}"), "p", 1)
    await log.flush()


async def _saved_seq(store: SqliteStore) -> int:
    view = (await store.state("s")).view
    return view.seq if view else 0


async def _filled(folder: Path, count: int) -> SqliteStore:
    store = await to_thread.run_sync(SqliteStore.open, folder)
    await store.create(record())
    async with running_log(store) as log:
        log.emit(ev.AgentStarted(PRIMARY, AgentStatus.IDLE), "p", 1)
        await _emit(log, count - 1)
    return store


@pytest.mark.asyncio
async def test_a_view_is_saved_at_the_end_and_after_many_events(tmp_path: Path) -> None:
    store = await _filled(tmp_path, event_log.MIN_SAVED - 1)
    assert await _saved_seq(store) == 0
    async with running_log(store) as log:
        await _emit(log, 1)
    assert await _saved_seq(store) == event_log.MIN_SAVED
    async with running_log(store) as log:
        await _emit(log, 1500)
        await _emit(log, 1)
        assert await _saved_seq(store) == event_log.MIN_SAVED + 1500
    await store.close()


@pytest.mark.asyncio
async def test_a_session_that_was_killed_is_folded_from_its_last_saved_view(tmp_path: Path) -> None:
    store = await _filled(tmp_path, 200)
    async with running_log(store) as log:
        await _emit(log, 50)
    past = await past_of(store, "s")
    assert (past.saved_seq, past.view.last_seq) == (200, 250)
    assert content(past.view, await store.events("s")) == content(
        folded(await store.events("s")), await store.events("s")
    )
    await store.close()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE views SET version = 'x'",
        "UPDATE views SET facts = X'00'",
        "UPDATE views SET facts = 'text'",
        "UPDATE views SET transcripts = NULL WHERE 0",
        "UPDATE views SET transcripts = substr(transcripts, 1, 20)",
        "UPDATE views SET seq = 100000",
        "UPDATE views SET seq = 'x'",
        "DELETE FROM events WHERE seq = 201",
        "DELETE FROM events WHERE seq > 150",
    ],
)
async def test_whatever_is_stored_as_a_view_the_events_count(statement: str, tmp_path: Path) -> None:
    store = await _filled(tmp_path, 200)
    async with running_log(store) as log:
        await _emit(log, 50)
    raw(tmp_path, statement)
    events = await store.events("s")
    past = await past_of(store, "s")
    assert content(past.view, events) == content(folded(events), events)
    await store.close()
    assert (tmp_path / FILE).exists()


@pytest.mark.asyncio
async def test_a_saved_view_has_no_secret(tmp_path: Path) -> None:
    def redact(value: object) -> object:
        match value:
            case str():
                return value.replace("hunter2", "[removed]")
            case dict():
                return {key: redact(one) for key, one in value.items()}
            case list():
                return [redact(one) for one in value]
            case _:
                return value

    store = await to_thread.run_sync(lambda: SqliteStore.open(tmp_path, redact))
    await store.create(record())
    async with running_log(store) as log:
        log.emit(ev.AgentStarted(replace(PRIMARY, label="hunter2"), AgentStatus.IDLE), "p", 1)
        log.emit(ev.PlanChanged((ev.PlanEntry("use hunter2"),)), "p", 1)
        await _emit(log, 200)
    view = (await store.state("s")).view
    assert view is not None
    assert b"hunter2" not in view.facts
    assert b"[removed]" in view.facts
    await store.close()
