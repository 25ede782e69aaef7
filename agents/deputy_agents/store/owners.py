"""The processes that own sessions. Each process holds its own file lock as long as it runs.

The operating system releases the lock when the process ends, for whatever reason. Heartbeats are not needed, and
suspending the machine loses no session.
"""

import time
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from deputy_agents.domain.ids import new_id

_SWEEP_AFTER = 24 * 3600
"""Age in seconds at which the lock file of an ended owner is removed; younger files may not be locked yet."""
_RETRY_DELAYS = (0, 0.001, 0.007, 0.023, 0.061)
"""Delays in seconds before the attempts to acquire a lock. A process that only checks holds it briefly, its owner
permanently."""


class Owners:
    """The owners with locks in ``folder``. This process is one of them and is called ``name``.

    Raises:
        OSError: the lock cannot be acquired.
    """

    def __init__(self, folder: Path) -> None:
        self.name = new_id()
        self._folder = folder
        self._lock = self._acquire()

    def alive(self, name: str) -> bool:
        """Whether the process called ``name`` is running."""
        return name == self.name or is_running(self._folder, name)

    def restore(self) -> None:
        """Acquires the lock of this process again if its file was deleted or moved."""
        if not self._path(self.name).exists():
            self._lock.release()
            self._lock = self._acquire()

    def sweep(self, keep: set[str]) -> None:
        """Removes the lock files of owners that ended long ago, except those in ``keep``."""
        for path in self._folder.glob("*.lock"):
            with suppress(OSError):
                is_old = path.stat().st_mtime < time.time() - _SWEEP_AFTER
                if is_old and path.stem not in keep and not self.alive(path.stem):
                    path.unlink()

    def close(self) -> None:
        self._lock.release()
        with suppress(OSError):
            self._path(self.name).unlink(missing_ok=True)

    def _acquire(self) -> FileLock:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = _lock_of(self._folder, self.name)
        lock.acquire(timeout=0)
        return lock

    def _path(self, name: str) -> Path:
        return _path(self._folder, name)


def is_running(folder: Path, name: str) -> bool:
    """Whether the process that is called ``name``, with its lock in ``folder``, is running. Blocks for up to a tenth of
    a second."""
    # The name comes from a file and becomes part of a path.
    if Path(name).name != name or not _path(folder, name).exists():
        return False
    lock = _lock_of(folder, name)
    for delay in _RETRY_DELAYS:
        time.sleep(delay)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            continue
        lock.release()
        return False
    return True


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.lock"


def _lock_of(folder: Path, name: str) -> FileLock:
    # Acquired in one thread and released in another.
    return FileLock(_path(folder, name), mode=0o600, thread_local=False)
