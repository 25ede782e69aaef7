"""A file under review: its lines as a weave, and its form (encoding, mode, existence) in the base and now."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from deputy_agents.domain.file_change import FileChange, FileForm
from deputy_agents.review.hunks import EVERY, SAME_LINES, Hunk, HunkKey, Selects, hunk_id, hunks_of, keep, undo
from deputy_agents.review.weave import (
    Owners,
    Typed,
    Weave,
    base_lines,
    change_by_agent,
    change_by_user,
    is_open,
    live_lines,
    split,
    weave_of,
)

PLAIN = FileForm()

CREATED = "It has been changed since it was created."
DELETED = "It has been deleted since."


@dataclass(frozen=True)
class FileState:
    """``form`` and ``base_form`` are ``None`` where there is no file. ``form_changes`` are the unreviewed changes of
    either."""

    weave: Weave
    form: FileForm | None
    base_form: FileForm | None
    form_changes: tuple[str, ...] = ()

    @cached_property
    def text(self) -> str | None:
        """The text; ``None`` if there is no file."""
        return None if self.form is None else "".join(live_lines(self.weave))

    @cached_property
    def base(self) -> str | None:
        """The text of the base; ``None`` if there was no file."""
        return None if self.base_form is None else "".join(base_lines(self.weave))

    @property
    def binary(self) -> bool:
        """Whether the file has or had no lines."""
        return any(form is not None and form.binary for form in (self.form, self.base_form))


@dataclass(frozen=True, slots=True)
class Undoing:
    """The state after undoing hunks, and why some were left, by their ids."""

    state: FileState
    conflicts: Mapping[str, str]


def unreviewed(text: str | None, form: FileForm | None = None) -> FileState:
    """A file without unreviewed hunks."""
    form = None if text is None else form or PLAIN
    return FileState(weave_of(_lines(text, form)), form, form)


def changed_by_agent(state: FileState, change: FileChange, owners: Owners) -> FileState:
    """``state``, whose text is that before ``change``, after it."""
    form = None if change.after is None else change.after_form or state.form or PLAIN
    base_form = state.base_form
    if change.before_form is not None and state.form is not None and state.form == base_form:
        base_form = change.before_form  # it was not known in detail
    weave = change_by_agent(state.weave, _lines(change.after, form), change.change_id, owners)
    known = change.before_form if change.before_form is not None else state.form
    changes = state.form_changes if _same(known, form) else (*state.form_changes, change.change_id)
    return _settled(FileState(weave, form, base_form, changes))


def changed_by_user(state: FileState, text: str, owners: Owners) -> FileState:
    """``state`` after somebody else has changed the text."""
    form = state.form or state.base_form or PLAIN
    weave = change_by_user(state.weave, _lines(text, form), owners)
    # A file that the user creates again, or creates in place of one that an agent deleted, is the user's.
    created = state.form is None
    base_form = state.base_form or (form if created else None)
    return _settled(FileState(weave, form, base_form, () if created else state.form_changes))


def file_hunks(state: FileState, key: HunkKey) -> list[Hunk]:
    """The hunks of the file. Changes that its lines do not show are the last one, with a note."""
    if state.binary:
        return [hunk] if (hunk := _whole(state, key)) else []
    found = hunks_of(state.weave, key)
    form = _form_hunk(state, key, alone=not found)
    return [*found, form] if form else found


def keep_hunks(state: FileState, key: HunkKey, chosen: Mapping[str, Selects], owners: Owners) -> FileState:
    """``state`` with the chosen hunks in the base."""
    whole = _noted(state, key)
    is_chosen = whole is not None and whole.hunk_id in chosen
    if state.binary and is_chosen:
        return unreviewed(state.text, state.form)
    weave = keep(state.weave, key, chosen, owners)
    kept = replace(state, weave=weave)
    if is_chosen:
        return replace(kept, base_form=state.form, form_changes=())
    if state.form is None or state.base_form is None:
        # Lines of a new file that are kept need the file, and a file of which all lines are gone is gone.
        done = not hunks_of(weave, key) if state.form is None else weave != state.weave
        return replace(kept, base_form=state.form, form_changes=()) if done else kept
    return kept


def undo_hunks(state: FileState, key: HunkKey, chosen: Mapping[str, Selects], owners: Owners) -> Undoing:
    """``state`` with the base in place of the chosen hunks."""
    whole = _noted(state, key)
    if state.binary:
        if whole is None or whole.hunk_id not in chosen:
            return Undoing(state, {})
        return Undoing(state, {whole.hunk_id: SAME_LINES}) if whole.mixed else Undoing(_as_base(state), {})
    result = undo(state.weave, key, chosen, owners)
    undone = replace(state, weave=result.weave)
    if (whole is not None and whole.hunk_id in chosen) or (state.form is None and live_lines(undone.weave)):
        undone = replace(undone, form=state.base_form, form_changes=())
    if state.base_form is None and not hunks_of(undone.weave, key) and not result.conflicts:
        if live_lines(undone.weave):
            return Undoing(state, dict.fromkeys(chosen, CREATED))
        undone = unreviewed(None)
    return Undoing(undone, result.conflicts)


def every(state: FileState, key: HunkKey) -> Mapping[str, Selects]:
    """The choice of all hunks."""
    return {hunk.hunk_id: EVERY for hunk in file_hunks(state, key)}


# -- forms -----------------------------------------------------------------------------------------------------------


def _lines(text: str | None, form: FileForm | None) -> tuple[str, ...]:
    if not text:
        return ()
    return (text,) if form is not None and form.binary else split(text)


def _same(one: FileForm | None, other: FileForm | None) -> bool:
    """Whether both are equal as far as they are known."""
    if one is None or other is None:
        return one is other
    if one.mode is None or other.mode is None:
        one, other = replace(one, mode=None), replace(other, mode=None)
    return one == other


def _settled(state: FileState) -> FileState:
    """Without changes of the form that were undone, or of which only lines of the user are left."""
    if state.base_form is None and state.form is not None and state.text and not any(map(is_open, state.weave)):
        return replace(state, base_form=state.form, form_changes=())
    return replace(state, form_changes=()) if _same(state.form, state.base_form) else state


def _form_hunk(state: FileState, key: HunkKey, *, alone: bool) -> Hunk | None:
    if _same(state.form, state.base_form) or ((state.form is None or state.base_form is None) and not alone):
        return None
    note = _note(state.base_form, state.form)
    return _hunk_without_lines(key, note, repr((state.base_form, state.form)), state.form_changes)


def _whole(state: FileState, key: HunkKey) -> Hunk | None:
    """The change of a file that has or had no lines."""
    if state.text == state.base and _same(state.form, state.base_form):
        return None
    verb = "created" if state.base_form is None else "deleted" if state.form is None else "changed"
    edits = (edit for run in state.weave for edit in (run.removed, run.added) if edit is not None and edit.change_id)
    change_ids = tuple(dict.fromkeys((*(edit.change_id for edit in edits), *state.form_changes)))
    mixed = any(run.typed is not Typed.APART for run in state.weave)
    content = repr((state.base_form, state.form)) + str(state.base) + "\0" + str(state.text)
    return _hunk_without_lines(key, f"A binary file was {verb}.", content, change_ids, mixed)


def _noted(state: FileState, key: HunkKey) -> Hunk | None:
    """The hunk with a note, if there is one."""
    return next((hunk for hunk in file_hunks(state, key) if hunk.note is not None), None)


def _as_base(state: FileState) -> FileState:
    return unreviewed(state.base, state.base_form)


def _hunk_without_lines(
    key: HunkKey, note: str, content: str, change_ids: tuple[str, ...], mixed: bool = False
) -> Hunk:
    return Hunk(hunk_id(key, ("form", content)), 0, (), 0, (), change_ids, mixed, note)


def _note(base: FileForm | None, now: FileForm | None) -> str:
    if base is None:
        return "An empty file was created."
    if now is None:
        return "An empty file was deleted."
    notes: list[str] = []
    if base.mode != now.mode and base.mode is not None and now.mode is not None:
        notes.append(f"The file mode was changed from {base.mode:o} to {now.mode:o}.")
    if (base.codec, base.bom) != (now.codec, now.bom):
        notes.append(f"The encoding was changed from {_codec(base)} to {_codec(now)}.")
    return " ".join(notes)


def _codec(form: FileForm) -> str:
    return form.codec.upper() + (" with a byte order mark" if form.bom else "")
