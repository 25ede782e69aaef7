"""A misspelled setting or rule is reported with its place: one that should deny must never be dropped silently."""

import json
from pathlib import Path

import pytest

from deputy_agents.guidance.jsonc import line_of
from deputy_server.setting_names import unknown_in_file, unknown_settings
from tests.support.rpc import serving


@pytest.mark.parametrize(
    ("values", "places"),
    [
        ({"permision": {"rules": [{"tool": "shell", "action": "deny"}]}}, ["deputy.permision: "]),
        ({"permissions": {"rule": []}}, ["deputy.permissions.rule: "]),
        ({"agents": {"maxParalel": 1}, "modle": "x"}, ["deputy.agents.maxParalel: ", "deputy.modle: "]),
        (
            {"hooks": [{"on": "turn_end", "run": "x", "tool": ["shell"]}]},
            ["deputy.hooks[0].tool: there is no such field"],
        ),
        ({"roots": [{"path": "/x"}, {"path": "/y", "writeable": True}]}, ["deputy.roots[1].writeable: "]),
        ({"mcpServers": {"any": {"name": 1}}, "api": {"headers": {"X-Any": "1"}}, "$schema": "x"}, []),
        ({"trusted": True, "token": "x", "model": None, "agents": None}, []),
    ],
)
def test_each_unknown_name_is_reported_with_its_place(values: object, places: list[str]) -> None:
    found = unknown_settings(values, "deputy")
    assert len(found) == len(places)
    for sentence, place in zip(found, places, strict=True):
        assert sentence.startswith(place)


def test_a_name_in_a_file_is_reported_with_its_line() -> None:
    text = '{\n  // rules\n  "permissions": {\n    "rules": [],\n    "rule": [{"tool": "shell"}]\n  }\n}\n'
    (problem,) = unknown_in_file("s.json", text, {"permissions": {"rules": [], "rule": []}})
    assert problem.startswith("s.json:5: permissions.rule: ")
    assert "Did you mean permissions.rules?" in problem
    assert line_of('[\n1,\n{"a":\n[2]}]', [1, "a", 0]) == 4


@pytest.mark.asyncio
async def test_an_editor_shows_unknown_names_in_its_settings_and_in_the_users_file(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    (home / ".deputy").mkdir(parents=True)
    (home / ".deputy" / "settings.json").write_text(
        '{\n"permisions": {"rules": [{"tool": "shell", "action": "deny"}]}}'
    )
    async with serving(env={"HOME": str(home)}) as client:

        def shown() -> str:
            return " ".join(m["params"]["message"] for m in client.received if m.get("method") == "window/showMessage")

        options = {"model": "offline", "permissions": {"ruels": [{"tool": "shell", "action": "deny"}]}}
        await client.initialize(workspace, initializationOptions=options)
        await client.until(lambda _: "initializationOptions.permissions.ruels" in shown())
        await client.until(lambda _: ".deputy/settings.json:2: permisions: " in shown())
        changed = {"settings": {"deputy": {"model": "offline", "agent": {"maxDepth": 1}}}}
        client.notify("workspace/didChangeConfiguration", changed)
        await client.until(lambda _: "deputy.agent: " in shown())
        await client.shut_down()


@pytest.mark.asyncio
async def test_a_rule_for_a_tool_that_does_not_exist_is_a_problem_with_its_file(workspace: Path) -> None:
    settings = workspace / ".deputy" / "settings.json"
    settings.parent.mkdir()
    rules = [{"tool": "shell", "action": "deny"}, {"tool": "shel", "action": "deny"}]
    settings.write_text(json.dumps({"permissions": {"rules": rules}}))
    async with serving() as client:
        await client.initialize(workspace, initializationOptions={"model": "offline"})
        session_id, _ = await client.session()
        await client.prompt(session_id, "hello")
        messages = [m["params"]["message"] for m in client.received if m.get("method") == "window/showMessage"]
        assert any(
            ".deputy/settings.json:1: rule 2 has no effect: there is no tool shel. Did you mean shell?" in one
            for one in messages
        ), messages
        await client.shut_down()
