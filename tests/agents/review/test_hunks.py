"""Laws of hunks: keep and undo concern the lines of agents, and never one that the user typed."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from deputy_agents.review.hunks import EVERY, SAME_LINES, Hunk, HunkKey, hunks_of, keep, undo
from deputy_agents.review.weave import Weave, base_lines, change_by_agent, change_by_user, live_lines, split, weave_of

KEY = HunkKey("session", "file")
LINES = st.lists(st.sampled_from(["a\n", "b\n", "}\n", "\n", "c\r\n"]), max_size=10)
Edits = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3), LINES), max_size=4)


def edited(lines: Sequence[str], edits: Sequence[tuple[int, int, list[str]]]) -> list[str]:
    """``lines`` with some replaced: at, how many, and by which."""
    result = list(lines)
    for at, count, new in edits:
        result[at : at + count] = new
    return result


def by_agent(weave: Weave, text: str, change_id: str = "c1") -> Weave:
    return change_by_agent(weave, split(text), change_id, {})


def by_user(weave: Weave, text: str) -> Weave:
    return change_by_user(weave, split(text), {})


def text_of(weave: Weave) -> str:
    return "".join(live_lines(weave))


def base_of(weave: Weave) -> str:
    return "".join(base_lines(weave))


def hunks(weave: Weave) -> list[Hunk]:
    return hunks_of(weave, KEY)


def only(weave: Weave) -> Hunk:
    [hunk] = hunks(weave)
    return hunk


def undone(weave: Weave, *chosen: Hunk) -> Weave:
    result = undo(weave, KEY, {hunk.hunk_id: EVERY for hunk in chosen}, {})
    assert result.conflicts == {}
    return result.weave


def kept(weave: Weave, *chosen: Hunk) -> Weave:
    return keep(weave, KEY, {hunk.hunk_id: EVERY for hunk in chosen}, {})


START = weave_of(split("1\n2\n3\n4\n5\n"))


def test_a_hunk_has_the_changed_lines_and_those_of_the_base() -> None:
    hunk = only(by_agent(START, "1\ntwo\n3\n4\n5\n"))
    assert (hunk.start, hunk.lines, hunk.base_start, hunk.base_lines) == (1, ("two\n",), 1, ("2\n",))
    assert (hunk.change_ids, hunk.mixed) == (("c1",), False)


def test_adjacent_changes_of_two_agents_are_one_hunk() -> None:
    weave = by_agent(by_agent(START, "1\ntwo\n3\n4\n5\n"), "1\ntwo\nthree\n4\n5\n", "c2")
    assert only(weave).change_ids == ("c1", "c2")


def test_lines_typed_elsewhere_belong_to_text_and_base() -> None:
    weave = by_user(by_agent(START, "1\ntwo\n3\n4\n5\n"), "1\ntwo\n3\n4\nmine\n5\n")
    assert base_of(weave) == "1\n2\n3\n4\nmine\n5\n"
    assert not only(weave).mixed
    assert text_of(undone(weave, only(weave))) == "1\n2\n3\n4\nmine\n5\n"


@pytest.mark.parametrize(
    ("agent", "user"),
    [
        ("1\ntwo\n3\n4\n5\n", "1\nzwei\n3\n4\n5\n"),  # the user rewrote the line
        ("1\nx\ny\n3\n4\n5\n", "1\nx\nmine\ny\n3\n4\n5\n"),  # typed between lines that replaced others
        ("1\n3\n4\n5\n", "1\nmine\n3\n4\n5\n"),  # typed where a line was removed
        ("1\ntwo\n3\n4\n5\n", "1\nzwei und drei\n4\n5\n"),  # also a line beside the hunk
    ],
)
def test_a_hunk_that_the_user_has_edited_is_mixed_and_undoing_it_is_a_conflict(agent: str, user: str) -> None:
    weave = by_user(by_agent(START, agent), user)
    hunk = only(weave)
    assert hunk.mixed
    assert undo(weave, KEY, {hunk.hunk_id: EVERY}, {}).conflicts == {hunk.hunk_id: SAME_LINES}
    assert hunks(kept(weave, hunk)) == []
    assert base_of(kept(weave, hunk)) == user


def test_undoing_added_lines_leaves_what_the_user_typed_between_them() -> None:
    weave = by_user(by_agent(START, "1\nx\ny\nz\n2\n3\n4\n5\n"), "1\nx\nmine\nz\n2\n3\n4\n5\n")
    assert only(weave).mixed
    assert text_of(undone(weave, only(weave))) == "1\nmine\n2\n3\n4\n5\n"


def test_added_lines_that_the_user_deleted_stay_deleted_and_replaced_ones_come_back() -> None:
    weave = by_user(by_agent(START, "1\nx\ny\n4\n5\n"), "1\nx\n4\n5\n")
    assert only(weave).mixed
    assert text_of(undone(weave, only(weave))) == "1\n2\n3\n4\n5\n"


def test_the_undo_and_redo_of_an_editor_are_no_edits_of_the_user() -> None:
    changed = by_agent(START, "1\nx\ny\n4\n5\n")
    back = by_user(changed, "1\n2\n3\n4\n5\n")
    assert hunks(back) == []
    assert base_of(back) == "1\n2\n3\n4\n5\n"


def test_a_line_added_above_changes_the_place_of_a_hunk_and_not_its_id() -> None:
    weave = by_agent(START, "1\n2\n3\nfour\n5\n")
    moved = by_user(weave, "mine\n1\n2\n3\nfour\n5\n")
    assert only(moved).hunk_id == only(weave).hunk_id
    assert only(moved).start == only(weave).start + 1


def test_equal_hunks_have_different_ids_that_survive_the_end_of_the_other() -> None:
    weave = by_agent(weave_of(split("a\n1\na\n1\na\n")), "b\n1\nb\n1\nb\n")
    first, second, third = hunks(weave)
    assert len({first.hunk_id, second.hunk_id, third.hunk_id}) == 3
    assert [hunk.hunk_id for hunk in hunks(kept(weave, first))] == [second.hunk_id, third.hunk_id]
    assert [hunk.hunk_id for hunk in hunks(undone(weave, first))] == [second.hunk_id, third.hunk_id]


def test_undoing_one_agent_leaves_the_lines_of_another_in_the_same_hunk() -> None:
    weave = by_agent(by_agent(START, "1\ntwo\n3\n4\n5\n"), "1\ntwo\nthree\n4\n5\n", "c2")
    result = undo(weave, KEY, {only(weave).hunk_id: lambda change_id: change_id == "c1"}, {})
    assert (text_of(result.weave), result.conflicts) == ("1\n2\nthree\n4\n5\n", {})


def test_undoing_the_agent_that_built_on_another_restores_the_lines_of_the_first() -> None:
    weave = by_agent(by_agent(START, "1\ntwo\n3\n4\n5\n"), "1\nzwei\n3\n4\n5\n", "c2")
    hunk = only(weave)
    assert text_of(undo(weave, KEY, {hunk.hunk_id: lambda one: one == "c2"}, {}).weave) == "1\ntwo\n3\n4\n5\n"
    assert list(undo(weave, KEY, {hunk.hunk_id: lambda one: one == "c1"}, {}).conflicts) == [hunk.hunk_id]


def test_keeping_one_agent_moves_only_its_lines_into_the_base() -> None:
    weave = by_agent(by_agent(START, "1\ntwo\n3\n4\n5\n"), "1\nzwei\n3\n4\n5\n", "c2")
    rest = keep(weave, KEY, {only(weave).hunk_id: lambda one: one == "c1"}, {})
    assert (base_of(rest), text_of(rest)) == ("1\ntwo\n3\n4\n5\n", "1\nzwei\n3\n4\n5\n")


def test_no_two_lines_are_joined_by_an_undo() -> None:
    weave = by_user(by_agent(weave_of(split("a\nx\n")), "a\n"), "a")
    result = undo(weave, KEY, {only(weave).hunk_id: EVERY}, {})
    assert (text_of(result.weave), list(result.conflicts)) == ("a", [only(weave).hunk_id])


@given(LINES, st.lists(Edits, max_size=4))
def test_undoing_all_without_edits_of_the_user_restores_the_first_text(start: list[str], changes: list[Any]) -> None:
    weave, lines = weave_of(start), list(start)
    for number, edits in enumerate(changes):
        lines = edited(lines, edits)
        weave = change_by_agent(weave, lines, f"c{number}", {})
        assert live_lines(weave) == lines
        assert base_lines(weave) == start
    assert live_lines(undone(weave, *hunks(weave))) == start
    assert base_lines(kept(weave, *hunks(weave))) == lines


class Reviewing(RuleBasedStateMachine):
    """Agents and the user change a file in any order while the user keeps and undoes hunks."""

    def __init__(self) -> None:
        super().__init__()
        self.weave = weave_of(f"start {number}\n" for number in range(6))
        self.count = 0
        self.owners: dict[str, object] = {}

    def lines(self, who: str, count: int) -> list[str]:
        self.count += 1
        return [f"{who} {self.count} {number}\n" for number in range(count)]

    def replaced(self, who: str, at: int, old: int, new: int) -> list[str]:
        return edited(live_lines(self.weave), [(at, old, self.lines(who, new))])

    @rule(at=st.integers(0, 12), old=st.integers(0, 3), new=st.integers(0, 3), agent=st.sampled_from("xyz"))
    def agent_edits(self, at: int, old: int, new: int, agent: str) -> None:
        change_id = f"c{self.count}"
        self.owners[change_id] = agent
        after = self.replaced("agent", at, old, new)
        before = base_lines(self.weave)
        self.weave = change_by_agent(self.weave, after, change_id, self.owners)
        assert live_lines(self.weave) == after
        typed_over = set(before) ^ set(base_lines(self.weave))
        assert all(line.startswith("user") for line in typed_over)  # a typed line that an agent removed is in the base

    @rule(at=st.integers(0, 12), old=st.integers(0, 3), new=st.integers(0, 3))
    def user_edits(self, at: int, old: int, new: int) -> None:
        after = self.replaced("user", at, old, new)
        self.weave = change_by_user(self.weave, after, self.owners)
        assert live_lines(self.weave) == after

    @precondition(lambda self: hunks(self.weave))
    @rule(data=st.data(), agent=st.sampled_from([None, "x", "y"]))
    def keep_some(self, data: st.DataObject, agent: str | None) -> None:
        before = live_lines(self.weave)
        chosen = self.chosen(data, agent)
        others = {hunk.hunk_id for hunk in hunks(self.weave)} - chosen.keys()
        self.weave = keep(self.weave, KEY, chosen, self.owners)
        assert live_lines(self.weave) == before
        left = {hunk.hunk_id for hunk in hunks(self.weave)}
        assert others <= left
        if agent is None:
            assert left == others

    @precondition(lambda self: hunks(self.weave))
    @rule(data=st.data(), agent=st.sampled_from([None, "x", "y"]))
    def undo_some(self, data: st.DataObject, agent: str | None) -> None:
        before = live_lines(self.weave)
        chosen = self.chosen(data, agent)
        others = {hunk.hunk_id for hunk in hunks(self.weave)} - chosen.keys()
        result = undo(self.weave, KEY, chosen, self.owners)
        self.weave = result.weave
        after = live_lines(self.weave)
        assert [line for line in before if line.startswith("user")] == [
            line for line in after if line.startswith("user") and line in set(before)
        ]
        left = {hunk.hunk_id for hunk in hunks(self.weave)}
        assert others | result.conflicts.keys() <= left
        if agent is None:
            assert left == others | result.conflicts.keys()

    def chosen(self, data: st.DataObject, agent: str | None) -> dict[str, Any]:
        some = data.draw(st.lists(st.sampled_from(hunks(self.weave)), min_size=1, unique_by=lambda hunk: hunk.hunk_id))
        return {
            hunk.hunk_id: EVERY if agent is None else lambda change_id: self.owners[change_id] == agent for hunk in some
        }

    @invariant()
    def ids_are_unique_and_kept_and_undone_hunks_commute(self) -> None:
        found = hunks(self.weave)
        assert len({hunk.hunk_id for hunk in found}) == len(found)
        for hunk in found:
            assert live_lines(self.weave)[hunk.start : hunk.start + len(hunk.lines)] == list(hunk.lines)
            assert base_lines(self.weave)[hunk.base_start : hunk.base_start + len(hunk.base_lines)] == list(
                hunk.base_lines
            )
        if len(found) > 1:
            one, other = {found[0].hunk_id: EVERY}, {found[-1].hunk_id: EVERY}
            first = keep(undo(self.weave, KEY, one, self.owners).weave, KEY, other, self.owners)
            second = undo(keep(self.weave, KEY, other, self.owners), KEY, one, self.owners).weave
            assert live_lines(first) == live_lines(second)
            assert base_lines(first) == base_lines(second)


Reviewing.TestCase.settings = settings(
    max_examples=60, stateful_step_count=12, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestReviewing = Reviewing.TestCase
