"""Hooks in the settings file of a workspace."""

import json
from pathlib import Path

import pytest

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.guidance.workspace_settings import read_workspace_settings
from deputy_agents.hooks.config import compile_matcher
from deputy_server.settings_files import Scope, UserDefaults, file_problems, write_value


@pytest.mark.parametrize(
    ("hooks", "kept", "reason"),
    [
        ([{"on": "turn_end", "run": "x"}], 1, ""),
        ([{"on": "turn_end", "run": "x"}, {"on": "never", "run": "x"}], 1, "hook 2: on: "),
        ([{"on": "turn_end"}], 0, "hook 1: run: is required"),
        ([{"on": "turn_end", "run": "x", "timeout": 100_000}], 0, "hook 1: timeout: must be at most "),
        ([{"on": "turn_end", "run": "x", "match": "Edit"}], 0, "hook 1: match: unknown field"),
        ([{"on": "turn_end", "run": "x", "matcher": "(?=Edit)"}], 0, "hook 1: matcher: lookaround"),
        (["ruff format"], 0, "hook 1: must be an object"),
        ("make", 0, "hooks must be a list"),
    ],
    ids=str,
)
def test_invalid_hook_is_reported_and_the_others_are_kept(
    tmp_path: Path, hooks: object, kept: int, reason: str
) -> None:
    (tmp_path / ".deputy").mkdir()
    (tmp_path / ".deputy/settings.json").write_text(json.dumps({"hooks": hooks}))
    found = read_workspace_settings(tmp_path)
    assert len(found.hooks) == kept
    assert [problem.reason[: len(reason)] for problem in found.problems] == ([reason] if reason else [])


@pytest.mark.requirement("Q9")
@pytest.mark.parametrize(
    ("matcher", "matches", "other"),
    [
        ("Edit|Write", "Write", "NotebookWrite"),
        ("Edit, Write", "Write", "Writer"),
        ("Notebook.*", "NotebookEdit", "Edit"),
        ("mcp__memory__.*", "mcp__memory__read", "mcp__other__read"),
        ("^mcp__", "mcp__a__b", "Bash"),
    ],
)
def test_matchers_are_names_or_expressions(matcher: str, matches: str, other: str) -> None:
    pattern = compile_matcher(matcher)
    assert pattern is not None
    assert pattern.linear.search(matches)
    assert not pattern.linear.search(other)


@pytest.mark.requirement("Q9")
@pytest.mark.parametrize(
    ("hooks", "line", "reason"),
    [
        ('{"PreToolUse": [],\n"PreTool": []}', 3, "hooks.PreTool: there is no such event. Did you mean PreToolUse?"),
        ('{"Never": []}', 2, "hooks.Never: there is no such event. Use one of: SessionStart, "),
        ('{"Stop": [{"hooks": [\n{"type": "http", "url": "x"}]}]}', 3, "hooks.Stop[0].hooks[0]: type: must be "),
        ('{"Stop": [{"hooks": [{"type": "command", "command": "x", "if": "y"}]}]}', 2, "hooks.Stop[0].hooks[0]: if: "),
        ('{"Stop": {}}', 2, "hooks.Stop: must be a list"),
        ('[\n{"on": "PreToolUse", "run": "x"}]', 3, "hook 1: on: must be 'session_start', 'session_end'"),
    ],
)
def test_what_is_no_hook_is_reported_with_its_place(tmp_path: Path, hooks: str, line: int, reason: str) -> None:
    file = tmp_path / ".deputy/settings.json"
    file.parent.mkdir()
    file.write_text(f'{{\n"hooks": {hooks}}}\n')
    (problem,) = read_workspace_settings(tmp_path).problems
    assert (problem.line, problem.reason[: len(reason)]) == (line, reason)


@pytest.mark.requirement("Q9")
def test_the_users_own_file_may_have_hooks_as_in_claude_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEPUTY_CONFIG", str(tmp_path))
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": "make"}]}]}
    write_value(Scope.USER, "hooks", hooks)
    write_value(Scope.USER, "model", "offline")
    assert UserDefaults().problem is None
    assert file_problems(Scope.USER) == ()
    with pytest.raises(InvalidRequest, match="Did you mean Stop"):
        write_value(Scope.USER, "hooks", {"Stops": []})
    assert json.loads((tmp_path / "settings.json").read_text()) == {"hooks": hooks, "model": "offline"}
