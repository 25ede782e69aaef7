"""Changes are reverted line by line, unless the same lines have been changed since."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.file_change import FileChange
from deputy_agents.files.undo import Conflict, merge, revert

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
def test_changes_of_different_lines_are_merged(base: str, one: str, other: str, both: str) -> None:
    assert merge(base, one, other) == both
    assert merge(base, other, one) == both


@pytest.mark.parametrize(
    ("base", "one", "other"),
    [
        ("1\n2\n3\n", "1\ntwo\n3\n", "1\nzwei\n3\n"),
        ("1\n2\n3\n", "1\n3\n", "1\nzwei\n3\n"),
        ("1\n2\n", "1\nx\n2\n", "1\ny\n2\n"),
        ("1\n2\n3\n4\n", "1\n4\n", "1\n2\nx\n3\n4\n"),
    ],
)
def test_different_changes_of_the_same_lines_conflict(base: str, one: str, other: str) -> None:
    for first, second in ((one, other), (other, one)):
        with pytest.raises(Conflict, match="same lines"):
            merge(base, first, second)


@given(LINES, LINES, LINES)
def test_merge_keeps_all_changes_and_is_symmetric(base: str, one: str, other: str) -> None:
    try:
        both = merge(base, one, other)
    except Conflict:
        with pytest.raises(Conflict):
            merge(base, other, one)
        return
    assert merge(base, other, one) == both
    assert merge(base, one, base) == one
    assert merge(base, base, other) == other


@given(st.lists(LINES, min_size=2, max_size=5))
def test_untouched_changes_are_reverted_to_the_first_text(texts: list[str]) -> None:
    changes = [change(before, after) for before, after in pairwise(texts)]
    assert revert(changes, texts[-1]) == texts[0]
    assert revert(changes, texts[0]) == texts[0]


@given(LINES, LINES)
def test_revert_keeps_lines_appended_since(before: str, after: str) -> None:
    grown = after + ("" if after.endswith("\n") or not after else "\n") + "mine\n"
    if after.endswith("e") or not after or not before:
        return
    try:
        left = revert([change(before, after)], grown)
    except Conflict:
        return
    assert left is not None
    assert left.endswith("mine\n")


def test_revert_keeps_changes_of_others_in_between() -> None:
    first, others, last = "1\n2\n3\n", "one\n2\n3\n", "one\n2\nthree\n"
    mine = [change(first, others), change(last, "one\n2\nthree\n4\n")]
    assert revert(mine, "one\n2\nthree\n4\n") == "1\n2\nthree\n"


def test_reverting_a_creation_removes_the_file_unless_it_has_changed() -> None:
    made = change(None, "new\n")
    assert revert([made], "new\n") is None
    assert revert([made, change("new\n", "newer\n")], "newer\n") is None
    assert revert([made], None) is None
    with pytest.raises(Conflict, match="changed since it was created"):
        revert([made], "new\nmine\n")


def test_revert_does_not_restore_a_file_deleted_since() -> None:
    with pytest.raises(Conflict, match="deleted"):
        revert([change("1\n", "2\n")], None)
