"""Hooks in the settings file of a workspace."""

import json
from pathlib import Path

import pytest

from deputy_agents.guidance.workspace_settings import read_workspace_settings


@pytest.mark.parametrize(
    ("hooks", "kept", "reason"),
    [
        ([{"on": "turn_end", "run": "x"}], 1, ""),
        ([{"on": "turn_end", "run": "x"}, {"on": "never", "run": "x"}], 1, "hook 2: on: "),
        ([{"on": "turn_end"}], 0, "hook 1: run: is required"),
        ([{"on": "turn_end", "run": "x", "timeout": 100_000}], 0, "hook 1: timeout: must be at most "),
        ([{"on": "turn_end", "run": "x", "matcher": "Edit"}], 0, "hook 1: matcher: unknown field"),
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
