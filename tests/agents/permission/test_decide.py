"""The gate, as laws that hold for every policy and request."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import AccessRequest, Action, DecisionKind, Rule
from deputy_agents.permission.decide import Policy, decide, decide_all, meet

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


def rule(effect: DecisionKind, tool: str = "edit_file", pattern: str | None = None) -> Rule:
    return Rule("r", tool, effect, pattern)


@given(policies, policies, requests)
def test_a_child_is_never_allowed_more_than_its_parent(child: Policy, parent: Policy, request: AccessRequest) -> None:
    assert strictness(meet(child, parent), request) >= strictness(parent, request)


@given(policies, policies, policies, requests)
def test_a_grandchild_is_never_allowed_more_than_anybody_above_it(
    grandchild: Policy, child: Policy, root: Policy, request: AccessRequest
) -> None:
    middle = meet(child, root)
    lowest = strictness(meet(grandchild, middle), request)
    assert lowest >= strictness(middle, request) >= strictness(root, request)


@given(policies, policies, requests)
def test_a_child_is_denied_what_its_own_rules_deny(child: Policy, parent: Policy, request: AccessRequest) -> None:
    if decide(child, request).kind is DecisionKind.DENY:
        assert decide(meet(child, parent), request).kind is DecisionKind.DENY


@given(policies, rules, requests)
def test_adding_a_rule_that_denies_never_allows_more(policy: Policy, added: Rule, request: AccessRequest) -> None:
    denying = Rule(added.rule_id, added.tool, DecisionKind.DENY, added.pattern)
    more = Policy(policy.mode, [*policy.rules, denying])
    assert strictness(more, request) >= strictness(policy, request)


@given(policies, requests, st.randoms(use_true_random=False))
def test_the_order_of_rules_does_not_matter(policy: Policy, request: AccessRequest, random: Random) -> None:
    shuffled = list(policy.rules)
    random.shuffle(shuffled)
    turned = Policy(policy.mode, shuffled)
    assert decide(turned, request).kind is decide(policy, request).kind


@given(st.lists(rules, max_size=5), requests)
def test_a_higher_mode_is_never_stricter(some: list[Rule], request: AccessRequest) -> None:
    effects = [strictness(Policy(mode, some), request) for mode in PermissionMode]
    assert all(lower >= higher for lower, higher in pairwise(effects))


@given(policies, st.lists(requests, min_size=1, max_size=4))
def test_several_requests_are_decided_as_the_strictest_of_them(policy: Policy, some: list[AccessRequest]) -> None:
    assert STRICT[decide_all(policy, some).kind] == max(strictness(policy, request) for request in some)


@pytest.mark.parametrize("mode", PermissionMode)
def test_a_call_that_asks_for_nothing_is_denied(mode: PermissionMode) -> None:
    assert decide_all(Policy(mode), ()).kind is DecisionKind.DENY


@pytest.mark.parametrize("mode", PermissionMode)
def test_tools_of_the_session_are_allowed_whatever_rules_say(mode: PermissionMode) -> None:
    request = AccessRequest("submit_result", Action.SESSION, "")
    assert decide(Policy(mode, [rule(DecisionKind.DENY, "*")]), request).kind is DecisionKind.ALLOW


@pytest.mark.requirement("A5")
@pytest.mark.parametrize(
    ("action", "effects"),
    [
        (Action.SESSION, "allow allow allow allow"),
        (Action.READ, "allow allow allow allow"),
        (Action.READ_SECRET, "ask ask ask allow"),
        (Action.EDIT, "deny ask allow allow"),
        (Action.EDIT_PROTECTED, "deny ask ask allow"),
        (Action.EXECUTE, "deny ask ask allow"),
        (Action.FETCH, "ask ask ask allow"),
        (Action.SPAWN, "deny allow allow allow"),
        (Action.SPAWN_READ_ONLY, "allow allow allow allow"),
    ],
)
def test_without_rules_the_mode_decides(action: Action, effects: str) -> None:
    found = [decide(Policy(mode), AccessRequest("some_tool", action, "x")).kind for mode in PermissionMode]
    assert found == [DecisionKind(effect) for effect in effects.split()]


def test_a_rule_that_denies_holds_in_bypass() -> None:
    assert decide(Policy(PermissionMode.BYPASS, [rule(DecisionKind.DENY)]), edit()).kind is DecisionKind.DENY


def test_a_denial_wins_over_permission_wherever_it_stands() -> None:
    both = [rule(DecisionKind.DENY), rule(DecisionKind.ALLOW)]
    for some in (both, both[::-1]):
        assert decide(Policy(PermissionMode.DEFAULT, some), edit()).kind is DecisionKind.DENY


def test_a_rule_that_asks_wins_over_one_that_allows() -> None:
    some = [rule(DecisionKind.ALLOW), rule(DecisionKind.ASK, pattern="src/**")]
    assert decide(Policy(PermissionMode.BYPASS, some), edit()).kind is DecisionKind.ASK


def test_a_remembered_permission_does_not_outlive_a_change_to_plan() -> None:
    allowed = [rule(DecisionKind.ALLOW)]
    assert decide(Policy(PermissionMode.DEFAULT, allowed), edit()).kind is DecisionKind.ALLOW
    assert decide(Policy(PermissionMode.PLAN, allowed), edit()).kind is DecisionKind.DENY


def test_what_the_user_allowed_for_the_session_is_allowed_to_children_too() -> None:
    parent = Policy(PermissionMode.DEFAULT, [rule(DecisionKind.ALLOW, pattern="src/a.py")])
    child = meet(Policy(PermissionMode.DEFAULT), parent)
    assert decide(child, edit("src/a.py")).kind is DecisionKind.ALLOW
    assert decide(child, edit("src/b.py")).kind is DecisionKind.ASK


def test_rules_of_a_definition_do_not_widen_what_the_parent_has_to_ask() -> None:
    child = Policy(PermissionMode.BYPASS, [rule(DecisionKind.ALLOW)])
    assert decide(meet(child, Policy(PermissionMode.DEFAULT)), edit()).kind is DecisionKind.ASK


def test_rules_of_a_definition_count_where_the_parent_is_allowed_more() -> None:
    child = Policy(PermissionMode.DEFAULT, [rule(DecisionKind.ALLOW, pattern="docs/**")])
    policy = meet(child, Policy(PermissionMode.BYPASS))
    assert decide(policy, edit("docs/a.md")).kind is DecisionKind.ALLOW
    assert decide(policy, edit("src/a.py")).kind is DecisionKind.ASK


def test_a_decision_names_the_rule_that_made_it_and_says_why() -> None:
    denied = rule(DecisionKind.DENY, pattern="src/**")
    decision = decide(Policy(PermissionMode.BYPASS, [denied]), edit())
    assert decision.rule is denied
    assert decision.reason == "The rule edit_file(src/**) denies it."
    assert decide(Policy(PermissionMode.PLAN), edit()).reason == "edit_file changes a file; the mode plan denies that."


def test_there_is_no_unknown_mode() -> None:
    with pytest.raises(ValueError, match="yolo"):
        PermissionMode("yolo")
