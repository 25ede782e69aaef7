"""``ask_user``: an agent asks the user, and only what the user answers reaches it."""

import asyncio
from copy import deepcopy
from pathlib import Path

import pytest

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.event import (
    AgentFinished,
    CallStatus,
    InputRequested,
    InputResolved,
    ResolvedBy,
    ToolCallUpdated,
)
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.domain.user_input import FieldType, InputAction
from deputy_agents.model.scripted import calls, say, use
from deputy_agents.ports.permission import Accepted, Declined, Dismissed
from deputy_agents.store.memory import MemoryStore
from tests.support.core import Cast, Person, core, delegate, reopened, silent, small

pytestmark = [pytest.mark.asyncio, pytest.mark.requirement("Q5")]

COLOURS = ["red", "green, or blue"]


def asking(**how: object) -> Cast:
    return Cast([calls([use("ask_user", question="Which colour?", **how)]), say("done")])


def filling(value: object) -> Person:
    return Person(fill=lambda _: Accepted({"answer": value}))


def waiting() -> Person:
    return Person(fill=lambda _: asyncio.Event().wait())  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    ("how", "value", "kind", "told"),
    [
        ({}, "teal\nplease", FieldType.STRING, "teal\nplease"),
        ({"options": COLOURS}, "green, or blue", FieldType.CHOICE, "green, or blue"),
        ({"options": COLOURS, "multiple": True}, COLOURS, FieldType.CHOICES, "red\ngreen, or blue"),
    ],
)
async def test_the_answer_of_the_user_is_the_result(
    workspace: Path, how: dict[str, object], value: object, kind: FieldType, told: str
) -> None:
    person = filling(value)
    async with core(workspace, asking(**how), person) as c:
        await c.turn()
        assert c.told() == [told]
        (request,) = person.inputs
        assert (request.title, request.form.message) == ("ask_user(Which colour?)", "Which colour?")
        assert [field.type for field in request.form.fields] == [kind]
        assert [e.request for e in c.bodies(InputRequested)] == [request]
        assert c.bodies(InputResolved) == [InputResolved(request.request_id, InputAction.ACCEPTED, ResolvedBy.USER)]
        assert person.asked == []


@pytest.mark.parametrize(
    ("people", "told", "by"),
    [
        ((Person(fill=lambda _: Declined()),), "Declined by the user.", ResolvedBy.USER),
        ((Person(fill=lambda _: Dismissed()),), "Declined by the user.", ResolvedBy.DISMISSED),
        ((filling("teal"),), "Declined by the user.", ResolvedBy.DISMISSED),
        ((filling(["red"]),), "Declined by the user.", ResolvedBy.DISMISSED),
        ((Person(),), "No client can ask the user.", ResolvedBy.UNREACHABLE),
        ((), "No client can ask the user.", ResolvedBy.UNREACHABLE),
    ],
)
async def test_anything_but_a_valid_answer_is_an_error(
    workspace: Path, people: tuple[Person, ...], told: str, by: ResolvedBy
) -> None:
    async with core(workspace, asking(options=COLOURS), *people) as c:
        await c.turn()
        assert c.told() == [told]
        assert [e.by for e in c.bodies(InputResolved)] == [by]
        assert [e.status for e in c.bodies(ToolCallUpdated)][-1] is CallStatus.FAILED


@pytest.mark.parametrize(
    "input",
    [
        {"question": " "},
        {"question": "q", "multiple": True},
        {"question": "q", "options": ["a", "a"]},
        {"question": "q", "options": ["a", ""]},
        {"question": "q" * 4001},
        {"question": "q", "options": [str(n) for n in range(21)]},
        {"question": "q", "option": ["a"]},
    ],
)
async def test_invalid_questions_are_not_asked(workspace: Path, input: dict[str, object]) -> None:
    person = filling("x")
    async with core(workspace, Cast([calls([use("ask_user", **input)]), say("done")]), person) as c:
        await c.turn()
        (told,) = c.told()
        assert told.split(":")[0].split(".")[0] in ("question", "options", "multiple", "option", "")
        assert person.inputs == []


