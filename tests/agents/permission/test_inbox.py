"""The inbox by itself: which clients get a permission request, and how long it waits for a client."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import pytest

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.event import AgentRef, Batch, Option, OptionKind, PermissionRequest, ResolvedBy, ToolKind
from deputy_agents.events.event_log import EventLog
from deputy_agents.events.view import View
from deputy_agents.permission import open_requests
from deputy_agents.permission.inbox import Inbox, PermissionOutcome
from deputy_agents.ports.permission import Dismissed, PermissionClient
from deputy_agents.store.memory import MemoryStore
from tests.support.core import ALLOW, BOUND, Person, StillClock, silent


def request(name: str = "q") -> PermissionRequest:
    return PermissionRequest(
        request_id=name,
        agent=AgentRef("a", "label", "general", "m", 1),
        batch=Batch("b", 0, 1),
        tool_call_id="t",
        title="write_file(n)",
        tool="write_file",
        kind=ToolKind.EDIT,
        input={},
        locations=(),
        options=tuple(Option(kind.value, kind.value, kind) for kind in OptionKind),
    )


@dataclass
class OpenInbox:
    inbox: Inbox

    def ask(self, name: str = "q") -> "asyncio.Task[PermissionOutcome]":
        return asyncio.create_task(self.inbox.ask(request(name), 1, lambda: None))


@asynccontextmanager
async def inbox(grace: float = 0) -> AsyncGenerator[OpenInbox]:
    log = EventLog("s", MemoryStore(), StillClock(), View())
    async with asyncio.timeout(BOUND), anyio.create_task_group() as tasks:
        yield OpenInbox(Inbox(log, tasks, grace))
        tasks.cancel_scope.cancel()


async def steps() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.asyncio
async def test_permission_requests_are_listed_oldest_first() -> None:
    async with inbox(grace=60) as i:
        waits = [i.ask(name) for name in "abc"]
        await steps()
        assert [q.request_id for q in i.inbox.permission_requests()] == ["a", "b", "c"]
        i.inbox.answer("b", ALLOW)
        assert [q.request_id for q in i.inbox.permission_requests()] == ["a", "c"]
        assert (await waits[1]).by is ResolvedBy.USER
        for wait in waits:
            wait.cancel()


@pytest.mark.asyncio
async def test_permission_request_waits_for_a_client_during_the_grace_period() -> None:
    async with inbox(grace=60) as i:
        wait = i.ask()
        await steps()
        assert not wait.done()
        i.inbox.attach(Person(ALLOW))
        assert (await wait).by is ResolvedBy.USER


@pytest.mark.asyncio
async def test_permission_request_is_unreachable_if_connected_clients_cannot_ask_for_the_grace_period() -> None:
    async with inbox(grace=0.01) as i:
        i.inbox.attach(Person(Dismissed(ResolvedBy.UNREACHABLE)))
        assert await i.ask() == PermissionOutcome(ResolvedBy.UNREACHABLE)
        assert i.inbox.permission_requests() == []


@pytest.mark.requirement("Q10")
@pytest.mark.asyncio
async def test_permission_request_waits_for_a_client_as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    async with inbox(grace=1) as i:
        wait = i.ask()
        person = silent()
        for _ in range(3):
            await steps()
            i.inbox.attach(person)
            await steps()
            now += 1.5
            i.inbox.detach(person)
            await steps()
            now += 1.5
            await steps()
            assert not wait.done()
        i.inbox.attach(Person(ALLOW))
        assert (await wait).by is ResolvedBy.USER


@pytest.mark.asyncio
async def test_client_that_attaches_twice_is_asked_once() -> None:
    async with inbox(grace=60) as i:
        person = silent()
        wait = i.ask()
        await steps()
        i.inbox.attach(person)
        i.inbox.attach(person)
        await steps()
        assert len(person.asked) == 1
        i.inbox.detach(person)
        i.inbox.detach(person)
        await steps()
        assert person.withdrawn == ["q"]
        wait.cancel()


@pytest.mark.asyncio
async def test_dismissal_through_the_inbox_settles_the_request() -> None:
    async with inbox(grace=60) as i:
        wait = i.ask()
        await steps()
        assert i.inbox.answer("q", Dismissed()) is True
        assert await wait == PermissionOutcome(ResolvedBy.DISMISSED)


@pytest.mark.asyncio
async def test_client_that_cannot_ask_does_not_end_the_grace_period() -> None:
    async with inbox(grace=60) as i:
        mute: PermissionClient = Person(Dismissed(ResolvedBy.UNREACHABLE))
        i.inbox.attach(mute)
        wait = i.ask()
        await steps()
        assert not wait.done()
        i.inbox.attach(Person(ALLOW))
        assert (await wait).option is not None


@pytest.mark.asyncio
async def test_cancelling_the_wait_withdraws_the_request_from_all_clients() -> None:
    async with inbox() as i:
        people = silent(), silent()
        for person in people:
            i.inbox.attach(person)
        wait = i.ask()
        await steps()
        wait.cancel()
        await steps()
        assert [person.withdrawn for person in people] == [["q"], ["q"]]
        assert i.inbox.answer("q", ALLOW) is False


@pytest.mark.asyncio
async def test_number_of_remembered_settled_requests_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_requests, "MAX_SETTLED", 2)
    async with inbox() as i:
        for name in ("a", "b", "c"):
            await i.ask(name)
        assert i.inbox.answer("b", ALLOW) is False
        with pytest.raises(InvalidRequest, match="no permission request a"):
            i.inbox.answer("a", ALLOW)


@pytest.mark.asyncio
@pytest.mark.parametrize("grace", [0, 1])
async def test_a_request_stays_open_while_a_client_is_connected_that_can_return(grace: float) -> None:
    async with inbox(grace=grace) as i:
        person, other = silent(), silent()
        i.inbox.attach(person)
        wait = i.ask()
        await steps()
        i.inbox.pause(person)
        await steps()
        assert person.withdrawn == ["q"]
        assert not wait.done()
        i.inbox.attach(other)
        i.inbox.detach(other)
        await steps()
        assert not wait.done()
        i.inbox.attach(person)
        await steps()
        assert len(person.asked) == 2
        i.inbox.pause(person)
        i.inbox.detach(person)
        await steps()
        if grace:  # it can reconnect
            assert not wait.done()
            wait.cancel()
        else:
            assert (await wait).by is ResolvedBy.UNREACHABLE


@pytest.mark.asyncio
async def test_a_request_made_while_its_only_client_is_away_waits_for_it() -> None:
    async with inbox(grace=0) as i:
        person = silent()
        i.inbox.attach(person)
        i.inbox.pause(person)
        i.inbox.pause(person)
        wait = i.ask()
        await steps()
        assert not wait.done()
        i.inbox.attach(person)
        await steps()
        assert len(person.asked) == 1
        wait.cancel()
