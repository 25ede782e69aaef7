"""Agent definitions as clients see them: listed, changed, and invalid ones."""

from pathlib import Path

import pytest

from deputy_agents.definition.definition import BUILT_IN
from deputy_protocol.event import EventParams
from deputy_server.lsp.window import SHOWN_PROBLEMS
from tests.support.model_replies import say
from tests.support.rpc import Json, RpcClient, serving
from tests.support.shared_server import Deputies

pytestmark = pytest.mark.asyncio(loop_scope="module")


def define(folder: Path, name: str, *, where: str = ".deputy", head: str = "") -> None:
    path = folder / where / "agents" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {name}\ndescription: Does {name}.\n{head}---\nDo {name}.\n")


def announced(initialized: Json) -> list[str]:
    return initialized["capabilities"]["experimental"]["deputy"]["definitions"]


def warnings(client: RpcClient) -> list[str]:
    """The messages about definitions."""
    shown = [m["params"] for m in client.received if m.get("method") == "window/showMessage"]
    return [params["message"] for params in shown if params["type"] == 2]


async def listed(client: RpcClient) -> dict[str, Json]:
    found = await client.request("deputy/definition/list", {})
    return {definition["name"]: definition for definition in found["definitions"]}


async def test_initialize_lists_definitions_of_the_user_and_the_workspace(workspace: Path, tmp_path: Path) -> None:
    define(workspace, "mine")
    define(tmp_path, "from_home", where=".claude")
    async with serving(env={"HOME": str(tmp_path)}) as client:
        names = announced(await client.initialize(workspace))
        assert names == [*BUILT_IN, "from_home", "mine"]
        found = await listed(client)
        assert list(found) == names
        assert found["from_home"]["source"] == str(tmp_path / ".claude/agents/from_home.md")


async def test_definitions_of_an_untrusted_workspace_are_not_listed(workspace: Path) -> None:
    define(workspace, "mine")
    async with serving() as client:
        initialized = await client.initialize(workspace, initializationOptions={"trusted": False})
        assert announced(initialized) == list(BUILT_IN)
        assert list(await listed(client)) == list(BUILT_IN)
        client.notify("workspace/didChangeConfiguration", {"settings": {"deputy": {"trusted": True}}})
        assert "mine" in await listed(client)


async def test_an_invalid_definition_is_reported_once_with_its_line_and_others_still_work(
    deputy: Deputies, workspace: Path
) -> None:
    define(workspace, "good")
    define(workspace, "bad", head="maxIterations: -3\n")
    async with deputy(lambda _body, _n: say("hello"), workspace) as (client, _):
        session, _ = await client.session()
        await client.prompt(session, "one")
        await client.prompt(session, "two")
        (warning,) = warnings(client)
        assert f"{workspace / '.deputy/agents/bad.md'}:4: " in warning
        assert "maxIterations" in warning
        found = await listed(client)
        assert "good" in found
        assert "bad" not in found
        assert warnings(client) == [warning]


async def test_only_a_few_of_many_problems_are_shown_and_all_are_logged(deputy: Deputies, workspace: Path) -> None:
    many = SHOWN_PROBLEMS + 3
    for number in range(many):
        define(workspace, f"bad{number}", head="maxIterations: -3\n")
    async with deputy(lambda _body, _n: say("hello"), workspace) as (client, _):
        await client.session()
        *each, rest = warnings(client)
        assert len(each) == SHOWN_PROBLEMS
        assert rest.startswith("3 more")
        logged = [m for m in client.received if m.get("method") == "window/logMessage"]
        assert len(logged) == many


async def test_a_changed_definition_is_an_event_without_a_session_before_the_next_turn(
    deputy: Deputies, workspace: Path
) -> None:
    async with deputy(lambda _body, _n: say("hello"), workspace) as (client, _):
        session, _ = await client.session()
        await client.prompt(session, "one")
        assert client.events("definitions_changed") == []
        define(workspace, "fresh")
        await client.prompt(session, "two")
        (event,) = client.events("definitions_changed")
        EventParams.model_validate(event)
        assert "sessionId" not in event
        turns = [at for at, told in enumerate(client.events()) if told["type"] == "turn_started"]
        assert client.events().index(event) < turns[1]
