"""Where permission rules come from, and what may come from where."""

import json
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from deputy_agents.domain.event import PermissionResolved, ResolvedBy, ToolCallStarted
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.domain.settings import PermissionSettings, Settings
from deputy_agents.model.scripted import calls, say, use
from tests.support.core import DENY, Cast, Person, core, delegate, silent

pytestmark = pytest.mark.asyncio

BYPASS = Settings(permission_mode=PermissionMode.BYPASS)
ECHO = calls([use("shell", command="echo one")])


async def put_rules(workspace: Path, *rules: dict[str, str], text: str | None = None) -> None:
    file = anyio.Path(workspace / ".deputy" / "settings.json")
    await file.parent.mkdir(exist_ok=True, parents=True)
    await file.write_text(json.dumps({"permissions": {"rules": rules}}) if text is None else text)


async def test_rules_of_the_workspace_forbid_and_ask_in_any_folder(workspace: Path) -> None:
    await put_rules(workspace, {"tool": "shell", "pattern": "echo *", "action": "deny"})
    async with core(workspace, Cast([ECHO, say("done")]), settings=BYPASS) as c:
        await c.session.refresh()
        await c.turn()
        assert c.told() == ["Denied: The rule shell(echo *) denies it."]
        assert c.session.permissions.rules()[0].source == str(workspace / ".deputy" / "settings.json")


@pytest.mark.parametrize("vouched", [False, True])
async def test_rules_of_the_workspace_allow_only_where_the_user_has_said_that_it_is_trusted(
    workspace: Path, vouched: bool
) -> None:
    await put_rules(workspace, {"tool": "shell", "pattern": "echo *", "action": "allow"})
    person = Person(DENY)
    settings = replace(Settings(), vouched=vouched)
    async with core(workspace, Cast([ECHO, say("done")]), person, settings=settings) as c:
        await c.session.refresh()
        await c.turn()
        assert c.told() == ["one" if vouched else "Denied by the user."]
        hints = [problem.reason for problem in c.session.problems]
        assert len(hints) == (0 if vouched else 1)
        assert all(hint.startswith("a rule that allows something is not applied") for hint in hints)
    assert len(person.asked) == (0 if vouched else 1)


@pytest.mark.parametrize(("action", "told"), [("allow", "one"), ("deny", "Denied: The rule shell(echo *) denies it.")])
async def test_the_users_own_rules_hold_in_every_workspace(workspace: Path, action: str, told: str) -> None:
    await put_rules(workspace.parent / "home", {"tool": "shell", "pattern": "echo *", "action": action})
    async with core(workspace, Cast([ECHO, say("done")]), Person(DENY)) as c:
        await c.session.refresh()
        await c.turn()
        assert c.told() == [told]


BROKEN = (
    *(
        "{",
        "[]",
        '{"permissions": []}',
        '{"permissions": {"rules": {}}}',
        '{"permissions": {"rules": [1]}}',
        "9" * 9999,
    ),
    '{"permissions": {"rules": [{"tool": "shell", "action": "allowed"}]}}',
    '{"permissions": {"rules": [{"tool": "shell", "action": "allow", "patern": "echo *"}]}}',
    '{"permissions": {"rule": [{"tool": "shell", "action": "deny"}]}}',
)


@pytest.mark.parametrize("text", BROKEN)
async def test_while_rules_of_the_workspace_cannot_be_read_everything_asks(workspace: Path, text: str) -> None:
    await put_rules(workspace, text=text)
    person = Person(DENY)
    async with core(workspace, Cast([ECHO, say("done")]), person, settings=BYPASS) as c:
        await c.session.refresh()
        await c.turn()
        problems = c.session.customizations.library.problems
        assert any("Until this is fixed, every tool call needs approval." in one.reason for one in problems)
    assert len(person.asked) == 1


async def test_rules_of_the_workspace_that_change_decide_open_permission_requests(workspace: Path) -> None:
    async with core(workspace, Cast([ECHO, say("done")]), silent()) as c:
        turn = c.start()
        await c.permission_request()
        await put_rules(workspace, {"tool": "shell", "action": "deny"})
        await c.session.refresh()
        await c.finish(turn)
        assert c.told() == ["Denied: The rule shell denies it."]
        resolved = await c.seen(PermissionResolved)
        assert (resolved.by, resolved.reason) == (ResolvedBy.RULE, "The rule shell denies it.")


