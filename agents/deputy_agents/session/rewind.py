"""Going back to a checkpoint: with the files, with the conversation, or with both. Forking a session.

The files go back by undoing what agents have changed since, so what the user has typed stays. Every change is stored
before it is made, and each file is replaced in one step: a crash leaves each file old or new, and the state that was
left is a checkpoint by then.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import anyio
from anyio import to_thread

from deputy_agents.concurrency.off_loop import off_loop
from deputy_agents.domain.errors import StoreError, ToolError, WrongState
from deputy_agents.domain.file_change import FileChange, FileForm
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.message import Block
from deputy_agents.domain.review import SessionRewound
from deputy_agents.files.disk import restore
from deputy_agents.files.encoding import file_data, file_version, fingerprint
from deputy_agents.files.exact import read_state
from deputy_agents.files.place import Place
from deputy_agents.ports.store import ChangesDropped, CheckpointRecord, RewindRecord, Store
from deputy_agents.review.file_state import every, undo_hunks
from deputy_agents.review.hunks import HunkKey
from deputy_agents.review.tracked import SECRET, TrackedFile
from deputy_agents.run.effect import Notice
from deputy_agents.run.host import Host
from deputy_agents.session.checkpoints import REWIND, Checkpoints
from deputy_agents.session.fork import fork
from deputy_agents.session.histories import Histories
from deputy_agents.session.record_keeper import RecordKeeper
from deputy_agents.session.review import Review
from deputy_agents.session.supervisor import Supervisor
from deputy_agents.text import visible

UNSAVED = "It has unsaved changes of yours in the editor. Save or undo them first."
FORGOTTEN = "Its changes since then are more than one session can keep, so its earlier text is not known."
_CALL = "rewind"
_FILES = "The user restored files of the workspace to an earlier state. Read them again before you use them: {}"
_CONVERSATION = (
    "The user went back to an earlier point of this conversation. The files were not restored: they may have changes "
    "that you do not know."
)


@dataclass(frozen=True, slots=True)
class Planned:
    """A file that a rewind changes: its text and form now and then, ``None`` for no file. With a ``conflict``, the
    rewind cannot change it, for that reason."""

    path: str
    now: str | None
    then: str | None
    now_form: FileForm | None = None
    then_form: FileForm | None = None
    conflict: str = ""

    @property
    def status(self) -> str:
        """What happens to the file."""
        return "created" if self.now is None else "deleted" if self.then is None else "modified"


@dataclass(slots=True)
class Rewound:
    """What a rewind has done: the ``prompt`` of the turn that was gone back over, the paths of the files that were
    changed, and those of files that were not, with the reason."""

    prompt: tuple[Block, ...] | None = None
    files: list[str] = field(default_factory=list[str])
    conflicts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


class Rewind:
    """Rewinds one session. ``works`` says whether an agent of it works."""

    def __init__(
        self,
        host: Host,
        store: Store,
        checkpoints: Checkpoints,
        review: Review,
        supervisor: Supervisor,
        histories: Histories,
        keeper: RecordKeeper,
        works: Callable[[], bool],
    ) -> None:
        self.checkpoints = checkpoints
        self._workspace = host.workspace
        self._log = host.log
        self._store = store
        self._review = review
        self._primary = supervisor.primary
        self._supervisor = supervisor
        self._histories = histories
        self._keeper = keeper
        self._clock = host.clock
        self._works = works

    async def plan(self, checkpoint_id: str) -> Sequence[Planned]:
        """What a rewind of the files would change, ordered by path.

        Raises:
            InvalidRequest: there is no such checkpoint.
            StoreError: the changes since then cannot be read.
        """
        record = await self.checkpoints.get(checkpoint_id)
        by_path: dict[str, list[FileChange]] = {}
        for change in await self._store.changes(self._log.session_id, record.checkpoint_id):
            by_path.setdefault(change.path, []).append(change)
        planned = [await self._plan_file(path, changes) for path, changes in sorted(by_path.items())]
        return [one for one in planned if one is not None]

    async def rewind(
        self, checkpoint_id: str, *, files: bool, conversation: bool, skip_conflicts: bool = False
    ) -> Rewound:
        """Goes back to a checkpoint. If some file cannot be changed, nothing is, unless ``skip_conflicts`` is set.

        Raises:
            WrongState: an agent works.
            InvalidRequest: there is no such checkpoint.
            StoreError: the session is not stored now.
        """
        if self._works():
            raise WrongState("Agents are working in this session. Stop them, or wait until they have ended.")
        record = await self.checkpoints.get(checkpoint_id)
        planned = await self.plan(checkpoint_id) if files else ()
        result = Rewound(conflicts=[(one.path, one.conflict) for one in planned if one.conflict])
        if result.conflicts and not skip_conflicts:
            return result
        if self._works():
            raise WrongState("Agents have started to work in this session.")
        left = self.checkpoints.leave(record)
        await self._log.flush()
        self._check_stored("go back")
        with anyio.CancelScope(shield=True):  # a caller that is cancelled must not leave a half of it
            if not await self._write([one for one in planned if not one.conflict], result, skip_conflicts):
                return result
            await self._went_back(record, left, files=files, conversation=conversation)
        result.prompt = record.prompt.content if record.prompt and conversation else None
        self._notify(result, files=files, conversation=conversation)
        return result

    async def _went_back(self, record: CheckpointRecord, left: str, *, files: bool, conversation: bool) -> None:
        """Emits that the session went back, and goes back with the conversation."""
        self._log.emit(
            SessionRewound(record.checkpoint_id, record.turn_id, files=files, conversation=conversation),
            self._primary.agent.id,
            self._primary.agent.run,
        )
        if conversation:
            await self._rewind_conversation(record, left)
        await self._log.flush()

    async def fork(self, checkpoint_id: str | None = None) -> str:
        """Stores a new session that begins as this one was at a checkpoint, or is now. Returns its id.

        Raises:
            InvalidRequest: there is no such checkpoint.
            WrongState: it is to be forked as it is now, and an agent works in it; or sessions are not stored.
            StoreError: the session is not stored now.
        """
        if checkpoint_id is None and self._works():
            raise WrongState("Agents are working in this session. Wait for them, or name a checkpoint.")
        await self._keeper.save()
        await self._log.flush()
        self._check_stored("be forked")
        agents = self._log.view.agents
        return await fork(self._store, self._keeper.record, agents, checkpoint_id, self._clock.time())

    # -- files -------------------------------------------------------------------------------------------------------

    async def _plan_file(self, path: str, changes: Sequence[FileChange]) -> Planned | None:
        """``None`` if the file is as it was."""
        try:
            if any(change.forgotten for change in changes):
                raise ToolError(FORGOTTEN)
            if any(change.withheld for change in changes):
                raise ToolError(SECRET)
            place = await self._workspace.locate_again(path)
            text, form, unsaved = await self._now(place)
            size = len(text or "") + sum(len(change.after or "") for change in changes)
            return await off_loop(size, partial(undone, path, changes, text, form, unsaved))
        except ToolError as error:
            return Planned(path, None, None, conflict=str(error))

    async def _now(self, place: Place) -> tuple[str | None, FileForm | None, bool]:
        """The text and the form of a file as the user sees it, and whether it has unsaved changes in an editor.

        Raises:
            ToolError: it cannot be read.
        """
        state = await to_thread.run_sync(read_state, place.root, place.parts)
        if state is not None and state.is_link:
            raise ToolError("It is a link now.")
        text, form = file_version(state.data, state.mode & 0o777) if state is not None else (None, None)
        if not await self._workspace.is_open(place):
            return text, form, False
        shown = await self._workspace.read(place)
        if shown is None:
            return text, form, False
        return shown.text, form, text is None or fingerprint(text) != fingerprint(shown.text)

    async def _write(self, planned: Sequence[Planned], result: Rewound, skip: bool) -> bool:
        """Changes the files. If one fails and is not to be skipped, the others are changed back; ``False`` then."""
        done: list[FileChange] = []
        failed = False
        for one in planned:
            change = self._change(one)
            try:
                async with self._review.changes.holding(one.path):
                    self._log.add_record(change)
                    await self._log.flush()
                    await self._write_file(one)
            except ToolError as error:
                self._log.add_record(ChangesDropped((change.change_id,)))
                result.conflicts.append((one.path, str(error)))
                if not skip:
                    failed = True
                    break
            else:
                done.append(change)
        if failed:
            for change in reversed(done):
                await self._take_back(change, result)
            done = []
        result.files = [change.path for change in done]
        stored = await self._store.changes(self._log.session_id) if done else ()
        await self._review.rewound([(change, _author(change, stored)) for change in done])
        return not failed

    async def _take_back(self, change: FileChange, result: Rewound) -> None:
        back = Planned(change.path, change.after, change.before, change.after_form, change.before_form)
        try:
            await self._write_file(back)
        except ToolError as error:
            result.conflicts.append((change.path, str(error)))
        else:
            self._log.add_record(ChangesDropped((change.change_id,)))

    def _change(self, one: Planned) -> FileChange:
        return FileChange(
            change_id=new_id(),
            agent_id=REWIND,
            run=1,
            tool_call_id=_CALL,
            path=one.path,
            before=one.now,
            after=one.then,
            time=self.checkpoints.now(),
            before_form=one.now_form,
            after_form=one.then_form,
        )

    async def _write_file(self, one: Planned) -> None:
        place = await self._workspace.locate_again(one.path)
        self._workspace.check_writable(place)
        if await self._workspace.is_open(place):
            if _is_binary(one):
                raise ToolError("It is open in the editor, which can only change its text. Close it, then try again.")
            label = "Rewind"
            if one.then is None:
                await self._workspace.delete(place, expected=one.now or "", label=label)
            else:
                await self._workspace.write(place, one.then, expected=one.now, label=label)
            return
        mode = None if one.then_form is None else one.then_form.mode
        now, then = _data(one.now, one.now_form), _data(one.then, one.then_form)
        await to_thread.run_sync(lambda: restore(place.root, place.parts, then, expected=now, mode=mode))

    # -- the conversation --------------------------------------------------------------------------------------------

    async def _rewind_conversation(self, record: CheckpointRecord, left: str) -> None:
        primary = self._primary.agent
        counts = {primary.id: 0, **record.counts}
        self._log.add_record(RewindRecord(record.checkpoint_id, left, counts, primary.id, record.context))
        await self._log.flush()
        for agent_id, count in counts.items():
            driver = self._supervisor.drivers.get(agent_id)
            if driver is not None:
                context = record.context if driver is self._primary else None
                self._histories.reread(driver.agent, context, count)
        self._primary.take_notes()  # what waited there was about what was gone back over

    def _check_stored(self, what: str) -> None:
        if (error := self._log.store_error) is not None:
            raise StoreError(f"The session is not stored now, so it cannot {what}: {error}")

    def _notify(self, result: Rewound, *, files: bool, conversation: bool) -> None:
        """Tells the primary's model what its history does not show."""
        if result.files and not conversation:
            self._primary.feed(Notice(_FILES.format(", ".join(map(visible, result.files)))))
        elif conversation and (result.conflicts or not files):
            self._primary.feed(Notice(_CONVERSATION))


