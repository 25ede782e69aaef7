"""Whatever agents and the user do to a file: a rewind gives back what was there, and keeps what the user has typed."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.file_change import FileChange, FileForm
from deputy_agents.session.rewind import undone

FORM = FileForm(mode=0o644)
WORDS = ("a", "b", "c")


@dataclass
class Edit:
    """Replaces some lines by others. The user's lines are unique and marked."""

    by_user: bool
    at: int
    count: int
    lines: list[str]


edits = st.builds(
    Edit,
    by_user=st.booleans(),
    at=st.integers(0, 6),
    count=st.integers(0, 2),
    lines=st.lists(st.sampled_from(WORDS), max_size=2),
)


def applied(text: str, edit: Edit, number: int) -> str:
    lines = text.splitlines(keepends=True)
    at = min(edit.at, len(lines))
    new = (
        [f"user {number} {index}\n" for index in range(len(edit.lines))]
        if edit.by_user
        else [f"{word}\n" for word in edit.lines]
    )
    # The user replaces no line: what is tested is that lines which were typed stay.
    end = at if edit.by_user else _end_before_user(lines, at, edit.count)
    return "".join([*lines[:at], *new, *lines[end:]])


def _end_before_user(lines: list[str], at: int, count: int) -> int:
    """Agents of this test leave the lines of the user alone."""
    end = at
    while end < len(lines) and end < at + count and not lines[end].startswith("user"):
        end += 1
    return end


def changes_of(start: str, steps: list[Edit]) -> tuple[list[FileChange], str]:
    text, changes = start, list[FileChange]()
    for number, edit in enumerate(steps):
        after = applied(text, edit, number)
        if not edit.by_user and after != text:
            changes.append(
                FileChange(f"c{number}", f"agent {number % 2}", 1, "t", "/f", text, after, number, False, f"t{number}")
            )
        text = after
    return changes, text


starts = st.lists(st.sampled_from(WORDS), max_size=6).map(lambda words: "".join(f"{word}\n" for word in words))


@given(starts, st.lists(edits, max_size=6))
def test_lines_that_the_user_typed_are_in_the_file_after_a_rewind(start: str, steps: list[Edit]) -> None:
    changes, text = changes_of(start, steps)
    planned = undone("/f", changes, text, FORM, unsaved=False)
    if planned is None or planned.conflict:
        return
    typed = [line for line in text.splitlines() if line.startswith("user")]
    assert [line for line in (planned.then or "").splitlines() if line.startswith("user")] == typed


@given(starts, st.lists(edits.filter(lambda edit: not edit.by_user), max_size=6))
def test_without_edits_of_the_user_a_rewind_gives_back_every_byte(start: str, steps: list[Edit]) -> None:
    changes, text = changes_of(start, steps)
    planned = undone("/f", changes, text, FORM, unsaved=False)
    assert (text if planned is None else planned.then) == start
    assert planned is None or not planned.conflict


@given(starts, st.lists(edits, max_size=5))
def test_going_back_and_forward_again_changes_nothing(start: str, steps: list[Edit]) -> None:
    changes, text = changes_of(start, steps)
    planned = undone("/f", changes, text, FORM, unsaved=False)
    if planned is None or planned.conflict:
        return
    rewind = FileChange("r", "", 1, "rewind", "/f", planned.now, planned.then, 99.0, before_form=FORM, after_form=FORM)
    again = undone("/f", [rewind], planned.then, FORM, unsaved=False)
    assert again is not None
    assert again.then == text
