"""The settings of several clients in one process, without a wire."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.hook import Hook, When
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.domain.settings import AgentSettings, PermissionSettings, Root, Settings
from deputy_agents.model.scripted import ScriptedModel
from deputy_agents.run.slots import Slots
from deputy_agents.session.clients import Clients, ClientSettings
from deputy_agents.session.runtime import Runtime
from deputy_agents.store.memory import MemoryStore

RULE = Rule("one", "shell", DecisionKind.ALLOW, source="settings")
LIMIT = st.integers(1, 100)
AGENTS = st.builds(
    AgentSettings, max_parallel=LIMIT, max_parallel_per_parent=LIMIT, queue=LIMIT, parallel_writers=st.booleans()
)


def power(further: Path) -> Settings:
    return Settings(
        vouched=True,
        permission_mode=PermissionMode.BYPASS,
        permissions=PermissionSettings((RULE,)),
        hooks=(Hook(When.TURN_END, "true"),),
        roots=(Root(further, writable=True),),
    )


def connect(runtime: Runtime, settings: Settings) -> ClientSettings:
    return runtime.clients.connect(settings, lambda _: ScriptedModel([]), 7)


@asynccontextmanager
async def running(home: Path) -> AsyncGenerator[Runtime]:
    async with Runtime(store=MemoryStore(), home=home) as runtime:
        yield runtime


@pytest.mark.asyncio
async def test_all_power_of_a_client_that_left_ends_when_another_takes_its_session_over(
    workspace: Path, tmp_path: Path
) -> None:
    async with running(tmp_path / "home") as runtime:
        first, second = connect(runtime, power(tmp_path)), connect(runtime, Settings(trusted=False))
        session = await runtime.new_session(first, cwd=workspace, roots=[workspace])
        assert await runtime.load(second, session.id, roots=[tmp_path]) is session
        assert session.settings.client is first, "who attaches changes nothing"
        assert session.permissions.mode is PermissionMode.BYPASS
        assert session.workspace.roots == (workspace,)
        first.disconnect()
        assert await runtime.load(second, session.id, roots=[workspace, tmp_path / "other"]) is session
        assert session.settings.client is second
        assert session.permissions.mode is PermissionMode.PLAN
        assert session.permissions.rules() == ()
        assert session.host.hooks() == ()
        assert session.workspace.further == ()
        assert session.workspace.roots[0] == workspace
        first.apply(power(tmp_path))
        assert session.permissions.rules() == (), "one who has left has no say"


@pytest.mark.asyncio
async def test_what_the_user_chose_for_a_session_stays_with_it(workspace: Path, tmp_path: Path) -> None:
    async with running(tmp_path / "home") as runtime:
        first, second = connect(runtime, Settings()), connect(runtime, Settings())
        session = await runtime.new_session(first, cwd=workspace, roots=[workspace])
        session.permissions.mode = PermissionMode.ACCEPT_EDITS
        session.permissions.remember([RULE])
        first.disconnect()
        await runtime.load(second, session.id, roots=[workspace])
        assert session.permissions.mode is PermissionMode.ACCEPT_EDITS
        assert session.permissions.rules() == (RULE,)


@given(st.lists(AGENTS, min_size=1, max_size=5))
def test_limits_of_the_process_are_the_lowest_of_any_connected_client(many: list[AgentSettings]) -> None:
    slots = Slots(AgentSettings())
    clients = Clients(slots, lambda _: None)
    connected = [clients.connect(Settings(agents=one), lambda _: ScriptedModel([])) for one in many]
    assert slots.settings.max_parallel == min(one.max_parallel for one in many)
    assert slots.settings.queue == min(one.queue for one in many)
    assert slots.settings.parallel_writers == all(one.parallel_writers for one in many)
    for client in connected[1:]:
        client.disconnect()
    assert slots.settings == many[0]
    connected[0].disconnect()
    assert slots.settings == many[0], "agents of clients that left may still run"


@pytest.mark.parametrize(("days", "kept"), [([], None), ([3], 3), ([3, 30, 7], 30), ([3, None], None), ([None], None)])
def test_sessions_are_kept_as_long_as_any_connected_client_keeps_them(days: list[int | None], kept: int | None) -> None:
    clients = Clients(Slots(AgentSettings()), lambda _: None)
    for one in days:
        clients.connect(Settings(keep_days=one), lambda _: ScriptedModel([]))
    assert clients.keep_days == kept
