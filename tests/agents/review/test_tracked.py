"""The states of a file survive restarts and crashes, and no line that the user typed is lost."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from deputy_agents.domain.file_change import Approval, FileChange, FileForm
from deputy_agents.review.file_state import FileState, every, keep_hunks, undo_hunks
from deputy_agents.review.hunks import EVERY, HunkKey, is_hunk_id
from deputy_agents.review.tracked import ChangeInfo, TrackedFile, dump, load

KEY = HunkKey("session", "/folder/a.txt")


def change(before: str | None, after: str | None, change_id: str = "c1", agent_id: str = "x") -> FileChange:
    return FileChange(change_id, agent_id, 1, "call", KEY.path, before, after, 1.0, turn_id="t", approved=Approval.USER)


def tracked(*changes: FileChange) -> TrackedFile:
    file = TrackedFile(KEY)
    for one in changes:
        file.record(one)
    return file


def reloaded(file: TrackedFile) -> TrackedFile:
    """The file as the next process has it."""
    copy = TrackedFile(KEY)
    load(copy, dump(file, len(file.states)))
    return copy


def test_stored_states_come_back_unchanged() -> None:
    file = tracked(change("1\n\udce9\n", "one\n\udce9\n"), change("one\nmine\n\udce9\n", None, "c2", "y"))
    copy = reloaded(file)
    assert (copy.states, copy.infos) == (file.states, file.infos)
    assert copy.hunks(copy.latest) == file.hunks(file.latest)


def test_changes_of_other_sessions_come_back_unchanged() -> None:
    other = ChangeInfo("z", 1, "t2", "call2", 0.5, Approval.RULE, "elsewhere")
    file = TrackedFile(KEY)
    file.record(change("1\n", "2\n"), [other])
    assert reloaded(file).infos["c1"].others == (other,)


@pytest.mark.requirement("R2")
def test_a_change_that_was_stored_and_not_made_leaves_no_hunk() -> None:
    file = reloaded(tracked(change("1\n\n2\n", "one\n\ntwo\n")))
    assert file.hunks(file.seen("1\n\n2\n")) == []
    assert len(file.hunks(file.seen("one\n\ntwo\n"))) == 2


def test_the_undo_and_redo_of_an_editor_move_between_known_states() -> None:
    file = tracked(change("1\n2\n", "1\ntwo\n"))
    made = file.hunks(file.seen("1\ntwo\n"))
    assert file.hunks(file.seen("1\n2\n")) == []
    assert file.hunks(file.seen("1\ntwo\n")) == made


def test_a_file_that_the_user_deleted_has_no_hunks_and_is_deleted_by_nobody_else() -> None:
    file = tracked(change("1\n", "2\n"))
    assert file.hunks(file.seen(None)) == []
    removed = tracked(change("1\n", None))
    [hunk] = removed.hunks(removed.seen(None))
    assert hunk.base_lines == ("1\n",)


def test_ids_of_another_session_are_no_ids_here() -> None:
    [hunk] = (file := tracked(change("1\n", "2\n"))).hunks(file.latest)
    assert is_hunk_id(hunk.hunk_id, "session")
    assert not is_hunk_id(hunk.hunk_id, "another")
    assert not is_hunk_id("", "session")


def test_a_mode_is_known_only_where_a_command_has_changed_the_file() -> None:
    file = tracked(change("1\n", "2\n"))
    form = FileForm(mode=0o644)
    made = FileChange(
        "c2", "x", 1, "call", KEY.path, "2\n", "2\n", 1.0, before_form=form, after_form=FileForm(mode=0o755)
    )
    file.record(made)
    text, mode = file.hunks(file.latest)
    assert (text.note, mode.note) == (None, "The file mode was changed from 644 to 755.")
    undone = undo_hunks(file.latest, KEY, {mode.hunk_id: EVERY}, file.owners).state
    assert (undone.text, undone.form) == ("2\n", form)


class Crashing(RuleBasedStateMachine):
    """A file, what is stored of it, and the memory of a process that can be killed at any step. ``disk`` is the text of
    the file; lines of the user are unique."""

    def __init__(self) -> None:
        super().__init__()
        self.disk: str | None = "".join(f"start {number}\n" for number in range(5))
        self.file = TrackedFile(KEY)
        self.stored: tuple[str | None, list[FileChange]] = None, []
        self.count = 0
        self.typed: set[str] = set()

    def edited(self, who: str, at: int, old: int, new: int) -> str:
        self.count += 1
        lines = (self.disk or "").splitlines(keepends=True)
        fresh = [f"{who} {self.count} {number}\n" for number in range(new)]
        self.typed -= set(lines[at : at + old])  # replaced by somebody on purpose
        lines[at : at + old] = fresh
        if who == "user":
            self.typed |= set(fresh)
        return "".join(lines)

    def save(self) -> None:
        self.stored = dump(self.file, len(self.file.states)), []

    def restart(self) -> None:
        """What a new process knows."""
        state, changes = self.stored
        self.file = TrackedFile(KEY)
        if state is not None:
            load(self.file, state)
        for one in changes:
            self.file.record(one)

    @rule(
        at=st.integers(0, 9), old=st.integers(0, 2), new=st.integers(0, 3), crash=st.sampled_from([None, "old", "new"])
    )
    def agent_edits(self, at: int, old: int, new: int, crash: str | None) -> None:
        typed = set(self.typed)
        after = self.edited("agent", at, old, new)
        made = change(self.disk, after, f"c{self.count}", "xy"[self.count % 2])
        self.file.record(made)
        self.stored[1].append(made)
        if crash == "old":
            self.typed = typed
        else:
            self.disk = after
        if crash is not None:
            self.restart()

    @rule(at=st.integers(0, 9), old=st.integers(0, 2), new=st.integers(0, 3))
    def user_edits(self, at: int, old: int, new: int) -> None:
        self.disk = self.edited("user", at, old, new)

    @precondition(lambda self: self.file.states)
    @rule(data=st.data())
    def keeps(self, data: st.DataObject) -> None:
        state = self.file.seen(self.disk)
        self.file.set_reviewed(keep_hunks(state, KEY, self.some(state, data), self.file.owners))
        self.save()

    @precondition(lambda self: self.file.states)
    @rule(data=st.data(), crash=st.sampled_from([None, "old", "new"]))
    def undoes(self, data: st.DataObject, crash: str | None) -> None:
        state = self.file.seen(self.disk)
        before = self.file.hunks(state)
        undone = undo_hunks(state, KEY, self.some(state, data), self.file.owners).state
        after = self.file.hunks(undone)
        self.file.set_reviewed(undone, state)
        self.save()
        if crash == "old":
            self.restart()
            assert self.file.hunks(self.file.seen(self.disk)) == before
            return
        self.disk = undone.text
        if crash == "new":
            self.restart()
            assert self.file.hunks(self.file.seen(self.disk)) == after
            return
        self.file.set_reviewed(undone)
        self.save()

    def some(self, state: FileState, data: st.DataObject) -> dict[str, Any]:
        chosen = every(state, KEY)
        return {hunk_id: chosen[hunk_id] for hunk_id in chosen if data.draw(st.booleans())}

    @invariant()
    def nothing_typed_is_lost(self) -> None:
        assert self.typed <= set((self.disk or "").splitlines(keepends=True))

    @invariant()
    def the_store_has_what_the_process_has(self) -> None:
        mine = self.file
        expected = mine.hunks(mine.seen(self.disk)) if mine.states else []
        self.restart()
        assert (self.file.hunks(self.file.seen(self.disk)) if self.file.states else []) == expected
        self.file = mine


Crashing.TestCase.settings = settings(
    max_examples=60, stateful_step_count=10, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestCrashing = Crashing.TestCase
