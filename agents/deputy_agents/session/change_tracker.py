"""The changes that a session's agents have made to files, and reverting them."""

from collections import defaultdict
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.file_change import FileChange
from deputy_agents.events.event_log import EventLog
from deputy_agents.files.undo import Conflict
from deputy_agents.files.undo import revert as revert_changes
from deputy_agents.files.workspace import Workspace
from deputy_agents.ports.store import ChangesDropped

MAX_CHARS = 64 * 1024 * 1024
"""Characters of texts that one session keeps. Beyond that, the oldest changes can no longer be reverted."""


@dataclass(frozen=True, slots=True)
class Reverted:
    """Paths of the files that were reverted, and of those that were left unchanged, with the reason."""

    files: tuple[str, ...]
    conflicts: tuple[tuple[str, str], ...]


class ChangeTracker:
    """Changes in ``workspace`` by the agents of one session, in order. ``log`` stores them; a session that ``is_new``
    has none from earlier processes."""

    def __init__(self, workspace: Workspace, log: EventLog, *, is_new: bool = True) -> None:
        self._workspace = workspace
        self._log = log
        self._kept: list[FileChange] = []
        self._size = 0
        self._complete = is_new

    @asynccontextmanager
    async def making(self, change: FileChange) -> AsyncGenerator[None]:
        """Wraps a change of a file. The change is stored before it is made, so that no crash can lose it. One that
        fails with ToolError is dropped; one that is cancelled may have been made and is kept."""
        self._add(change)
        self._log.add_record(change)
        await self._log.flush()
        try:
            yield
        except ToolError:
            self._drop([change])
            raise

    async def _load(self) -> None:
        """Loads the changes of earlier processes, at the first revert."""
        if self._complete:
            return
        mine, self._kept, self._size = self._kept, [], 0
        known = {change.change_id for change in mine}
        stored = [change for change in await self._log.changes() if change.change_id not in known]
        for change in (*stored, *mine):
            self._add(change)
        self._complete = True

    def _add(self, change: FileChange) -> None:
        self._kept.append(change)
        self._size += _size(change)
        while self._size > MAX_CHARS and len(self._kept) > 1:
            self._size -= _size(self._kept.pop(0))

    def _drop(self, changes: Sequence[FileChange]) -> None:
        self._kept = [change for change in self._kept if change not in changes]
        self._size = sum(map(_size, self._kept))
        self._log.add_record(ChangesDropped(tuple(change.change_id for change in changes)))

    async def revert(self, agent_ids: Collection[str], label: str) -> Reverted:
        """Reverts, file by file, what these agents changed and nobody has changed since, each change once. ``label``
        names the edits of open documents.

        Raises:
            StoreError: the changes of earlier processes cannot be read.
        """
        await self._load()
        files: list[str] = []
        conflicts: list[tuple[str, str]] = []
        for path, changes in self._by_file(agent_ids).items():
            try:
                if await self._revert_file(path, changes, label):
                    files.append(path)
            except (Conflict, ToolError) as reason:
                conflicts.append((path, str(reason)))
            else:
                self._drop(changes)
        await self._log.flush()
        return Reverted(tuple(files), tuple(conflicts))

    def _by_file(self, agent_ids: Collection[str]) -> dict[str, list[FileChange]]:
        found: defaultdict[str, list[FileChange]] = defaultdict(list)
        for change in self._kept:
            if change.agent_id in agent_ids:
                found[change.path].append(change)
        return found

    async def _revert_file(self, path: str, changes: Sequence[FileChange], label: str) -> bool:
        """Returns whether there was anything left to revert."""
        place = await self._workspace.locate(path, Path(path).parent)
        if str(place.path) != path:
            raise Conflict("Its path now leads to another file.")
        file = await self._workspace.read(place)
        now = None if file is None else file.text
        then = await to_thread.run_sync(revert_changes, changes, now)
        if then == now:
            return False
        if then is None:
            await self._workspace.delete(place, expected=now or "", label=label)
        else:
            await self._workspace.write(place, then, expected=now, label=label)
        return True


def _size(change: FileChange) -> int:
    return len(change.before or "") + len(change.after)
