"""Matching of rules, and their text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.rule import AccessRequest, Action, DecisionKind, Rule
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
