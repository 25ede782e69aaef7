"""The changes that a session's agents have made to files: recorded, stored, and folded into what is not reviewed."""

import logging
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from deputy_agents.concurrency.keyed_lock import KeyedLock
from deputy_agents.concurrency.off_loop import off_loop
from deputy_agents.domain.errors import StoreError, ToolError
from deputy_agents.domain.file_change import FileChange
from deputy_agents.domain.review import ReviewStatus
from deputy_agents.events.event_log import EventLog
from deputy_agents.files.line_diff import changed_lines
from deputy_agents.files.workspace import CHANGE_TIMEOUT
from deputy_agents.ports.store import ChangesDropped, ReviewRecord
from deputy_agents.review.hunks import HunkKey
from deputy_agents.review.tracked import MAX_STATES, ChangeInfo, TrackedFile, dump, load, texts_of
from deputy_agents.review.weave import split
from deputy_agents.text import visible

if TYPE_CHECKING:
    from weakref import WeakSet

logger = logging.getLogger(__name__)

MAX_CHARS = 64 * 1024 * 1024
"""Characters of texts that one session keeps. Beyond that, the files that were changed first are no longer tracked."""
MAX_UNSAVED = 4 * 1024 * 1024
"""Characters of the changes of a file from which its state is stored, so that the changes need not be read again."""

FORGOTTEN = "Agents have changed more than one session can keep. The files changed first are not listed any more."


