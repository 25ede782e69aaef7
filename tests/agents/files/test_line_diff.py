"""Differences of large texts: bounded, complete where they can be, and right."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.preview import DiffHunk
from deputy_agents.files import line_diff
from deputy_agents.files.line_diff import MAX_CHARS, MAX_HUNKS, MAX_LINE, MAX_LINES, diff_hunks

NO_END = "\\ No newline at end of file"
TEXTS = st.lists(st.sampled_from(["a", "b", "c", "long line", ""]), max_size=30).map("\n".join)


def applied(old: str, hunks: Sequence[DiffHunk]) -> str:
    """``old`` with the hunks, as ``patch`` applies them; their starts and counts must be right."""
    before = old.splitlines(keepends=True)
    after: list[str] = []
    done = 0
    for hunk in hunks:
        start = hunk.old_start - 1 if hunk.old_count else hunk.old_start
        after += before[done:start]
        assert len(after) == (hunk.new_start - 1 if hunk.new_count else hunk.new_start)
        removed, added = _side(hunk.lines, "-"), _side(hunk.lines, "+")
        assert removed == before[start : start + hunk.old_count]
        assert len(added) == hunk.new_count
        after += added
        done = start + hunk.old_count
    return "".join([*after, *before[done:]])


def _side(lines: Sequence[str], mark: str) -> list[str]:
    side: list[str] = []
    last = ""
    for line in lines:
        if line == NO_END:
            if last in (mark, " "):
                side[-1] = side[-1].removesuffix("\n")
            continue
        last = line[0]
        if last in (mark, " "):
            side.append(f"{line[1:]}\n")
    return side


@given(TEXTS, TEXTS, st.sampled_from([0, 2, 300]))
def test_hunks_turn_the_old_text_into_the_new_one(old: str, new: str, exact: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_diff, "_EXACT", exact)
        hunks, truncated = diff_hunks(old, new)
    assert not truncated
    assert applied(old, hunks) == new


def test_scattered_changes_of_a_large_file_are_found_without_what_is_between() -> None:
    lines = [f"line {number}" if number % 3 else "}" for number in range(100_000)]
    changed = {10, 5_000, 50_000, 99_999}
    new = [f"{line} changed" if number in changed else line for number, line in enumerate(lines)]
    new[70_000:70_000] = ["inserted"]
    old_text, new_text = ("\n".join([*text, ""]) for text in (lines, new))
    hunks, truncated = diff_hunks(old_text, new_text)
    assert not truncated
    assert len(hunks) == 5
    assert applied(old_text, hunks) == new_text
    assert sum(len(hunk.lines) for hunk in hunks) < 60


@pytest.mark.parametrize("kind", ["lines", "one line", "everywhere", "new", "gone", "random", "same line"])
def test_hunks_are_bounded_and_say_so(kind: str) -> None:
    lines = [f"line {number}" for number in range(60_000)]
    chance = random.Random(1)
    old, new = {
        "lines": (lines, [line.upper() for line in lines]),
        "one line": (["x" * 5_000_000], ["y" * 5_000_000]),
        "everywhere": (lines, [line + "!" * (number % 10 == 0) for number, line in enumerate(lines)]),
        "new": ([], lines),
        "gone": (lines, []),
        "random": (chance.choices("abc", k=60_000), chance.choices("abc", k=60_000)),
        "same line": (["}"] * 60_000, ["}"] * 30_000 + ["{"] + ["}"] * 29_000),
    }[kind]
    hunks, truncated = diff_hunks("\n".join(old), "\n".join(new))
    assert truncated or kind == "same line"
    assert 0 < len(hunks) <= MAX_HUNKS
    assert sum(len(line) for hunk in hunks for line in hunk.lines) <= 3 * MAX_CHARS + 2 * MAX_LINES * MAX_LINE


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("a\r\nb\r\n", "a\r\nc\r\n", [" a", "-b", "+c"]),
        ("a\r\nb\r\n", "a\nb\n", ["-a\r", "-b\r", "+a", "+b"]),
        ("a\n", "a", ["-a", "+a", NO_END]),
        ("", "a\n", ["+a"]),
        ("a", "", ["-a", NO_END]),
    ],
)
def test_changes_of_line_ends_are_shown(old: str, new: str, lines: list[str]) -> None:
    (hunk,), truncated = diff_hunks(old, new)
    assert (list(hunk.lines), truncated) == (lines, False)
