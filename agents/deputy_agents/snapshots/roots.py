"""The snapshots of all workspace folders that are in use in this process."""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from anyio import to_thread

from deputy_agents.concurrency.keyed_lock import KeyedLock
from deputy_agents.snapshots.git import SnapshotError, git_binary
from deputy_agents.snapshots.object_store import ObjectStore
from deputy_agents.snapshots.repositories import compact, forget, list_repositories
from deputy_agents.snapshots.windows import Windows

logger = logging.getLogger(__name__)

_DAY: Final = 24 * 3600.0
FOLDER: Final = "checkpoints"
"""The folder with a repository for each workspace folder, in the state folder."""
NO_GIT: Final = "git is not installed: changes by commands are not covered, only those by file tools."


@dataclass(slots=True)
class _Opened:
    windows: Windows | None
    problem: str = ""


class SnapshotRoots:
    """``folder`` is the state folder; without one, there are no snapshots."""

    def __init__(self, folder: Path | None) -> None:
        self._state = folder
        self._opened: dict[Path, _Opened] = {}
        self._opening = KeyedLock[Path]()

    async def windows(self, root: Path) -> Windows:
        """The windows of the tree below ``root``, which has no links.

        Raises:
            SnapshotError: snapshots of it cannot be taken, with the reason.
        """
        async with self._opening.hold(root):
            opened = self._opened.get(root)
            if opened is None:
                opened = self._opened[root] = await self._open(root)
        if opened.windows is None:
            raise SnapshotError(opened.problem)
        return opened.windows

    def disable(self, root: Path, problem: str) -> None:
        """Takes no more snapshots of the tree below ``root``, because of ``problem``."""
        self._opened[root] = _Opened(None, problem)

    async def forget(self, session_id: str) -> None:
        """Lets go of all snapshots of a session that is deleted. Never raises."""
        for repository in await self._repositories():
            await forget(repository, session_id)

    async def compact(self) -> None:
        """Frees the space of what no session needs any more. Never raises."""
        for repository in await self._repositories():
            await compact(repository, every=_DAY)

    async def close(self) -> None:
        """Leaves what is known of the files to the next process."""
        for opened in self._opened.values():
            if opened.windows is not None:
                await opened.windows.store.close()
        self._opened.clear()

    async def _open(self, root: Path) -> _Opened:
        if self._state is None:
            return _Opened(None)
        binary = await to_thread.run_sync(git_binary)
        if binary is None:
            return _Opened(None, NO_GIT)
        name = sha256(os.fsencode(root)).hexdigest()[:32]
        store = ObjectStore(binary, self._state / FOLDER / name, root, (self._state,))
        try:
            await store.open()
        except SnapshotError as error:
            logger.warning("no snapshots of %s: %s", root, error)
            return _Opened(None, f"{error} Changes by commands are not covered, only those by file tools.")
        return _Opened(Windows(store))

    async def _repositories(self) -> Sequence[Path]:
        folder = self._state
        return () if folder is None else await to_thread.run_sync(list_repositories, folder / FOLDER)
