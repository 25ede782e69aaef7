"""The review of what a session's agents changed: lists the unreviewed hunks, keeps and undoes them."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from anyio import to_thread

from deputy_agents.concurrency.off_loop import off_loop
from deputy_agents.domain.errors import InvalidRequest, ToolError
from deputy_agents.domain.file_change import FileChange, FileForm
from deputy_agents.domain.review import ChangesReviewed
from deputy_agents.events.event_log import EventLog
from deputy_agents.files.disk import MAX_BYTES, FileText, restore
from deputy_agents.files.encoding import file_data
from deputy_agents.files.signature import Signature, signatures
from deputy_agents.files.workspace import Workspace
from deputy_agents.review.file_state import DELETED, FileState, keep_hunks, undo_hunks, unreviewed
from deputy_agents.review.hunks import EVERY, Hunk, Selects, is_hunk_id
from deputy_agents.review.reviewed_file import Blame, ReviewedFile, hunk_blame, kept_blame
from deputy_agents.review.tracked import SECRET, ChangeInfo, TrackedFile
from deputy_agents.review.weave import live_lines
from deputy_agents.session.change_tracker import ChangeTracker
from deputy_agents.text import is_well_formed, visible

GONE = "It was kept, undone or changed meanwhile."
NOTICE = "The user has undone changes of agents in"
MAX_ISSUED = 100_000
"""Ids of hunks whose files are remembered."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which hunks to keep or undo: exactly one of the fields."""

    hunk_ids: tuple[str, ...] | None = None
    path: str | None = None
    agent_ids: frozenset[str] | None = None
    turn_id: str | None = None
    all: bool = False


@dataclass(frozen=True, slots=True)
class Conflict:
    """A hunk that was left unchanged, or all of a file if it has no id."""

    path: str
    reason: str
    hunk_id: str | None = None


@dataclass(slots=True)
class Reviewed:
    """What was kept or undone: the ids of hunks, the paths of files, and what was left."""

    done: list[str] = field(default_factory=list[str])
    paths: list[str] = field(default_factory=list[str])
    conflicts: list[Conflict] = field(default_factory=list[Conflict])


@dataclass(frozen=True, slots=True)
class Reverted:
    """Paths of the files in which edits of an agent were undone, and of those with edits that were left, with the
    reason."""

    files: tuple[str, ...]
    conflicts: tuple[tuple[str, str], ...]


_Act: TypeAlias = Callable[[ReviewedFile, Mapping[str, Selects], Reviewed], Awaitable[None]]


