"""The gate: properties for every policy and request, and examples."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import AccessRequest, Action, DecisionKind, Rule
from deputy_agents.permission.decide import Policy, child_policy, decide, decide_all
from deputy_agents.permission.rule_patterns import lasting_rule

STRICT = {DecisionKind.ALLOW: 0, DecisionKind.ASK: 1, DecisionKind.DENY: 2}

tools = st.sampled_from(["edit_file", "read_file", "shell", "spawn_agent"])
subjects = st.sampled_from(["a.py", "src/a.py", "src/deep/b.py", ".env", "git status"])
patterns = st.sampled_from([None, "*", "**", "src/**", "*.py", "**/*.py", ".env", "git *"])
requests = st.builds(AccessRequest, tools, st.sampled_from(Action), subjects)
rules = st.builds(Rule, st.just("r"), st.one_of(st.just("*"), tools), st.sampled_from(DecisionKind), patterns)
policies = st.builds(Policy, st.sampled_from(PermissionMode), st.lists(rules, max_size=5))


def strictness(policy: Policy, request: AccessRequest) -> int:
    return STRICT[decide(policy, request).kind]


def edit(path: str = "src/a.py") -> AccessRequest:
    return AccessRequest("edit_file", Action.EDIT, path)


def rule(decision: DecisionKind, tool: str = "edit_file", pattern: str | None = None) -> Rule:
    return Rule("r", tool, decision, pattern)


@given(policies, policies, requests)
def test_child_is_never_allowed_more_than_its_parent(child: Policy, parent: Policy, request: AccessRequest) -> None:
    assert strictness(child_policy(child, parent), request) >= strictness(parent, request)


@given(policies, policies, policies, requests)
def test_grandchild_is_never_allowed_more_than_its_ancestors(
    grandchild: Policy, child: Policy, root: Policy, request: AccessRequest
) -> None:
    middle = child_policy(child, root)
    lowest = strictness(child_policy(grandchild, middle), request)
    assert lowest >= strictness(middle, request) >= strictness(root, request)


@given(policies, policies, requests)
def test_child_is_denied_what_its_own_rules_deny(child: Policy, parent: Policy, request: AccessRequest) -> None:
    if decide(child, request).kind is DecisionKind.DENY:
        assert decide(child_policy(child, parent), request).kind is DecisionKind.DENY


@given(policies, rules, requests)
def test_adding_a_deny_rule_never_allows_more(policy: Policy, added: Rule, request: AccessRequest) -> None:
    denying = Rule(added.rule_id, added.tool, DecisionKind.DENY, added.pattern)
    more = Policy(policy.mode, [*policy.rules, denying])
    assert strictness(more, request) >= strictness(policy, request)


@given(policies, requests, st.randoms(use_true_random=False))
def test_order_of_rules_does_not_matter(policy: Policy, request: AccessRequest, random: Random) -> None:
    shuffled = list(policy.rules)
    random.shuffle(shuffled)
    reordered = Policy(policy.mode, shuffled)
    assert decide(reordered, request).kind is decide(policy, request).kind


@given(st.lists(rules, max_size=5), requests)
def test_higher_mode_is_never_stricter(some: list[Rule], request: AccessRequest) -> None:
    decisions = [strictness(Policy(mode, some), request) for mode in PermissionMode]
    assert all(lower >= higher for lower, higher in pairwise(decisions))


@given(policies, st.lists(requests, min_size=1, max_size=4))
def test_decision_about_several_requests_is_the_strictest(policy: Policy, some: list[AccessRequest]) -> None:
    assert STRICT[decide_all(policy, some).kind] == max(strictness(policy, request) for request in some)


@pytest.mark.parametrize("mode", PermissionMode)
def test_call_without_access_requests_is_denied(mode: PermissionMode) -> None:
    assert decide_all(Policy(mode), ()).kind is DecisionKind.DENY


@pytest.mark.parametrize("mode", PermissionMode)
def test_session_tools_are_allowed_regardless_of_rules(mode: PermissionMode) -> None:
    request = AccessRequest("submit_result", Action.SESSION, "")
    assert decide(Policy(mode, [rule(DecisionKind.DENY, "*")]), request).kind is DecisionKind.ALLOW


@pytest.mark.requirement("A5")
@pytest.mark.parametrize(
    ("action", "decisions"),
    [
        (Action.SESSION, "allow allow allow allow"),
        (Action.READ, "allow allow allow allow"),
        (Action.READ_SECRET, "ask ask ask allow"),
        (Action.EDIT, "deny ask allow allow"),
        (Action.EDIT_PROTECTED, "deny ask ask allow"),
        (Action.CONFIGURE, "deny ask ask ask"),
        (Action.EXECUTE, "deny ask ask allow"),
        (Action.FETCH, "ask ask ask allow"),
        (Action.SPAWN, "deny allow allow allow"),
        (Action.SPAWN_READ_ONLY, "allow allow allow allow"),
    ],
)
def test_without_rules_the_mode_decides(action: Action, decisions: str) -> None:
    found = [decide(Policy(mode), AccessRequest("some_tool", action, "x")).kind for mode in PermissionMode]
    assert found == [DecisionKind(decision) for decision in decisions.split()]


def test_deny_rule_applies_in_bypass_mode() -> None:
    assert decide(Policy(PermissionMode.BYPASS, [rule(DecisionKind.DENY)]), edit()).kind is DecisionKind.DENY


def test_deny_rule_wins_over_allow_rule_in_any_order() -> None:
    both = [rule(DecisionKind.DENY), rule(DecisionKind.ALLOW)]
    for some in (both, both[::-1]):
        assert decide(Policy(PermissionMode.DEFAULT, some), edit()).kind is DecisionKind.DENY


def test_ask_rule_wins_over_allow_rule() -> None:
    some = [rule(DecisionKind.ALLOW), rule(DecisionKind.ASK, pattern="src/**")]
    assert decide(Policy(PermissionMode.BYPASS, some), edit()).kind is DecisionKind.ASK


@pytest.mark.parametrize("pattern", [None, "*", "**", "**/*", ".g*/**", "*/workflows/**", "**/*.yml", ".?ithub/**"])
def test_broad_allow_rule_does_not_cover_a_protected_file(pattern: str | None) -> None:
    request = AccessRequest("edit_file", Action.EDIT_PROTECTED, ".github/workflows/ci.yml")
    for tool in ("*", "edit_file"):
        policy = Policy(PermissionMode.ACCEPT_EDITS, [rule(DecisionKind.ALLOW, tool, pattern)])
        assert decide(policy, request).kind is DecisionKind.ASK


@pytest.mark.parametrize("pattern", [".github/**", ".github/workflows/ci.yml", "**/.github/**", ".github/*/*"])
def test_allow_rule_that_names_what_is_protected_covers_it(pattern: str) -> None:
    request = AccessRequest("edit_file", Action.EDIT_PROTECTED, ".github/workflows/ci.yml")
    policy = Policy(PermissionMode.DEFAULT, [rule(DecisionKind.ALLOW, "edit_file", pattern)])
    assert decide(policy, request).kind is DecisionKind.ALLOW


def test_inner_protected_name_does_not_open_an_outer_protected_folder() -> None:
    request = AccessRequest("edit_file", Action.EDIT_PROTECTED, ".vscode/AGENTS.md")
    policy = Policy(PermissionMode.DEFAULT, [rule(DecisionKind.ALLOW, "edit_file", "**/AGENTS.md")])
    assert decide(policy, request).kind is DecisionKind.ASK


def test_lasting_approval_of_a_protected_file_covers_exactly_this_file() -> None:
    request = AccessRequest("edit_file", Action.EDIT_PROTECTED, ".git/hooks/a*b")
    policy = Policy(PermissionMode.DEFAULT, [lasting_rule(request, DecisionKind.ALLOW)])
    assert decide(policy, request).kind is DecisionKind.ALLOW
    other = AccessRequest("edit_file", Action.EDIT_PROTECTED, ".git/hooks/axb")
    assert decide(policy, other).kind is DecisionKind.ASK


@pytest.mark.parametrize("pattern", [None, "**", ".deputy/**", ".deputy/settings.json"])
@pytest.mark.parametrize("tool", ["*", "write_file"])
def test_no_rule_and_no_mode_allows_a_change_of_own_configuration(tool: str, pattern: str | None) -> None:
    request = AccessRequest("write_file", Action.CONFIGURE, ".deputy/settings.json")
    for mode in (PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS, PermissionMode.BYPASS):
        assert decide(Policy(mode, [rule(DecisionKind.ALLOW, tool, pattern)]), request).kind is DecisionKind.ASK
        denied = Policy(mode, [rule(DecisionKind.DENY, tool, pattern)])
        assert decide(denied, request).kind is DecisionKind.DENY


def test_deny_rule_applies_to_every_name_of_a_file_and_allow_rule_to_the_real_one() -> None:
    request = AccessRequest("read_file", Action.READ_SECRET, "real.txt", also=(("link.txt", None),))
    denied = [rule(DecisionKind.DENY, "read_file", pattern) for pattern in ("real.txt", "link.txt")]
    assert [decide(Policy(PermissionMode.BYPASS, [one]), request).kind for one in denied] == [DecisionKind.DENY] * 2
    allowed = [rule(DecisionKind.ALLOW, "read_file", pattern) for pattern in ("real.txt", "link.txt")]
    kinds = [decide(Policy(PermissionMode.DEFAULT, [one]), request).kind for one in allowed]
    assert kinds == [DecisionKind.ALLOW, DecisionKind.ASK]


def test_plan_mode_overrides_a_lasting_approval() -> None:
    allowed = [rule(DecisionKind.ALLOW)]
    assert decide(Policy(PermissionMode.DEFAULT, allowed), edit()).kind is DecisionKind.ALLOW
    assert decide(Policy(PermissionMode.PLAN, allowed), edit()).kind is DecisionKind.DENY


def test_lasting_approval_applies_to_children() -> None:
    parent = Policy(PermissionMode.DEFAULT, [rule(DecisionKind.ALLOW, pattern="src/a.py")])
    child = child_policy(Policy(PermissionMode.DEFAULT), parent)
    assert decide(child, edit("src/a.py")).kind is DecisionKind.ALLOW
    assert decide(child, edit("src/b.py")).kind is DecisionKind.ASK


def test_rules_of_a_definition_do_not_allow_more_than_the_parent() -> None:
    child = Policy(PermissionMode.BYPASS, [rule(DecisionKind.ALLOW)])
    assert decide(child_policy(child, Policy(PermissionMode.DEFAULT)), edit()).kind is DecisionKind.ASK


def test_rules_of_a_definition_apply_if_the_parent_is_allowed_more() -> None:
    child = Policy(PermissionMode.DEFAULT, [rule(DecisionKind.ALLOW, pattern="docs/**")])
    policy = child_policy(child, Policy(PermissionMode.BYPASS))
    assert decide(policy, edit("docs/a.md")).kind is DecisionKind.ALLOW
    assert decide(policy, edit("src/a.py")).kind is DecisionKind.ASK


def test_decision_has_the_rule_and_a_reason() -> None:
    denied = rule(DecisionKind.DENY, pattern="src/**")
    decision = decide(Policy(PermissionMode.BYPASS, [denied]), edit())
    assert decision.rule is denied
    assert decision.reason == "The rule edit_file(src/**) denies it."
    assert decide(Policy(PermissionMode.PLAN), edit()).reason == "edit_file changes a file, which the mode plan denies."


def test_unknown_mode_is_rejected() -> None:
    with pytest.raises(ValueError, match="yolo"):
        PermissionMode("yolo")
