"""Globs: their language, their limits, and linear time."""

import time

import pytest

from deputy_agents.patterns.glob import (
    GITIGNORE,
    MAX_LENGTH,
    MAX_WILDCARDS,
    PATH,
    SEARCH,
    TEXT,
    Syntax,
    compile_glob,
    split,
)
from deputy_agents.patterns.linear import Linear, PatternError, escape


@pytest.mark.parametrize(
    ("pattern", "syntax", "yes", "no"),
    [
        ("src/**", PATH, ["src/a", "src/a/b"], ["src", "lib/src/a"]),
        ("a**/b", PATH, ["ax/b", "a/b", "axx/y/b"], ["ab"]),
        ("a/**/x", PATH, ["a/x", "a/b/c/x"], ["ax", "a/bx"]),
        ("a\\", PATH, ["a\\"], ["a"]),
        ("a[b]*", PATH, ["a[b]", "a[b]c"], ["ab"]),
        ("[*]", PATH, ["[]", "[x]"], ["x", "*"]),
        ("?.md", PATH, ["a.md", "é.md", "\udc80.md"], ["/.md", "ab.md"]),
        ("**/x", GITIGNORE, ["x", "a/b/x"], ["ax"]),
        ("a**b", GITIGNORE, ["ab", "axb"], ["a/b"]),
        ("[!a-c]x", GITIGNORE, ["dx", "\udc80x"], ["ax", "/x"]),
        ("[[:alpha:]-]x", GITIGNORE, ["dx", "-x"], ["1x"]),
        ("[]-a]x", GITIGNORE, ["]x", "ax", "^x"], ["bx"]),
        (r"[\]a]x", GITIGNORE, ["]x", "ax"], ["\\x"]),
        ("[--0]x", GITIGNORE, ["-x", ".x", "0x"], ["/x", "ax"]),
        ("[a&&b]x", GITIGNORE, ["&x", "ax"], ["cx"]),
        ("[[a]x", GITIGNORE, ["[x", "ax"], ["bx"]),
        ("[^/]", GITIGNORE, ["a"], ["/", ""]),
        ("app/[id]/*", SEARCH, ["app/[id]/x", "app/i/x"], ["app/x/x", "app/[id]/x/y"]),
        ("[[...slug]]/a", SEARCH, ["[[...slug]]/a", "s]/a"], ["a"]),
        ("git *", TEXT, ["git a/b\nc"], ["git"]),
        ("a\udc80*", PATH, ["a\udc80\udc81"], ["a\udc81", "a"]),
        ("*\udc80", PATH, ["a\udc80"], ["a\udc81"]),
    ],
)
def test_globs_match_only_the_listed_texts(pattern: str, syntax: Syntax, yes: list[str], no: list[str]) -> None:
    glob = compile_glob(pattern, syntax)
    assert [text for text in yes if not glob.matches(text)] == []
    assert [text for text in no if glob.matches(text)] == []


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("a[b", "without a"),
        ("[[:nonsense:]]", "unknown class"),
        ("*a" * (MAX_WILDCARDS + 1), "wildcards"),
        ("*" + "a" * MAX_LENGTH, "characters"),
    ],
)
def test_glob_beyond_the_limits_is_an_error(pattern: str, reason: str) -> None:
    with pytest.raises(PatternError, match=reason):
        compile_glob(pattern, SEARCH)


def test_literal_text_has_no_limit() -> None:
    text = "a" * 1_000_000
    assert compile_glob(text, TEXT).matches(text)
    assert compile_glob(text, TEXT, "(?: .*)?").matches(f"{text} b")
    assert split(r"a\*b*c", PATH) == ("a*b", "*c")


EVIL = [
    "*a" * 99 + "*b",
    "**/" * 98 + "x",
    "*?" * 49 + "b",
    "**/a" * 98 + "/b",
    "?" * 99 + "*b",
    "**a" * 50 + "?" * 50 + "b",
]


@pytest.mark.parametrize("syntax", [PATH, TEXT, SEARCH, GITIGNORE])
@pytest.mark.parametrize("pattern", EVIL)
def test_no_glob_takes_long(pattern: str, syntax: Syntax) -> None:
    glob = compile_glob(pattern, syntax)
    started = time.process_time()
    for text in ("a" * 20_000, "a/" * 10_000, "ab" * 10_000):
        glob.matches(f"{text}c")
    assert time.process_time() - started < 5


@pytest.mark.parametrize("text", ["a.b*c", "[x]{y}(z)|^$", "a-b&&c~~d#e", "\\ \n\t\0", "é\U0001f600"])
def test_escaped_text_matches_itself_alone(text: str) -> None:
    expression = Linear(rf"\A{escape(text)}\z")
    assert expression.search(text)
    assert not expression.search(f"{text}x")