class ChangeTracker:
    """Changes of files by the agents of one session. ``log`` stores them; a session that ``is_new`` has none from
    earlier processes. ``ledgers`` are the trackers of all sessions, of which this becomes one."""

    def __init__(self, log: EventLog, ledgers: "WeakSet[ChangeTracker] | None" = None, *, is_new: bool = True) -> None:
        self.files: dict[str, TrackedFile] = {}
        """By path, in the order in which they were first changed."""
        self.notes: dict[str, None] = {}
        """What is not tracked, in words for the user."""
        self.further_notes: Callable[[], Sequence[str]] = lambda: ()
        """What else is not tracked."""
        self._log = log
        self._loaded = is_new
        self._loading = anyio.Lock()
        self._locks = KeyedLock[str]()
        self._status: ReviewStatus | None = None
        self._ledgers = ledgers
        if ledgers is not None:
            ledgers.add(self)

    # -- recording -------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def making(self, change: FileChange) -> AsyncGenerator[None]:
        """Wraps a change of a file. The change is stored before it is made, so that no crash can lose it. One that
        fails with ToolError is dropped; one that is cancelled may have been made and is kept.

        Raises:
            ToolError: the file is being reviewed, which does not end in time.
        """
        async with self.holding(change.path):
            await self._add(change)
            await self._log.flush()
            try:
                yield
            except ToolError:
                self.files[change.path].drop(change.change_id)
                self._log.add_record(ChangesDropped((change.change_id,)))
                raise
            else:
                if (file := self.files.get(change.path)) is not None:
                    file.made()
            finally:
                self.publish_status()

    async def record(self, changes: Sequence[FileChange], others: Sequence[str] = ()) -> None:
        """Records changes that were made already, as by a command. It may have been one of the agents ``others`` that
        made them."""
        for change in changes:
            async with self.holding(change.path):
                await self._add(change, others)
        await self._log.flush()
        self.publish_status()

    def note(self, text: str) -> None:
        """Adds a sentence about what is not tracked to the lists of hunks."""
        self.notes[text] = None

    @asynccontextmanager
    async def holding(self, path: str) -> AsyncGenerator[None]:
        """Excludes all other changes and reviews of a file by this session.

        Raises:
            ToolError: another one did not end in time.
        """
        async with AsyncExitStack() as lock:
            try:
                with anyio.fail_after(CHANGE_TIMEOUT):
                    await lock.enter_async_context(self._locks.hold(path))
            except TimeoutError:
                raise ToolError(f"{visible(path)} is being changed; try again later.") from None
            yield

    async def _add(self, change: FileChange, possible: Sequence[str] = ()) -> None:
        try:
            await self.load()
        except StoreError:
            self.note("The changes before the last restart cannot be read from the session store.")
            self._loaded = True
        size = len(change.before or "") + len(change.after or "")
        others = await off_loop(size, lambda: tuple(self._others(change)))
        others += tuple(_info_of(change, agent_id) for agent_id in possible)
        file = self.files.setdefault(change.path, TrackedFile(HunkKey(self._log.session_id, change.path)))
        await off_loop(size, lambda: file.record(change, others))
        self._log.add_record(change)
        if file.unsaved > MAX_UNSAVED or possible:
            self.save(file)
        self._forget()

    def _others(self, change: FileChange) -> Iterator[ChangeInfo]:
        """The changes of other sessions to the lines that ``change`` replaces."""
        for ledger in tuple(self._ledgers or ()):
            file = ledger.files.get(change.path)
            if ledger is self or file is None or not file.states or change.before is None:
                continue
            authors = file.authors(change.before)
            replaced = changed_lines(split(change.before), split(change.after or ""))
            found = dict.fromkeys(
                author for one in replaced for author in authors[one.old_start : one.old_end] if author
            )
            yield from (ledger.info(file.infos[change_id]) for change_id in found if change_id in file.infos)

    def info(self, info: ChangeInfo) -> ChangeInfo:
        """``info`` with the agent's label, for another session."""
        return info.labelled(self.label(info.agent_id))

    def label(self, agent_id: str) -> str:
        """The label of an agent of this session."""
        node = self._log.view.agents.get(agent_id)
        return node.info.label if node else ""

    def _forget(self) -> None:
        """Stops tracking the files that were changed first, if there is too much to keep."""
        sizes = {path: file.size for path, file in self.files.items()}
        total = sum(sizes.values())
        for path in list(sizes)[:-1]:
            if total <= MAX_CHARS:
                return
            total -= sizes[path]
            del self.files[path]
            self.note(FORGOTTEN)

    # -- the store -------------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Loads the changes of earlier processes, once.

        Raises:
            StoreError: they cannot be read.
        """
        if self._loaded:
            return
        async with self._loading:
            if not self._loaded:
                stored = await self._log.review()
                size = sum(len(one.before or "") + len(one.after or "") for one in stored.changes)
                await off_loop(size, lambda: self._fold(stored.records, stored.changes, stored.withheld))
                self._loaded = True
        self.publish_status()

    def _fold(self, records: Sequence[ReviewRecord], changes: Sequence[FileChange], withheld: Collection[str]) -> None:
        files: dict[str, TrackedFile] = {}

        def file_at(path: str) -> TrackedFile:
            return files.setdefault(path, TrackedFile(HunkKey(self._log.session_id, path)))

        for record in records:
            try:
                load(file_at(record.path), record.state)
            except (ValueError, LookupError, TypeError):
                logger.warning("the review of a file is damaged")
        for path in withheld:
            file_at(path).withheld = True
        for change in changes:
            file_at(change.path).record(change)
        self.files = files

    def save(self, file: TrackedFile, count: int = MAX_STATES) -> None:
        """Queues the last ``count`` states of ``file`` to be stored. They include all its changes."""
        record = ReviewRecord(file.key.path, dump(file, count), file.last_change, tuple(texts_of(file.states)))
        self._log.add_record(record)
        file.unsaved = 0

    # -- counts ----------------------------------------------------------------------------------------------------

    def publish_status(self) -> None:
        """Emits the counts of what is not reviewed, if they have changed."""
        counts = [file.counts for file in self.files.values()]
        found = [one for one in counts if one.hunks]
        status = ReviewStatus(
            len(found), sum(one.hunks for one in found), sum(one.added for one in found), sum(x.removed for x in found)
        )
        if status != self._status and (self._status or status.files):
            self._status = status
            self._log.emit(status)


def _info_of(change: FileChange, agent_id: str) -> ChangeInfo:
    """``change`` as one of another agent."""
    return ChangeInfo(agent_id, 1, change.turn_id, change.tool_call_id, change.time, change.approved)
