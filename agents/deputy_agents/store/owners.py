"""Which processes own sessions: each holds a file lock of its own for as long as it lives.

The operating system lets go of the lock however the process ends, so nobody has to send signs of life, and a suspended
laptop loses nothing.
"""

import time
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from deputy_agents.domain.ids import new_id

_SWEEP_AFTER = 24 * 3600
"""Seconds after which the file of an owner that has ended is removed; younger ones may be about to be locked."""
_PROBES = (0, 0.001, 0.007, 0.023, 0.061)
"""Seconds before each try to take a lock: another process that looks at the same time holds it for a moment only, an
owner for its life."""


class Owners:
    """The owners that have locks in ``folder``, this process among them under ``name``.

    Raises:
        OSError: the lock cannot be had.
    """

    def __init__(self, folder: Path) -> None:
        self.name = new_id()
        self._folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)
        self._lock = self._lock_of(self.name)
        self._lock.acquire(timeout=0)

    def alive(self, name: str) -> bool:
        """Whether the process of that name still runs."""
        if name == self.name:
            return True
        # A name comes from a file and becomes a path here.
        if Path(name).name != name or not self._path(name).exists():
            return False
        lock = self._lock_of(name)
        for pause in _PROBES:
            time.sleep(pause)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                continue
            lock.release()
            return False
        return True

    def sweep(self, keep: set[str]) -> None:
        """Removes what owners that ended long ago have left, save those in ``keep``."""
        for path in self._folder.glob("*.lock"):
            with suppress(OSError):
                is_old = path.stat().st_mtime < time.time() - _SWEEP_AFTER
                if is_old and path.stem not in keep and not self.alive(path.stem):
                    path.unlink()

    def close(self) -> None:
        self._lock.release()
        with suppress(OSError):
            self._path(self.name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.lock"

    def _lock_of(self, name: str) -> FileLock:
        # Taken in one thread and given back in another.
        return FileLock(self._path(name), mode=0o600, thread_local=False)