def undone(
    path: str, changes: Sequence[FileChange], text: str | None, form: FileForm | None, unsaved: bool
) -> Planned | None:
    """The file without ``changes``; ``None`` if it is as it was."""
    file = TrackedFile(HunkKey(_CALL, path))
    for change in changes:
        file.record(change)
    state = file.seen(text, form)
    planned = Planned(path, text, text, form, form)
    if unsaved and state not in file.states:
        return replace(planned, conflict=UNSAVED)
    undoing = undo_hunks(state, file.key, every(state, file.key), file.owners)
    if undoing.conflicts:
        return replace(planned, conflict=next(iter(undoing.conflicts.values())))
    then, then_form = undoing.state.text, undoing.state.form
    if then is not None and then_form is not None and then_form.mode is None and form is not None:
        then_form = replace(then_form, mode=form.mode)
    if then == text and (then_form is None or form is None or then_form.mode == form.mode):
        return None
    return replace(planned, then=then, then_form=then_form if then is not None else None)


def _author(restored: FileChange, stored: Sequence[FileChange]) -> FileChange | None:
    """The last change of an agent after which the file was as it is again."""
    made = (
        one for one in reversed(stored) if one.agent_id != REWIND and one.path == restored.path and not one.forgotten
    )
    return next((one for one in made if one.after == restored.after), None)


def _data(text: str | None, form: FileForm | None) -> bytes | None:
    return None if text is None else file_data(text, form or FileForm())


def _is_binary(one: Planned) -> bool:
    return any(form is not None and form.binary for form in (one.now_form, one.then_form))