async def test_a_question_of_a_sub_agent_has_its_label_and_ends_with_it(workspace: Path) -> None:
    script = Cast([delegate("dig"), say("done")], {"dig": [calls([use("ask_user", question="How deep?")])]})
    person = waiting()
    async with core(workspace, script, person) as c:
        turn = c.start()
        request = (await c.seen(InputRequested)).request
        assert request.title == "[dig] ask_user(How deep?)"
        assert [label for _, label in request.agent.ancestry] == ["primary"]
        assert c.session.view.status().awaiting_permission == 1
        assert await c.session.cancel_agent(request.agent.agent_id)
        await c.finish(turn)
        assert person.withdrawn == [request.request_id]
        assert [e.by for e in c.bodies(InputResolved)] == [ResolvedBy.CANCELLED]
        assert c.session.inbox.input_requests() == []


async def test_waiting_for_the_user_does_not_count_as_running_time(workspace: Path) -> None:
    script = Cast([delegate("dig"), say("done")], {"dig": [calls([use("ask_user", question="Deep?")]), say("dug")]})
    go = asyncio.Event()

    async def fill(_: object) -> Accepted:
        await go.wait()
        return Accepted({"answer": "yes"})

    async with core(workspace, script, Person(fill=fill), settings=small(timeout=0.3)) as c:  # type: ignore[arg-type]
        turn = c.start()
        await c.seen(InputRequested)
        await asyncio.sleep(0.5)  # longer than the sub-agent may run
        go.set()
        await c.finish(turn)
        (finished,) = c.bodies(AgentFinished)
        assert finished.status is AgentStatus.COMPLETED, finished


async def test_every_client_is_asked_and_one_that_returns_is_asked_again(workspace: Path) -> None:
    first, second, third = waiting(), waiting(), filling("red")
    async with core(workspace, asking(options=COLOURS), first, second) as c:
        turn = c.start()
        request = (await c.seen(InputRequested)).request
        await c.until(lambda: bool(first.inputs and second.inputs))
        c.session.inbox.pause(first)
        c.session.inbox.detach(second)
        assert c.session.inbox.input_requests() == [request]  # it waits for the one that may return
        c.session.inbox.attach(third)
        await c.finish(turn)
        assert c.told() == ["red"]
        assert first.withdrawn == second.withdrawn == [request.request_id]


async def test_answers_through_the_inbox_are_validated_and_count_once(workspace: Path) -> None:
    async with core(workspace, asking(options=COLOURS), waiting()) as c:
        turn = c.start()
        request_id = (await c.seen(InputRequested)).request.request_id
        inbox = c.session.inbox
        with pytest.raises(InvalidRequest, match=r"values\.answer: must be one of: red"):
            inbox.answer_input(request_id, Accepted({"answer": "blue"}))
        with pytest.raises(InvalidRequest, match="no input request nothing"):
            inbox.answer_input("nothing", Declined())
        assert not inbox.has(request_id)
        assert c.session.inbox.input_requests()
        assert inbox.answer_input(request_id, Accepted({"answer": "red"}))
        await c.finish(turn)
        assert not inbox.answer_input(request_id, Accepted({"answer": "red"}))
        assert c.told() == ["red"]


async def test_a_permission_request_and_a_question_are_open_at_the_same_time(workspace: Path) -> None:
    both = calls([use("write_file", path="a.txt", content="x"), use("ask_user", question="And?")])
    person = silent()
    person.fill = waiting().fill
    async with core(workspace, Cast([both, say("done")]), person) as c:
        turn = c.start()
        request = await c.permission_request()
        assert [one.request_id for one in c.session.permission_requests()] == [request.request_id]
        assert await c.session.cancel()
        await c.finish(turn)
        assert c.session.permission_requests() == c.session.inbox.input_requests() == []


async def test_after_a_crash_the_question_is_lost_and_said_to_be(workspace: Path) -> None:
    store = MemoryStore()
    async with core(workspace, asking(), waiting(), store=store) as c:
        turn = c.start()
        await c.seen(InputRequested)
        await c.session.log.flush()
        session_id, copied = c.session.id, deepcopy(store)
        await c.session.cancel()
        await c.finish(turn)
    async with reopened(copied, session_id, workspace) as session:
        assert session.inbox.input_requests() == []
        assert session.view.input_requests == {}
        (entry,) = [e for e in (await session.transcript(session.primary_id)).entries if hasattr(e.body, "update")]
        assert entry.body.update.status is CallStatus.CANCELLED  # type: ignore[union-attr]
        assert entry.body.update.content.startswith("Deputy ended before the user answered")  # type: ignore[union-attr]
