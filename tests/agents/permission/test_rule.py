"""Matching of rules, and their text."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.rule import AccessRequest, Action, DecisionKind, Rule, names_tool
from deputy_agents.guidance.rules import parse_rules
from deputy_agents.permission.rule_patterns import Match, lasting_rule, matches, parse_rule, rule_text

names = st.text(min_size=1, max_size=20)
tricky = st.text(alphabet="a*?[]{}()\\/!\n.", min_size=1, max_size=8)


def applies(rule: Rule, request: AccessRequest) -> bool:
    return matches(rule, request) is Match.YES


def hits(pattern: str, subject: str, action: Action = Action.EDIT) -> bool:
    return applies(Rule("r", "edit_file", DecisionKind.ALLOW, pattern), AccessRequest("edit_file", action, subject))


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("src/**", ["src/a", "src/a/b.py"], ["src", "lib/src/a"]),
        ("*.py", ["a.py", ".py"], ["src/a.py", "a.pyc", "a.py\n"]),
        ("**/*.py", ["a.py", "src/a.py", "src/deep/a.py"], ["a.txt"]),
        ("src/**/a", ["src/a", "src/x/y/a"], ["src/ba", "srca"]),
        ("a**/b", ["ax/b", "a/b", "axx/y/b"], ["ab"]),
        (".env", [".env"], ["x/.env", "xenv"]),
        ("?.md", ["a.md"], ["ab.md", "/.md"]),
        (r"\*.py", ["*.py"], ["a.py"]),
        ("a[b]", ["a[b]"], ["ab"]),
        ("**", ["a", "a/b", "."], []),
        ("a\\", ["a\\"], ["a"]),
    ],
)
def test_path_patterns_match_only_the_listed_subjects(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [subject for subject in yes if not hits(pattern, subject)] == []
    assert [subject for subject in no if hits(pattern, subject)] == []


def test_star_matches_slashes_in_commands() -> None:
    assert hits("git diff *", "git diff src/a.py", Action.EXECUTE)
    assert not hits("git diff *", "git difftool x", Action.EXECUTE)


@given(tricky, tricky)
def test_lasting_rule_applies_to_one_subject_only(one: str, other: str) -> None:
    rule = lasting_rule(AccessRequest("edit_file", Action.EDIT, one), DecisionKind.ALLOW)
    assert applies(rule, AccessRequest("edit_file", Action.EDIT, one))
    assert applies(rule, AccessRequest("edit_file", Action.EDIT, other)) is (one == other)
    assert not applies(rule, AccessRequest("write_file", Action.EDIT, one))


@given(names)
def test_text_of_a_rule_parses_to_the_same_rule(subject: str) -> None:
    rule = lasting_rule(AccessRequest("edit_file", Action.EDIT, subject), DecisionKind.DENY)
    back = parse_rule(rule_text(rule), DecisionKind.DENY)
    assert (back.tool, back.pattern, back.decision) == (rule.tool, rule.pattern, rule.decision)


def test_text_of_a_lasting_rule_is_the_tool_and_the_path() -> None:
    rule = lasting_rule(AccessRequest("edit_file", Action.EDIT, "src/lib.rs"), DecisionKind.ALLOW)
    assert rule_text(rule) == "edit_file(src/lib.rs)"
    assert rule.source == "session"


def test_rule_without_a_pattern_applies_to_every_call_of_its_tool() -> None:
    rule = parse_rule(" edit_file ", DecisionKind.ASK, "settings")
    assert (rule.tool, rule.pattern, rule.source, rule_text(rule)) == ("edit_file", None, "settings", "edit_file")
    assert applies(parse_rule("*", DecisionKind.DENY), AccessRequest("anything", Action.FETCH, "example.com"))


@pytest.mark.parametrize("text", ["", "edit_file(", "edit_file()", "edit file(x)", "(x)", "a(b)c"])
def test_invalid_rule_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(InvalidRequest, match="Use tool or tool"):
        parse_rule(text, DecisionKind.ALLOW)


@pytest.mark.parametrize("action", [Action.EDIT, Action.EXECUTE])
@pytest.mark.parametrize(
    "pattern", ["*a" * 99 + "*b", "**/" * 90 + "x", "*?" * 49 + "b", "**a" * 49 + "??" * 25 + " *"]
)
def test_no_pattern_takes_long(pattern: str, action: Action) -> None:
    started = time.process_time()
    for subject in ("a" * 20_000, "a/" * 10_000, "a " * 10_000):
        hits(pattern, subject, action)
    assert time.process_time() - started < 5


def test_pattern_with_too_many_wildcards_is_rejected() -> None:
    with pytest.raises(InvalidRequest, match="more than 100 wildcards"):
        parse_rule(f"shell({'*a' * 201})", DecisionKind.DENY)


@pytest.mark.parametrize(("decision", "match"), [(DecisionKind.ALLOW, Match.NO), (DecisionKind.DENY, Match.MAYBE)])
def test_rule_that_cannot_be_applied_allows_nothing(decision: DecisionKind, match: Match) -> None:
    rule = Rule("r", "edit_file", decision, "*a" * 201)
    assert matches(rule, AccessRequest("edit_file", Action.EDIT, "b")) is match


@given(st.text(min_size=1, max_size=20), st.text(alphabet="a/*\udc80[\\", min_size=1, max_size=8))
def test_lasting_rule_for_a_long_subject_applies(part: str, end: str) -> None:
    subject = part * 5000 + end
    for decision in (DecisionKind.ALLOW, DecisionKind.DENY):
        rule = lasting_rule(AccessRequest("shell", Action.EXECUTE, subject), decision)
        assert applies(rule, AccessRequest("shell", Action.EXECUTE, subject))
        assert applies(rule, AccessRequest("shell", Action.EXECUTE, f"{subject} x")) is (decision is DecisionKind.DENY)


@pytest.mark.parametrize(
    ("entry", "tool", "named"),
    [
        ("mcp__a", "mcp__a__x", True),
        ("mcp__a", "mcp__ab__x", False),
        ("mcp__*__read", "mcp__a__read", True),
        ("mcp__a__*", "mcp__a__x", True),
        ("mcp__a[b]", "mcp__ab", False),
        ("mcp__" + "*a" * 90 + "b", "mcp__" + "a" * 100, False),
        ("mcp__" + "*a" * 5000, "mcp__" + "a" * 100, False),
        ("read*", "read_file", False),
    ],
)
def test_names_of_tools(entry: str, tool: str, named: bool) -> None:
    assert names_tool(entry, tool) is named


def test_all_rules_of_a_file_have_few_wildcards() -> None:
    rules, problems = parse_rules(
        {"permissions": {"rules": [{"tool": "shell", "pattern": "*a" * 90, "action": "deny"}] * 6}}, "file"
    )
    assert [(rule.tool, rule.decision) for rule in rules] == [("*", DecisionKind.ASK)]
    assert "the patterns of all rules have more than 500 wildcards" in problems[0].reason
