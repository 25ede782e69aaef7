"""Why a permission request asks: one short sentence, which names the mode or the rule and how to change it."""

import re

import pytest

from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import AccessRequest, Action, DecisionKind, Rule
from deputy_agents.permission.decide import Policy, decide

pytestmark = pytest.mark.requirement("Q7")


@pytest.mark.parametrize("mode", list(PermissionMode))
@pytest.mark.parametrize("action", list(Action))
def test_a_mode_that_asks_is_named_with_what_changes_that(mode: PermissionMode, action: Action) -> None:
    decision = decide(Policy(mode), AccessRequest("tool_name", action, "subject"))
    if decision.kind is not DecisionKind.ASK:
        return
    assert re.fullmatch(r"[A-Z][^.!?\n]{20,110}\.", decision.reason)
    if action is Action.CONFIGURE:
        assert "every mode asks, and no rule allows it" in decision.reason
    else:
        assert f"the mode {mode.value} asks" in decision.reason[0].lower() + decision.reason[1:]
        assert "a rule" in decision.reason or "accept_edits does not" in decision.reason


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("session", "the rules of this session"),
        ("settings", "your editor's settings"),
        ("/w/.deputy/settings.json", "/w/.deputy/settings.json"),
    ],
)
@pytest.mark.parametrize("known", [None, "git "])
def test_a_rule_that_asks_is_named_with_its_place(source: str, place: str, known: str | None) -> None:
    rule = Rule("1", "shell", DecisionKind.ASK, "git push *", source)
    request = AccessRequest("shell", Action.EXECUTE, "git push x" if known is None else "git $X", known=known)
    reason = decide(Policy(PermissionMode.DEFAULT, [rule]), request).reason
    assert reason.startswith("The rule shell(git push *) ")
    assert reason.endswith(f"; change it in {place}.")