class Review:
    """Reviews the changes in ``changes`` of files in ``workspace``. Each file is kept or undone as a whole or not at
    all; ``notify`` is called with what the agents should know."""

    def __init__(
        self, workspace: Workspace, log: EventLog, changes: ChangeTracker, notify: Callable[[str], None]
    ) -> None:
        self.changes = changes
        self._workspace = workspace
        self._log = log
        self._notify = notify
        self._issued: dict[str, str] = {}
        """The paths of hunks that were listed, by their ids."""

    # -- reading -----------------------------------------------------------------------------------------------------

    async def unreviewed_files(
        self, path: str | None = None, agent_ids: Collection[str] | None = None, turn_id: str | None = None
    ) -> tuple[list[ReviewedFile], list[str]]:
        """The files with unreviewed hunks, ordered by path, and notes about what is missing.

        Raises:
            StoreError: the changes of earlier processes cannot be read.
        """
        await self.changes.load()
        paths = sorted(self.changes.files) if path is None else [path] if path in self.changes.files else []
        texts, signed = await self._texts(paths)
        notes = [*self.changes.notes, *self.changes.further_notes()]
        found: list[ReviewedFile] = []
        for one in paths:
            file = self.changes.files.get(one)
            if file is None:
                continue
            try:
                reviewed = await self._reviewed(file, texts[one]) if one in texts else _unchanged(file)
                file.signature = signed.get(one)
            except ToolError as error:
                notes.append(f"{visible(one)}: {error}")
                continue
            hunks = [hunk for hunk in reviewed.hunks if _concerns(reviewed, hunk, agent_ids, turn_id)]
            if hunks:
                found.append(ReviewedFile(file, reviewed.state, hunks))
                self._issued |= dict.fromkeys((hunk.hunk_id for hunk in hunks), one)
        while len(self._issued) > MAX_ISSUED:
            del self._issued[next(iter(self._issued))]
        self.changes.publish_status()
        return sorted(found, key=lambda one: one.path), notes

    async def base(self, path: str) -> str | None:
        """The text of a file without its unreviewed hunks; ``None`` if it did not exist.

        Raises:
            ToolError: it has no text.
        """
        files, _ = await self.unreviewed_files(path)
        if files:
            if files[0].state.binary:
                raise ToolError(f"{visible(path)} is a binary file.")
            return files[0].state.base
        text = (await self._workspace.read_many([path]))[path]
        if isinstance(text, ToolError):
            raise text
        return None if text is None else text.text

    async def blame(self, path: str, line: int) -> list[Blame]:
        """The changes that line ``line``, counted from 0, contains, latest first."""
        await self.changes.load()
        file = self.changes.files.get(path)
        if file is None or not file.states:
            return []
        try:
            reviewed = await self._reviewed(file, (await self._workspace.read_many([path]))[path])
        except ToolError:
            return []
        found = [*hunk_blame(reviewed, line), *kept_blame(reviewed, line)]
        return sorted(found, key=lambda one: one.info.time, reverse=True)

    async def _texts(
        self, paths: Sequence[str]
    ) -> tuple[Mapping[str, FileText | ToolError | None], Mapping[str, Signature | None]]:
        """The texts of these files, except of those that are known to be as they were read last, and the signatures of
        all from before that."""
        files = [file for path in paths if (file := self.changes.files.get(path)) is not None]
        buffers = self._workspace.buffers
        opened = {str(buffer.path) for buffer in buffers.all()} if buffers else set[str]()
        now = await to_thread.run_sync(signatures, [file.key.path for file in files if file.key.path not in opened])
        same = {file.key.path for file in files if file.is_same(now.get(file.key.path))}
        return await self._workspace.read_many([path for path in paths if path not in same]), now

    async def _reviewed(self, file: TrackedFile, text: FileText | ToolError | None) -> ReviewedFile:
        """The file as the user sees it now.

        Raises:
            ToolError: it cannot be read.
        """
        if file.withheld:
            raise ToolError(SECRET)
        state = await self._state(file, text)
        file.shown = state
        return ReviewedFile(file, state, file.hunks(state))

    async def _state(self, file: TrackedFile, text: FileText | ToolError | None) -> FileState:
        latest = file.latest
        if isinstance(text, ToolError):
            if latest.form is None or not latest.form.binary:
                raise text
            place = await self._workspace.locate_again(file.key.path)
            data = await self._workspace.read_bytes(place, MAX_BYTES)
            return file.seen(data.decode("latin-1"), latest.form)
        if text is not None and latest.form is not None and latest.form.binary:
            raise ToolError("It was a binary file and is a text now.")
        content = None if text is None else text.text
        return await off_loop(len(content or ""), lambda: file.seen(content))

    # -- keeping and undoing -----------------------------------------------------------------------------------------

    async def keep(self, selection: Selection) -> Reviewed:
        """Moves hunks into the base.

        Raises:
            InvalidRequest: a hunk id is unknown.
            StoreError: the changes of earlier processes cannot be read.
        """
        return await self._review(selection, self._keep, keeps=True)

    async def undo(self, selection: Selection, label: str = "Changes undone", notice: str = NOTICE) -> Reviewed:
        """Puts the base's lines back. ``label`` names the edits of open documents; the agents get ``notice`` with the
        names of the files.

        Raises:
            InvalidRequest: a hunk id is unknown.
            StoreError: the changes of earlier processes cannot be read.
        """
        result = await self._review(selection, partial(self._undo, label=label))
        if result.paths:
            self._notify(f"{notice}: {', '.join(map(visible, result.paths))}")
        return result

    async def revert(self, agent_ids: Collection[str], label: str) -> Reverted:
        """Undoes all hunks of these agents, of which the first has ``label``."""
        notice = f"The user has reverted the edits that [{label}] made to"
        result = await self.undo(Selection(agent_ids=frozenset(agent_ids)), f"{label}: edits reverted", notice)
        conflicts = {conflict.path: conflict.reason for conflict in reversed(result.conflicts)}
        return Reverted(tuple(result.paths), tuple(sorted(conflicts.items())))

    async def rewound(self, restored: Sequence[tuple[FileChange, FileChange | None]]) -> None:
        """Call it when files were restored to other versions, each with the change of an agent that had made it so, if
        one had. Hunks of what is gone are gone, and lines that came back are those of who wrote them. Nothing that is
        left counts as typed by the user."""
        await self.changes.load()
        for change, author in restored:
            async with self.changes.holding(change.path):
                file = self.changes.files.get(change.path)
                if file is None or not file.states:
                    continue
                if author is not None and all(state.text != change.after for state in file.states):
                    forms = {"before_form": change.before_form, "after_form": change.after_form}
                    file.record(replace(author, change_id=change.change_id, before=change.before, **forms))
                else:
                    file.set_reviewed(_with_form(file.seen(change.after, change.after_form), change.after_form))
                self.changes.save(file)
        await self._log.flush()
        self.changes.publish_status()

    async def _review(self, selection: Selection, act: _Act, *, keeps: bool = False) -> Reviewed:
        wanted = dict.fromkeys(selection.hunk_ids or ())
        for index, hunk_id in enumerate(wanted):
            if not is_hunk_id(hunk_id, self._log.session_id):
                raise InvalidRequest(f"hunkIds[{index}]: there is no hunk with this id.", "hunkIds")
        await self.changes.load()
        result = Reviewed()
        for path in await self._paths(selection):
            try:
                async with self.changes.holding(path):
                    await self._review_file(path, selection, act, result, keeps)
            except ToolError as error:
                result.conflicts.append(Conflict(path, str(error)))
        settled = {*result.done, *(conflict.hunk_id for conflict in result.conflicts)}
        for hunk_id in wanted:
            if hunk_id not in settled:
                result.conflicts.append(Conflict(self._issued.get(hunk_id, self._home()), GONE, hunk_id))
        await self._log.flush()
        self.changes.publish_status()
        return result

    async def _paths(self, selection: Selection) -> Sequence[str]:
        """The files that may have selected hunks."""
        if selection.path is not None:
            return [selection.path] if selection.path in self.changes.files else []
        if selection.hunk_ids is None:
            return sorted(self.changes.files)
        if not self._issued.keys() >= set(selection.hunk_ids):
            await self.unreviewed_files()  # after a restart, clients still have ids
        return sorted({self._issued[hunk_id] for hunk_id in selection.hunk_ids if hunk_id in self._issued})

    async def _review_file(self, path: str, selection: Selection, act: _Act, result: Reviewed, keeps: bool) -> None:
        file = self.changes.files.get(path)
        if file is None:
            return
        if file.withheld:
            if keeps:
                await self._accept(file)
                return
            raise ToolError(SECRET)
        text = (await self._workspace.read_many([path]))[path]
        reviewed = await self._reviewed(file, text)
        chosen = {hunk.hunk_id: selects for hunk in reviewed.hunks if (selects := _selects(reviewed, hunk, selection))}
        if chosen:
            await act(reviewed, chosen, result)
        elif text is None and _has_selected(file, selection):
            raise ToolError(DELETED)

    async def _accept(self, file: TrackedFile) -> None:
        """Keeps a file of which not all changes are known."""
        text = (await self._workspace.read_many([file.key.path]))[file.key.path]
        if isinstance(text, ToolError):
            raise text
        file.withheld = False
        file.set_reviewed(unreviewed(None if text is None else text.text))
        self.changes.save(file)

    async def _keep(self, reviewed: ReviewedFile, chosen: Mapping[str, Selects], result: Reviewed) -> None:
        file = reviewed.file
        size = len(reviewed.state.text or "")
        state = await off_loop(size, lambda: keep_hunks(reviewed.state, file.key, chosen, file.owners))
        file.set_reviewed(state)
        self.changes.save(file)
        self._done(reviewed, list(chosen), "kept", result)

    async def _undo(self, reviewed: ReviewedFile, chosen: Mapping[str, Selects], result: Reviewed, label: str) -> None:
        file = reviewed.file
        size = len(reviewed.state.text or "")
        undoing = await off_loop(size, lambda: undo_hunks(reviewed.state, file.key, chosen, file.owners))
        result.conflicts += (Conflict(reviewed.path, reason, hunk_id) for hunk_id, reason in undoing.conflicts.items())
        done = [hunk_id for hunk_id in chosen if hunk_id not in undoing.conflicts]
        if not done:
            return
        states = file.states
        # Both states are stored before the file is written: whichever text it has after a crash, its state is known.
        file.set_reviewed(undoing.state, reviewed.state)
        self.changes.save(file)
        await self._log.flush()
        try:
            await self._write(reviewed, undoing.state, label)
        except ToolError as error:
            file.states = states
            file.shown = reviewed.state
            self.changes.save(file)
            result.conflicts += (Conflict(reviewed.path, str(error), hunk_id) for hunk_id in done)
            return
        file.set_reviewed(undoing.state)
        self.changes.save(file)
        self._done(reviewed, done, "undone", result)

    async def _write(self, reviewed: ReviewedFile, new: FileState, label: str) -> None:
        place = await self._workspace.locate_again(reviewed.path)
        old = reviewed.state
        is_text = not old.binary and is_well_formed(new.text or "")
        if is_text and old.text is not None and new.form == old.form:
            await self._workspace.write(place, "".join(live_lines(new.weave)), expected=old.text, label=label)
        elif is_text and old.text is not None and new.text is None:
            await self._workspace.delete(place, expected=old.text, label=label)
        else:
            if await self._workspace.is_open(place):
                raise ToolError("It is open in the editor, which can only change its text. Close it, then try again.")
            self._workspace.check_writable(place)
            mode = None if new.form is None else new.form.mode
            await to_thread.run_sync(
                lambda: restore(place.root, place.parts, _data(new), expected=_data(old), mode=mode)
            )

    def _done(self, reviewed: ReviewedFile, hunk_ids: Sequence[str], verb: str, result: Reviewed) -> None:
        result.done += hunk_ids
        result.paths.append(reviewed.path)
        self._log.emit(ChangesReviewed(reviewed.path, tuple(hunk_ids), "kept" if verb == "kept" else "undone"))

    def _home(self) -> str:
        return str(self._workspace.roots[0]) if self._workspace.roots else ""


