"""The changes that a session's agents have made to files, and the way back."""

from collections import defaultdict
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.file_change import FileChange
from deputy_agents.events.event_log import EventLog
from deputy_agents.files.undo import Conflict, without
from deputy_agents.files.workspace import Workspace
from deputy_agents.ports.store import ChangesDropped

MAX_CHARS = 64 * 1024 * 1024
"""Characters of texts that one session keeps; beyond it the oldest changes cannot be taken back any more."""


@dataclass(frozen=True, slots=True)
class Reverted:
    """Paths: of files that are as if an agent had not touched them; and of those that were left alone, with why."""

    files: tuple[str, ...]
    conflicts: tuple[tuple[str, str], ...]


class ChangeTracker:
    """What the agents of one session have changed in ``workspace``, in the order in which they did. ``log`` stores it;
    of a session that ``is_new`` there is nothing from earlier processes."""

    def __init__(self, workspace: Workspace, log: EventLog, *, is_new: bool = True) -> None:
        self._workspace = workspace
        self._log = log
        self._kept: list[FileChange] = []
        self._size = 0
        self._complete = is_new

    @asynccontextmanager
    async def making(self, change: FileChange) -> AsyncGenerator[None]:
        """Around a change of a file. It is stored before it is made, so that no crash can come between; one that was
        refused is not kept, one that was cancelled may have been made."""
        self._add(change)
        self._log.add_record(change)
        await self._log.flush()
        try:
            yield
        except ToolError:
            self._drop([change])
            raise

    async def _remember(self) -> None:
        """Fetches what was changed before this process, when it is asked for."""
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
        """Takes back, file by file, what these agents have changed and nobody has changed since; edits of open
        documents are made under ``label``. What was taken back once is not taken back again.

        Raises:
            StoreError: what earlier processes have stored cannot be read.
        """
        await self._remember()
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
        """Whether there was anything left to take back."""
        place = await self._workspace.locate(path, Path(path).parent)
        if str(place.path) != path:
            raise Conflict("Its name leads to another file by now.")
        file = await self._workspace.read(place)
        now = None if file is None else file.text
        then = await to_thread.run_sync(without, changes, now)
        if then == now:
            return False
        if then is None:
            await self._workspace.delete(place, expected=now or "", label=label)
        else:
            await self._workspace.write(place, then, expected=now, label=label)
        return True


def _size(change: FileChange) -> int:
    return len(change.before or "") + len(change.after)