async def test_the_mode_that_settles_an_open_permission_request_is_named(workspace: Path) -> None:
    async with core(workspace, Cast([ECHO, say("done")]), silent()) as c:
        turn = c.start()
        await c.permission_request()
        c.session.permissions.mode = PermissionMode.PLAN
        await c.finish(turn)
        assert c.told() == ["Denied: shell runs a command, which the mode plan denies."]


async def test_the_rule_that_lets_a_call_run_is_named_in_its_event(workspace: Path) -> None:
    rules = (Rule("r", "shell", DecisionKind.ALLOW, "echo *", "settings"),)
    settings = Settings(permissions=PermissionSettings(rules))
    async with core(workspace, Cast([ECHO, calls([use("list_dir", path=".")]), say("done")]), settings=settings) as c:
        await c.turn()
        reasons = [call.reason for call in c.bodies(ToolCallStarted)]
        assert reasons == ["The rule shell(echo *) allows it.", None]


async def test_a_call_that_cannot_be_prepared_is_titled_with_what_it_was_to_be_about(workspace: Path) -> None:
    failing = [
        use("read_file", path="no/such.py"),
        use("edit_file", path="a\u202eb.py", new_string="x"),
        use("no_such_tool", query="two\nlines " + "x" * 300),
        use("shell", cwd=7),
    ]
    async with core(workspace, Cast([calls(failing), say("done")])) as c:
        await c.turn()
        read, edit, unknown, bare = [call.title for call in c.bodies(ToolCallStarted)]
    assert (read, edit, bare) == ("read_file(no/such.py)", "edit_file(a\\u{202e}b.py)", "shell()")
    assert unknown.startswith("no_such_tool(two lines xxx")
    assert len(unknown) <= len("no_such_tool()") + 200


@pytest.mark.requirement("E14")
async def test_rules_of_a_definition_hold_for_its_agents_and_allow_no_more_than_the_parent_may(workspace: Path) -> None:
    folder = anyio.Path(workspace / ".deputy" / "agents")
    await folder.mkdir(parents=True)
    await (folder / "careful.md").write_text(
        "---\nname: careful\ndescription: d\npermissions:\n"
        "  deny: ['shell(echo *)']\n  allow: ['shell(printf *)']\n---\nWork.\n"
    )
    work = calls([use("shell", command=command) for command in ("echo one", "printf two")])
    script = Cast(
        [
            calls([use("spawn_agents", tasks=[{"task": "w", "mode": "default", "subagent_type": "careful"}])]),
            ECHO,
            say("done"),
        ],
        {"w": [work, say("ended")]},
    )
    person = Person(DENY)
    async with core(workspace, script, person) as c:
        await c.session.refresh()
        await c.turn()
        told = str(c.requests("w")[-1].messages[-1])
        assert "Denied: The rule shell(echo *) denies it." in told
        assert "Denied by the user." in told
    assert person.titles == ["[w] shell(printf two)", "shell(echo one)"]


async def test_a_definition_whose_rules_cannot_be_read_is_not_loaded(workspace: Path) -> None:
    folder = anyio.Path(workspace / ".deputy" / "agents")
    await folder.mkdir(parents=True)
    await (folder / "odd.md").write_text("---\nname: odd\ndescription: d\npermissions: {forbid: [shell]}\n---\nWork.\n")
    async with core(workspace, Cast([delegate("x"), say("done")], {"x": [say("y")]})) as c:
        await c.session.refresh()
        assert "odd" not in c.session.customizations.catalogue.definitions
        [problem] = c.session.customizations.catalogue.problems
        assert problem.fatal
        assert problem.reason == "permissions: must contain lists of rules under allow, ask and deny."


async def test_rule_holds_in_the_folder_of_the_session_also_for_agents_that_work_elsewhere(workspace: Path) -> None:
    await anyio.Path(workspace / "sub").mkdir()
    rules = (Rule("r", "shell", DecisionKind.ALLOW, "pwd", "settings"),)
    settings = Settings(permissions=PermissionSettings(rules))
    tasks = [{"task": "w", "mode": "default", "cwd": "sub"}]
    here = calls([use("shell", command="pwd"), use("shell", command=f"cd {workspace} && pwd")])
    script = Cast([calls([use("spawn_agents", tasks=tasks)]), say("done")], {"w": [here, say("ended")]})
    person = Person(DENY)
    async with core(workspace, script, person, settings=settings) as c:
        await c.turn()
    assert person.titles == ["[w] shell(pwd)"]
