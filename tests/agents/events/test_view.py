"""The fold of events: equal for live and stored events, and idempotent."""

from dataclasses import replace
from pathlib import Path

import pytest

from deputy_agents.domain.event import AgentFinished, AgentStarted, Event, StatusChanged, ToolCallStarted
from deputy_agents.domain.message import Usage
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.events.view import View
from deputy_agents.model.scripted import call, calls, say, use
from tests.support.core import Cast, Person, core
from tests.support.fold import transcripts

EVERYTHING = Cast(
    [
        calls(
            [
                use("spawn_agent", instructions="reads"),
                use("spawn_agent", instructions="writes", mode="default"),
                use("spawn_agent", instructions="fails"),
                use("list_dir", path="."),
            ],
            "On it.",
        ),
        say("All done."),
    ],
    {
        "reads": [call("grep", pattern="x"), say("nothing")],
        "writes": [call("write_file", path="n", content="x"), say("written")],
        "fails": [call("submit_error", error="cannot")],
    },
)


def folded(events: list[Event]) -> View:
    view = View()
    for event in events:
        view.apply(event)
    return view


def everything(view: View, events: list[Event]) -> object:
    shown = (view.last_seq, view.tree(), view.status(), view.permission_requests, view.plans, view.last_turn)
    return shown, view.transcripts, transcripts(view, events)


async def recorded(workspace: Path) -> tuple[View, list[Event], list[Event]]:
    """A live view, the events that a client received, and the stored events."""
    async with core(workspace, EVERYTHING, Person()) as c:
        await c.turn()
        await c.caught_up()
        return c.session.view, c.events, list(await c.store.events(c.session.id))


@pytest.mark.asyncio
async def test_a_live_view_equals_a_fresh_fold_of_the_stored_events(workspace: Path) -> None:
    live, seen, stored = await recorded(workspace)
    assert everything(folded(stored), stored) == everything(live, stored)
    assert everything(folded(seen), seen) == everything(live, stored)


@pytest.mark.asyncio
async def test_folding_an_event_twice_changes_nothing(workspace: Path) -> None:
    live, _, stored = await recorded(workspace)
    twice = folded(stored)
    for event in stored:
        twice.apply(event)
    assert everything(twice, stored) == everything(live, stored)
    assert everything(folded([event for event in stored for _ in range(2)]), stored) == everything(live, stored)


@pytest.mark.asyncio
async def test_the_end_of_a_run_is_final(workspace: Path) -> None:
    _, _, stored = await recorded(workspace)
    view = folded(stored)
    finished = next(event for event in stored if isinstance(event.body, AgentFinished))
    before = view.agents[finished.agent_id or ""]
    late = [
        StatusChanged(AgentStatus.RUNNING),
        AgentFinished(AgentStatus.CANCELLED, "", Usage(9), 9, 9),
    ]
    for body in late:
        view.apply(replace(finished, body=body, seq=view.last_seq + 1))
    assert view.agents[finished.agent_id or ""] == before


@pytest.mark.asyncio
async def test_a_new_run_restarts_an_ended_agent(workspace: Path) -> None:
    _, _, stored = await recorded(workspace)
    view = folded(stored)
    started = next(e for e in stored if isinstance(e.body, AgentStarted) and e.body.info.depth == 1)
    view.apply(replace(started, run=2, seq=view.last_seq + 1, time=started.time + 60))
    node = view.agents[started.agent_id or ""]
    assert (node.run, node.status, node.ended_at, node.summary) == (2, AgentStatus.RUNNING, None, None)
    assert node.started_at == started.time


@pytest.mark.asyncio
async def test_a_transcript_is_read_in_pages_from_both_ends(workspace: Path) -> None:
    async with core(workspace, EVERYTHING, Person()) as c:
        await c.turn()
        primary, last_seq = c.session.primary_id, c.session.log.last_seq
        whole = (await c.session.transcript(primary)).entries
        numbers = [entry.seq for entry in whole]
        assert numbers == sorted(numbers)
        first = await c.session.transcript(primary, limit=2)
        rest = await c.session.transcript(primary, after=numbers[1])
        assert ([*first.entries, *rest.entries], first.earlier, rest.earlier) == (whole, False, True)
        assert (await c.session.transcript(primary, after=last_seq)).entries == []

        last = await c.session.transcript(primary, before=last_seq + 1, limit=2)
        earlier = await c.session.transcript(primary, before=last.entries[0].seq)
        assert ([*earlier.entries, *last.entries], earlier.earlier, last.earlier) == (whole, False, True)
        assert (await c.session.transcript(primary, before=numbers[0])).entries == []
        between = await c.session.transcript(primary, after=numbers[0], before=numbers[-1], limit=1)
        assert between.entries == whole[-2:-1]


@pytest.mark.asyncio
async def test_a_tool_call_that_is_emitted_twice_is_one_entry(workspace: Path) -> None:
    _, _, stored = await recorded(workspace)
    view = folded(stored)
    started = next(event for event in stored if isinstance(event.body, ToolCallStarted))
    before = view.transcripts.page(started.agent_id or "")
    view.apply(replace(started, seq=view.last_seq + 1))
    assert view.transcripts.page(started.agent_id or "") == before
