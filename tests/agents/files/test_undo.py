"""Edits are taken back line by line, and only where nobody has changed the same lines since."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.file_change import FileChange
from deputy_agents.files.undo import Conflict, merged, without

LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "d\r\n", "e"]), max_size=8).map("".join)


def change(before: str | None, after: str) -> FileChange:
    return FileChange("c", "agent", 1, "call", "/w/a.txt", before, after)


@pytest.mark.parametrize(
    ("base", "one", "other", "both"),
    [
        ("1\n2\n3\n", "1\n2\n3\n", "1\n2\n3\n", "1\n2\n3\n"),
        ("1\n2\n3\n", "one\n2\n3\n", "1\n2\nthree\n", "one\n2\nthree\n"),
        ("1\n2\n3\n", "one\n2\n3\n", "1\ntwo\n3\n", "one\ntwo\n3\n"),
        ("1\n2\n3\n", "one\n2\n3\n", "one\n2\n3\n", "one\n2\n3\n"),
        ("1\n2\n", "0\n1\n2\n", "1\n2\n3\n", "0\n1\n2\n3\n"),
        ("1\n2\n3\n", "1\n3\n", "1\n2\n3\n4\n", "1\n3\n4\n"),
        ("1\r\n2\r\n", "one\r\n2\r\n", "1\r\ntwo\r\n", "one\r\ntwo\r\n"),
    ],
)
def test_changes_of_different_lines_are_both_kept(base: str, one: str, other: str, both: str) -> None:
    assert merged(base, one, other) == both
    assert merged(base, other, one) == both


@pytest.mark.parametrize(
    ("base", "one", "other"),
    [
        ("1\n2\n3\n", "1\ntwo\n3\n", "1\nzwei\n3\n"),
        ("1\n2\n3\n", "1\n3\n", "1\nzwei\n3\n"),
        ("1\n2\n", "1\nx\n2\n", "1\ny\n2\n"),
        ("1\n2\n3\n4\n", "1\n4\n", "1\n2\nx\n3\n4\n"),
    ],
)
def test_the_same_lines_changed_in_different_ways_are_a_conflict(base: str, one: str, other: str) -> None:
    for first, second in ((one, other), (other, one)):
        with pytest.raises(Conflict, match="same lines"):
            merged(base, first, second)


@given(LINES, LINES, LINES)
def test_a_merge_loses_nothing_and_does_not_depend_on_who_is_asked_first(base: str, one: str, other: str) -> None:
    try:
        both = merged(base, one, other)
    except Conflict:
        with pytest.raises(Conflict):
            merged(base, other, one)
        return
    assert merged(base, other, one) == both
    assert merged(base, one, base) == one
    assert merged(base, base, other) == other


@given(st.lists(LINES, min_size=2, max_size=5))
def test_changes_that_nobody_has_touched_are_reverted_to_the_start(texts: list[str]) -> None:
    changes = [change(before, after) for before, after in pairwise(texts)]
    assert without(changes, texts[-1]) == texts[0]
    assert without(changes, texts[0]) == texts[0]


@given(LINES, LINES)
def test_lines_that_were_added_at_the_end_since_stay(before: str, after: str) -> None:
    grown = after + ("" if after.endswith("\n") or not after else "\n") + "mine\n"
    if after.endswith("e") or not after or not before:
        return
    try:
        left = without([change(before, after)], grown)
    except Conflict:
        return
    assert left is not None
    assert left.endswith("mine\n")


def test_changes_of_others_in_between_stay() -> None:
    first, others, last = "1\n2\n3\n", "one\n2\n3\n", "one\n2\nthree\n"
    mine = [change(first, others), change(last, "one\n2\nthree\n4\n")]
    assert without(mine, "one\n2\nthree\n4\n") == "1\n2\nthree\n"


def test_a_file_that_was_made_is_gone_again_unless_it_has_changed() -> None:
    made = change(None, "new\n")
    assert without([made], "new\n") is None
    assert without([made, change("new\n", "newer\n")], "newer\n") is None
    assert without([made], None) is None
    with pytest.raises(Conflict, match="changed since it was made"):
        without([made], "new\nmine\n")


def test_a_file_that_was_deleted_since_is_not_made_again() -> None:
    with pytest.raises(Conflict, match="deleted"):
        without([change("1\n", "2\n")], None)
