"""Which command changed what: by snapshots at the beginning and the end of each.

Between two neighbouring snapshots the same commands run. What has changed in between is theirs, except what file tools
have written.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import anyio
from anyio import to_thread

from deputy_agents.concurrency.uninterrupted import uninterrupted
from deputy_agents.domain.errors import ToolError
from deputy_agents.files.exact import FileState, read_state
from deputy_agents.snapshots.object_store import Blob, Changed, ObjectStore, Snapshot

MAX_MADE: Final = 2000
"""Files that one command can change between two snapshots. Further ones are only counted."""


@dataclass(frozen=True, slots=True)
class Made:
    """A file that a command changed, relative to the root: what it was before and after, ``None`` for no file.
    ``others`` are the agents whose commands ran at the same time: it may have been one of them."""

    path: str
    before: FileState | None
    after: FileState | None
    others: tuple[str, ...] = ()


@dataclass(eq=False, slots=True)
class Window:
    """The time in which a command of an agent runs. ``made`` is what was changed in it so far, and ``uncounted`` the
    number of further changed files. Of several windows of a session, the first one gets what changed in all."""

    session_id: str
    agent_id: str
    made: list[Made] = field(default_factory=list[Made])
    uncounted: int = 0


@dataclass(frozen=True, slots=True)
class Write:
    """A write of a file tool."""

    before: FileState | None
    after: FileState | None


class Windows:
    """The commands that run in the tree of ``store``, of all sessions in this process."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.last: Snapshot | None = None
        self._open: list[Window] = []
        self._writes: dict[str, list[Write]] = {}
        self._gate = anyio.Lock()
        """Held during a snapshot, and while a file tool writes."""

    async def begin(self, session_id: str, agent_id: str) -> Window:
        """Opens a window, after a snapshot.

        Raises:
            SnapshotError: it could not be taken.
        """
        await self.boundary(session_id)
        window = Window(session_id, agent_id)
        self._open.append(window)
        return window

    async def end(self, window: Window, *, idle: bool = False) -> None:
        """Closes a window, after a snapshot. ``idle`` as for :meth:`boundary`.

        Raises:
            SnapshotError: it could not be taken. What the command has changed last is unknown.
        """
        try:
            await self.boundary(window.session_id, idle=idle)
        finally:
            self._open.remove(window)

    async def boundary(self, session_id: str, *, idle: bool = False) -> Snapshot:
        """Takes a snapshot, and gives the open windows what has changed since the last one. Those of the session get
        nothing if it was ``idle`` since, because then the user may have made the changes.

        Raises:
            SnapshotError: it could not be taken.
        """
        async with self._gate:
            windows = [one for one in self._open if not (idle and one.session_id == session_id)]
            writes, self._writes = self._writes, {}
            self.last = snapshot = await self.store.take(session_id)
            if windows and snapshot.changed:
                await self._share_out(snapshot, windows, writes)
            return snapshot

    @asynccontextmanager
    async def writing(self, path: str) -> AsyncGenerator[None]:
        """Wraps a write of a file tool, which is not the change of a command."""
        async with self._gate:
            before = await to_thread.run_sync(self._state, path) if self._open else None
            try:
                yield
            finally:
                if self._open:
                    await uninterrupted(lambda: self._note(path, before))

    async def _note(self, path: str, before: FileState | None) -> None:
        after = await to_thread.run_sync(self._state, path)
        self._writes.setdefault(path, []).append(Write(before, after))

    def _state(self, path: str) -> FileState | None:
        try:
            return read_state(self.store.root, path.split("/"))
        except ToolError:
            return None

    async def _share_out(
        self, snapshot: Snapshot, windows: Sequence[Window], writes: Mapping[str, list[Write]]
    ) -> None:
        counted = snapshot.changed[:MAX_MADE]
        oids = (blob.oid for change in counted for blob in (change.before, change.after) if blob is not None)
        contents = await self.store.read(oids)
        made = [
            (change.path, start, end)
            for change in counted
            if _is_stored(change, contents)
            for start, end in gaps(
                _loaded(change.before, contents), _loaded(change.after, contents), writes.get(change.path, ())
            )
        ]
        missing = len(snapshot.changed) - sum(_is_stored(change, contents) for change in counted)
        for window in {window.session_id: window for window in reversed(windows)}.values():
            others = tuple(dict.fromkeys(one.agent_id for one in windows if one.agent_id != window.agent_id))
            window.made += (Made(*change, others) for change in made)
            window.uncounted += missing


def _is_stored(change: Changed, contents: Mapping[str, bytes]) -> bool:
    return all(blob is None or blob.oid in contents for blob in (change.before, change.after))


def _loaded(blob: Blob | None, contents: Mapping[str, bytes]) -> FileState | None:
    return None if blob is None else FileState(blob.mode, contents[blob.oid])


def gaps(
    before: FileState | None, after: FileState | None, writes: Sequence[Write]
) -> Iterator[tuple[FileState | None, FileState | None]]:
    """The changes of a file from ``before`` to ``after`` that are not ``writes``, which came in this order."""
    at = before
    for write in writes:
        if write.before != at:
            yield at, write.before
        at = write.after
    if at != after:
        yield at, after
