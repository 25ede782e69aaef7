"""Patterns of JSON Schema: those of JavaScript, in linear time."""

import time

import pytest

from deputy_agents.patterns.ecma import MAX_LENGTH, compile_pattern
from deputy_agents.patterns.linear import PatternError


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (r"^[\w-]{1,64}$", ["a-b"], ["", "é", "a b"]),
        (r"^\d{3}-\d{4}$", ["123-4567"], ["123-456", "١٢٣-4567", "123-4567\n"]),
        (r"b", ["abc"], ["ac"]),
        (r"^(?:[a-z]+/)*[a-z]+$", ["a/b"], ["/a"]),
        (r"^[[&~\]]+$", ["[&~]"], ["a"]),
        (r"^[a&&b]$", ["&"], ["c"]),
        (r"\.(js|ts)x?$", ["a.tsx"], ["atsx"]),
        (r"^\/\-\_\@\ $", ["/-_@ "], ["x"]),
        (r"a{b}", ["a{b}"], ["ab"]),
        (r"^\u0041\cA\x42\0$", ["A\x01B\0"], ["A"]),
        (r"^(?<year>\d{4})$", ["2024"], ["x"]),
        (r"^(?P<year>\d{4})$", ["2024"], ["x"]),
        (r"(?i)abc", ["ABC"], ["x"]),
        (r"^\p{Lu}[\p{L}]{2}$", ["Éaa"], ["1aa"]),
        (r"\bfoo\b", ["a foo b"], ["afoo"]),
        (r"^[\b]$", ["\b"], ["b"]),
        (r"^[\d\W]$", ["1", "-"], ["a"]),
        (r"^.{0,500}$", ["", "é" * 500], ["é" * 501]),
    ],
)
def test_patterns_match_only_the_listed_texts(pattern: str, yes: list[str], no: list[str]) -> None:
    expression = compile_pattern(pattern).linear
    assert [text for text in yes if not expression.search(text)] == []
    assert [text for text in no if expression.search(text)] == []


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"^(?=.*\d).+$", "lookaround"),
        (r"(?<!a)b", "lookaround"),
        (r"(a)\1", "backreferences"),
        (r"(?<x>a)\k<x>", "backreferences"),
        ("(", "unclosed"),
        ("[a", "unclosed"),
        ("[z-a]", "range"),
        ("a{99999}", "too large"),
        ("((a{100}){100}){100}", "too large"),
        ("(?:a|(?:b{50}c){50}){50}", "too large"),
        ("a" * (MAX_LENGTH + 1), "characters"),
    ],
)
def test_pattern_that_cannot_be_matched_in_linear_time_is_an_error(pattern: str, reason: str) -> None:
    with pytest.raises(PatternError, match=reason):
        compile_pattern(pattern)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", r"^(\w+\s?)*$", "(x+x+)+y", "^(.?){100}b$"])
def test_no_pattern_takes_long(pattern: str) -> None:
    expression = compile_pattern(pattern).linear
    started = time.process_time()
    for text in ("a" * 20_000 + "!", "x" * 20_000, "a a" * 7000):
        expression.search(text)
    assert time.process_time() - started < 5
