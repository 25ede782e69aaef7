"""One file that agents of a session have changed: its states, and who made the changes in them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from deputy_agents.domain.file_change import Approval, FileChange, FileForm
from deputy_agents.review.file_state import (
    FileState,
    changed_by_agent,
    changed_by_user,
    file_hunks,
    unreviewed,
)
from deputy_agents.review.hunks import Hunk, HunkKey
from deputy_agents.review.weave import Edit, Run, Typed

MAX_STATES = 4
"""States of a file that are recognized when the user goes back to them with the editor's undo command."""

SECRET = "It contained a secret, so its earlier text was not stored."


@dataclass(frozen=True, slots=True)
class ChangeInfo:
    """A change without its texts. ``others`` are changes of agents of other sessions to the same lines."""

    agent_id: str
    run: int
    turn_id: str
    tool_call_id: str
    time: float
    approved: Approval
    label: str = ""
    """The label of an agent of another session; empty for one of this session."""
    others: tuple["ChangeInfo", ...] = ()

    def labelled(self, label: str) -> "ChangeInfo":
        return replace(self, label=label, others=())


@dataclass(frozen=True, slots=True)
class Counts:
    """Hunks, and added and removed lines."""

    hunks: int = 0
    added: int = 0
    removed: int = 0


class TrackedFile:
    """The states of a file, oldest first: the last one is that after the last change or review. ``key`` has
    its path."""

    def __init__(self, key: HunkKey) -> None:
        self.key = key
        self.states: tuple[FileState, ...] = ()
        self.infos: dict[str, ChangeInfo] = {}
        self.withheld = False
        """Whether a change is not known, because its texts contain a secret and were made by an earlier process."""
        self.last_change = ""
        """The id of the last change in the states; empty if an earlier process made it."""
        self._previous_change = ""
        self.unsaved = 0
        """Characters of changes since the states were stored."""
        self.shown: FileState | None = None
        """The state that was last read or made: that of what the user sees, as far as it is known."""
        self.signature: object = None
        """That of the file on disk when its text was read last, if that says whether it has changed since."""
        self._hunks: tuple[FileState, list[Hunk]] | None = None
        self._counts: tuple[FileState, Counts] | None = None

    @property
    def latest(self) -> FileState:
        return self.states[-1]

    @property
    def owners(self) -> Mapping[str, object]:
        return {change_id: (info.agent_id, info.turn_id) for change_id, info in self.infos.items()}

    @property
    def size(self) -> int:
        """Characters of all lines, about."""
        return sum(len(line) for run in self.latest.weave for line in run.lines) if self.states else 0

    def record(self, change: FileChange, others: Sequence[ChangeInfo] = ()) -> None:
        """Adds a change that an agent has made or is about to make."""
        self._previous_change, self.last_change = self.last_change, change.change_id
        if change.withheld:
            self.withheld = True
            return
        before = self.seen(change.before, change.before_form)
        self.infos[change.change_id] = ChangeInfo(
            change.agent_id,
            change.run,
            change.turn_id,
            change.tool_call_id,
            change.time,
            change.approved,
            others=tuple(others),
        )
        self.unsaved += len(change.before or "") + len(change.after or "")
        self._push(before, changed_by_agent(before, change, self.owners))

    def drop(self, change_id: str) -> None:
        """Removes the last change, which was not made after all."""
        if self.last_change == change_id and len(self.states) > 1:
            self.states = self.states[:-1]
            self.last_change = self._previous_change
            self.shown, self.signature = self.latest, None

    def made(self) -> None:
        """Call it when the last change has been made. A list that was requested meanwhile may have read the text from
        before it."""
        if self.states:
            self.shown, self.signature = self.latest, None

    def seen(self, text: str | None, form: FileForm | None = None) -> FileState:
        """The state of the file with ``text``, which is that of the last state unless somebody else has changed it."""
        if not self.states:
            return unreviewed(text, form)
        for state in reversed(self.states):
            if state.text == text:
                return state
        if text is None:
            return unreviewed(None)
        return changed_by_user(self.latest, text, self.owners)

    def is_same(self, signature: object) -> bool:
        """Whether the file on disk, which has ``signature`` now, is as it was read last, and what is shown is that."""
        return not self.withheld and self.shown is not None and signature is not None and signature == self.signature

    def set_reviewed(self, state: FileState, before: FileState | None = None) -> None:
        """Sets the state after a review. ``before`` is the one to go back to if the file still has its text."""
        self.states = (state,) if before is None else (before, state)
        used = set(_change_ids(*self.states))
        self.infos = {change_id: info for change_id, info in self.infos.items() if change_id in used}
        self.shown, self.signature = state, None

    def hunks(self, state: FileState) -> list[Hunk]:
        if self._hunks is None or self._hunks[0] is not state:
            self._hunks = state, file_hunks(state, self.key)
        return self._hunks[1]

    @property
    def counts(self) -> Counts:
        """The counts of what the user sees, as far as it is known."""
        if self.shown is None:
            return Counts()
        if self._counts is None or self._counts[0] is not self.shown:
            self._counts = self.shown, counts_of(self.hunks(self.shown))
        return self._counts[1]

    def authors(self, text: str) -> list[str]:
        """The change that each line of ``text`` comes from; empty for those of the user."""
        weave = self.seen(text).weave
        return [author for run in weave if run.is_live for author in [run.origin] * len(run.lines)]

    def _push(self, *states: FileState) -> None:
        known = [state for state in self.states if state not in states]
        self.states = (*known, *states)[-MAX_STATES:]
        self.shown, self.signature = self.latest, None