def _unchanged(file: TrackedFile) -> ReviewedFile:
    state = file.shown or file.latest
    return ReviewedFile(file, state, file.hunks(state))


def _with_form(state: FileState, form: FileForm | None) -> FileState:
    """``state`` of a file that has ``form`` now."""
    if form is None or state.form is None or form == state.form:
        return state
    return replace(state, form=form, form_changes=() if form == state.base_form else state.form_changes)


def _data(state: FileState) -> bytes | None:
    return None if state.text is None or state.form is None else file_data(state.text, state.form)


def _concerns(reviewed: ReviewedFile, hunk: Hunk, agent_ids: Collection[str] | None, turn_id: str | None) -> bool:
    infos = [reviewed.file.infos[change_id] for change_id in hunk.change_ids if change_id in reviewed.file.infos]
    by_agent = agent_ids is None or any(info.agent_id in agent_ids for info in infos)
    return by_agent and (turn_id is None or any(info.turn_id == turn_id for info in infos))


def _selects(reviewed: ReviewedFile, hunk: Hunk, selection: Selection) -> Selects | None:
    """The part of a hunk that is selected; ``None`` if nothing of it is."""
    if selection.hunk_ids is not None:
        return EVERY if hunk.hunk_id in selection.hunk_ids else None
    if selection.agent_ids is None and selection.turn_id is None:
        return EVERY
    infos = reviewed.file.infos

    def selects(change_id: str) -> bool:
        return _is_selected(infos[change_id], selection) if change_id in infos else False

    return selects if any(map(selects, hunk.change_ids)) else None


def _is_selected(info: ChangeInfo, selection: Selection) -> bool:
    by_agent = selection.agent_ids is None or info.agent_id in selection.agent_ids
    return by_agent and (selection.turn_id is None or info.turn_id == selection.turn_id)


def _has_selected(file: TrackedFile, selection: Selection) -> bool:
    """Whether the last known state has selected hunks."""
    reviewed = ReviewedFile(file, file.latest, file.hunks(file.latest))
    return any(_selects(reviewed, hunk, selection) for hunk in reviewed.hunks)
