"""Settings: defaults, invalid values, and ignored fields."""

import pytest

from deputy_protocol.errors import InvalidParams
from deputy_protocol.rule import RuleAction
from deputy_protocol.session import PermissionMode
from deputy_protocol.settings import (
    AgentSettings,
    BudgetSettings,
    BudgetsSettings,
    LimitSettings,
    PermissionSettings,
    RuleSetting,
    Settings,
)
from deputy_protocol.validate import parse


@pytest.mark.parametrize(
    "raw", [None, {}, {"agents": None, "permissions": {}}, {"agents": {"queue": None}, "theme": "x"}]
)
def test_absent_null_and_unknown_fields_leave_the_defaults(raw: object) -> None:
    assert parse(Settings, raw) == Settings()


def test_defaults_are_those_of_the_contract() -> None:
    assert Settings().permission_mode is PermissionMode.DEFAULT
    assert Settings().trusted is True
    assert Settings().agents == AgentSettings(
        enabled=True,
        max_parallel=16,
        max_parallel_per_parent=8,
        queue=64,
        max_depth=1,
        parallel_writers=False,
        timeout=900,
        wake_on_task_end=True,
    )
    assert Settings().permissions == PermissionSettings(rules=(), reconnect_grace=60)


def test_all_settings_are_read() -> None:
    given = {
        "model": "offline",
        "smallModel": "tiny",
        "baseUrl": "http://127.0.0.1:8000",
        "permissionMode": "plan",
        "trusted": False,
        "agents": {"maxParallel": 4, "timeout": 2.5, "queue": 0},
        "budgets": {"agent": {"tokens": 10, "toolCalls": 2}, "tree": {"cost": 0.5, "seconds": 60}},
        "limits": {"promptQueue": 0},
        "permissions": {"rules": [{"tool": "shell", "pattern": "git *", "action": "allow"}], "reconnectGrace": 0},
    }
    read = parse(Settings, given)
    assert (read.model, read.small_model, read.base_url) == ("offline", "tiny", "http://127.0.0.1:8000")
    assert (read.permission_mode, read.trusted) == (PermissionMode.PLAN, False)
    assert read.agents == AgentSettings(max_parallel=4, timeout=2.5, queue=0)
    assert read.budgets == BudgetsSettings(
        agent=BudgetSettings(tokens=10, tool_calls=2), tree=BudgetSettings(cost=0.5, seconds=60)
    )
    assert read.limits == LimitSettings(prompt_queue=0)
    rule = RuleSetting(tool="shell", pattern="git *", action=RuleAction.ALLOW)
    assert read.permissions == PermissionSettings(rules=(rule,), reconnect_grace=0)


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"agents": {"maxParallel": -1}}, "agents.maxParallel"),
        ({"agents": {"maxParallel": 0}}, "agents.maxParallel"),
        ({"agents": {"maxParallelPerParent": "8"}}, "agents.maxParallelPerParent"),
        ({"agents": {"queue": -5}}, "agents.queue"),
        ({"agents": {"maxDepth": 1.5}}, "agents.maxDepth"),
        ({"agents": {"timeout": 0}}, "agents.timeout"),
        ({"agents": {"timeout": True}}, "agents.timeout"),
        ({"agents": {"timeout": float("inf")}}, "agents.timeout"),
        ({"agents": {"enabled": "no"}}, "agents.enabled"),
        ({"agents": []}, "agents"),
        ({"budgets": {"agent": {"tokens": 0}}}, "budgets.agent.tokens"),
        ({"budgets": {"agent": {"toolCalls": -1}}}, "budgets.agent.toolCalls"),
        ({"budgets": {"tree": {"cost": 0}}}, "budgets.tree.cost"),
        ({"budgets": {"tree": {"seconds": "60"}}}, "budgets.tree.seconds"),
        ({"limits": {"resultBytes": 0}}, "limits.resultBytes"),
        ({"permissions": {"reconnectGrace": -1}}, "permissions.reconnectGrace"),
        ({"permissions": {"rules": [{"tool": "shell", "action": "maybe"}]}}, "permissions.rules[0].action"),
        ({"permissions": {"rules": [{"action": "deny"}]}}, "permissions.rules[0].tool"),
        ({"permissionMode": "yolo"}, "permissionMode"),
        ({"trusted": "yes"}, "trusted"),
        ({"model": 5}, "model"),
        ([], ""),
    ],
)
def test_invalid_setting_raises_error_that_names_it(raw: object, field: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        parse(Settings, raw)
    assert caught.value.field == field


def test_repr_does_not_contain_the_token() -> None:
    assert "s3cret" not in repr(parse(Settings, {"token": "s3cret"}))