def counts_of(hunks: Sequence[Hunk]) -> Counts:
    added = sum(len(hunk.lines) for hunk in hunks)
    return Counts(len(hunks), added, sum(len(hunk.base_lines) for hunk in hunks))


def texts_of(states: Sequence[FileState]) -> list[str]:
    """All text that the states contain."""
    return ["".join(line for run in state.weave for line in run.lines) for state in states] + [
        text for state in states for text in (state.text, state.base) if text
    ]


# -- the stored form -------------------------------------------------------------------------------------------------


def dump(file: TrackedFile, count: int = 2) -> str:
    """The last ``count`` states of ``file`` as JSON."""
    states = file.states[-count:]
    used = set(_change_ids(*states))
    plain = {
        "states": [
            {
                "runs": [_run_to_json(run) for run in state.weave],
                "form": _form_to_json(state.form),
                "base": _form_to_json(state.base_form),
                "form_changes": state.form_changes,
            }
            for state in states
        ],
        "infos": {change_id: asdict(info) for change_id, info in file.infos.items() if change_id in used},
    }
    return json.dumps(plain, separators=(",", ":"))


def load(file: TrackedFile, stored: str) -> None:
    """The inverse of :func:`dump`.

    Raises:
        ValueError, LookupError, TypeError: ``stored`` is damaged.
    """
    plain = json.loads(stored)
    file.states = tuple(
        FileState(
            tuple(map(_run_from_json, state["runs"])),
            _form_from_json(state["form"]),
            _form_from_json(state["base"]),
            tuple(state["form_changes"]),
        )
        for state in plain["states"]
    )
    file.infos = {change_id: _info_from_json(info) for change_id, info in plain["infos"].items()}


def _change_ids(*states: FileState) -> list[str]:
    found = [change_id for state in states for change_id in state.form_changes]
    for state in states:
        for run in state.weave:
            found += (run.author, *(edit.change_id for edit in (run.added, run.removed) if edit is not None))
    return [change_id for change_id in found if change_id]


def _run_to_json(run: Run) -> list[object]:
    return [run.lines, run.added, run.removed, run.typed, run.first, run.author]


def _run_from_json(plain: Sequence[Any]) -> Run:
    lines, added, removed, typed, first, author = plain
    return Run(
        tuple(cast("list[str]", lines)),
        None if added is None else Edit(*added),
        None if removed is None else Edit(*removed),
        Typed(typed),
        first,
        author,
    )


def _form_to_json(form: FileForm | None) -> object:
    return None if form is None else [form.codec, form.bom.hex(), form.binary, form.mode]


def _form_from_json(plain: Sequence[Any] | None) -> FileForm | None:
    if plain is None:
        return None
    codec, bom, binary, mode = plain
    return FileForm(codec, bytes.fromhex(bom), binary, mode)


def _info_from_json(plain: Mapping[str, Any]) -> ChangeInfo:
    fields: dict[str, Any] = dict(plain)
    others = tuple(map(_info_from_json, cast("list[Mapping[str, Any]]", fields.pop("others"))))
    approved = Approval(fields.pop("approved"))
    return ChangeInfo(approved=approved, others=others, **fields)
