"""A real MCP server asks the user during a call, and gets only what the user answers."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from deputy_agents.domain.event import InputRequest, InputRequested, InputResolved, ResolvedBy
from deputy_agents.domain.user_input import InputForm
from deputy_agents.mcp.callers import Ask, Callers
from deputy_agents.model.scripted import calls, say, use
from deputy_agents.permission.inbox import InputOutcome
from deputy_agents.ports.permission import Accepted, Declined, InputAnswer
from tests.agents.session.test_mcp_servers import call, running, starting
from tests.support.core import Person
from tests.support.mcp_workspaces import configure_mcp_servers, tools_server

pytestmark = [pytest.mark.asyncio, pytest.mark.requirement("Q5")]


@pytest.fixture
def project(workspace: Path) -> Path:
    configure_mcp_servers(workspace, tools=tools_server())
    return workspace


def person(fill: Callable[[InputRequest], InputAnswer]) -> Person:
    someone = starting()
    someone.fill = fill
    return someone


async def test_a_form_names_the_server_and_only_valid_values_reach_it(project: Path) -> None:
    values = {"street": "Main St 1", "floor": 3, "size": "large"}
    someone = person(lambda _: Accepted(values))
    async with running(project, [call("order"), say("done")], someone) as c:
        await c.turn()
        (request,) = someone.inputs
        assert (request.title, request.form.server, request.form.source) == ("tools(Where to?)", "tools", "mcp")
        assert [(field.name, field.type.value, field.required) for field in request.form.fields] == [
            ("street", "string", True),
            ("floor", "number", False),
            ("express", "boolean", False),
            ("size", "choice", False),
        ]
        assert json.loads(c.told()[0]) == {"action": "accept", "data": values | {"express": False}}
        events = "".join(map(str, c.bodies(InputResolved)))
        assert "Main St" not in events


@pytest.mark.parametrize(
    ("fill", "action"),
    [
        (lambda _: Declined(), "decline"),
        (lambda _: Accepted({"street": "x"}), "cancel"),
        (lambda _: Accepted({"street": "Main St", "floor": 100}), "cancel"),
    ],
)
async def test_without_a_valid_answer_the_server_gets_none(
    project: Path, fill: Callable[[InputRequest], InputAnswer], action: str
) -> None:
    async with running(project, [call("order"), say("done")], person(fill)) as c:
        await c.turn()
        assert json.loads(c.told()[0]) == {"action": action}


async def test_a_page_is_opened_only_with_consent_and_only_on_the_web(project: Path) -> None:
    lines = [
        calls([use("mcp__tools__login", url="https://example.com/login")]),
        calls([use("mcp__tools__login", url="file:///etc/passwd")]),
        calls([use("mcp__tools__locked")]),
        say("done"),
    ]
    someone = person(lambda _: Accepted({}))
    async with running(project, lines, someone) as c:
        await c.turn()
        assert [request.form.url for request in someone.inputs] == [
            "https://example.com/login",
            "https://example.com/in",
        ]
        told = ["".join(text for text in request_results) for request_results in [c.told()]]
        assert "The user has agreed: try again" in told[0]


async def test_waiting_for_the_user_does_not_count_as_time_of_a_request() -> None:
    async def slow(_: InputForm) -> InputOutcome:
        await asyncio.sleep(0.3)  # longer than a request may take
        return InputOutcome(ResolvedBy.DISMISSED)

    callers = Callers("tools", 0.1, slow)
    async with callers.calling("a", slow), callers.calling("b", slow):
        assert await callers.put(InputForm("Where to?")) == InputOutcome(ResolvedBy.DISMISSED)
    assert await callers.put(InputForm("Where to?")) is None  # nothing is under way

    async def ask_and_hang() -> None:
        async with callers.calling("a", slow):
            await callers.put(InputForm("Where to?"))
            await asyncio.sleep(60)

    with pytest.raises(TimeoutError):
        await ask_and_hang()


async def test_requests_of_several_agents_ask_in_the_name_of_the_session() -> None:
    asked: list[str] = []

    def asking(name: str) -> Ask:
        async def ask(_: InputForm) -> InputOutcome:
            asked.append(name)
            return InputOutcome(ResolvedBy.DISMISSED)

        return ask

    callers = Callers("tools", 60, asking("session"))
    async with callers.calling("a", asking("a")):
        await callers.put(InputForm("Where to?"))
        async with callers.calling("b", asking("b")):
            await callers.put(InputForm("Where to?"))
    assert asked == ["a", "session"]


async def test_cancelling_the_turn_withdraws_the_form(project: Path) -> None:
    someone = person(lambda _: asyncio.Event().wait())  # type: ignore[arg-type,return-value]
    async with running(project, [call("order")], someone) as c:
        turn = c.start()
        request = (await c.seen(InputRequested)).request
        assert await c.session.cancel()
        await c.finish(turn)
        await c.until(lambda: bool(c.bodies(InputResolved)))
        assert c.bodies(InputResolved)[0].by is ResolvedBy.CANCELLED
        assert someone.withdrawn == [request.request_id]
        assert c.session.inbox.input_requests() == []
