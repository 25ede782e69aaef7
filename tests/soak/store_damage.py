"""What can happen to a state folder, from outside. Everything here blocks."""

import random
import shutil
import sqlite3
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from deputy_agents.store.database_file import DatabaseFile
from deputy_agents.store.sqlite import FILE
from tests.support.small_disk import Disk

_WAIT = 30.0
"""Seconds to wait for a lock that the server holds."""
_SECTOR = 512


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Fault:
    """``end`` undoes what ``begin`` did, unless Deputy has to live with it."""

    name: str
    begin: Callable[[], None]
    end: Callable[[], None] = _nothing


class StoreDamage:
    """Harms the state folder on ``disk``."""

    def __init__(self, disk: Disk, chance: random.Random) -> None:
        self._disk = disk
        self._random = chance
        self.folder = disk.folder / "state"
        self.file = self.folder / FILE
        self._log = self.folder / f"{FILE}-wal"
        self._kept = disk.folder / "kept"
        self._moves = 0
        self._locks: list[sqlite3.Connection] = []

    def keep_copy(self) -> None:
        """Keeps a copy of the file, while no server runs."""
        shutil.copyfile(self.file, self._kept)

    def restore_copy(self) -> None:
        for path in (self._log, self.folder / f"{FILE}-shm"):
            path.unlink(missing_ok=True)
        shutil.copyfile(self._kept, self.file)

    def while_running(self, pid: int) -> Sequence[Fault]:
        """Faults under a running server, the process ``pid``."""
        faults = [
            Fault("read-only folder", lambda: self._set_mode(0o500, 0o400), lambda: self._set_mode(0o700, 0o600)),
            Fault("lock of another program", self._lock, self._unlock),
            Fault("folder removed", lambda: shutil.rmtree(self.folder)),
            Fault("file removed", self.file.unlink),
            Fault("log removed", lambda: self._log.unlink(missing_ok=True)),
            Fault("folder moved", self._move_folder),
            Fault("file moved", self._move_file),
            Fault("replaced by an empty file", self._replace_by_empty),
            Fault("replaced by an older copy", self._replace_by_copy),
            Fault("replaced by another store", self._replace_by_store),
        ]
        if self._disk.is_small:
            faults.append(Fault("full disk", self._disk.fill, self._disk.empty))
        if sys.platform == "linux":
            faults.append(Fault("limit of file sizes", lambda: self._limit(pid), lambda: self._unlimit(pid)))
        return faults

    def before_start(self) -> Sequence[Fault]:
        """Faults that a server finds when it starts."""
        faults = [
            Fault("random bytes in a sector", self._damage_sector, self.restore_copy),
            Fault("a changed byte", self._damage_byte, self.restore_copy),
            Fault("the end is missing", self._truncate, self.restore_copy),
            Fault("lock at the start", self._lock, self._unlock),
        ]
        if self._disk.is_small:
            faults.append(Fault("full disk at the start", self._disk.fill, self._disk.empty))
            faults.append(
                Fault(
                    "read-only file at the start",
                    lambda: self._set_mode(0o500, 0o400),
                    lambda: self._set_mode(0o700, 0o600),
                )
            )
        return faults

    # -- while a server runs -------------------------------------------------------------------------------------

    def _set_mode(self, folder: int, files: int) -> None:
        for path in self.folder.iterdir():
            if path.is_file():
                path.chmod(files)
        self.folder.chmod(folder)

    def _lock(self) -> None:
        connection = sqlite3.connect(self.file, timeout=_WAIT, isolation_level=None, check_same_thread=False)
        connection.execute("BEGIN EXCLUSIVE")
        self._locks.append(connection)

    def _unlock(self) -> None:
        while self._locks:
            self._locks.pop().close()

    def _move_folder(self) -> None:
        self.folder.rename(self._away())

    def _move_file(self) -> None:
        self.file.rename(self._away())

    def _away(self) -> Path:
        """A new name; what was moved earlier is removed, because the disk is small."""
        for path in self._disk.folder.glob("moved-*"):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        self._moves += 1
        return self._disk.folder / f"moved-{self._moves}"

    def _replace_by_empty(self) -> None:
        self._move_file()
        self.file.touch(0o600)

    def _replace_by_copy(self) -> None:
        if self._kept.exists():
            new = self.folder / "new"
            shutil.copyfile(self._kept, new)
            new.replace(self.file)

    def _replace_by_store(self) -> None:
        new = self.folder / "new"
        DatabaseFile(new).connect().close()
        new.replace(self.file)

    def _limit(self, pid: int) -> None:
        size = max(path.stat().st_size for path in (self.file, self._log) if path.exists())
        _, most = psutil.Process(pid).rlimit(psutil.RLIMIT_FSIZE)
        psutil.Process(pid).rlimit(psutil.RLIMIT_FSIZE, (self._random.randrange(size + 1), most))

    def _unlimit(self, pid: int) -> None:
        with suppress(psutil.NoSuchProcess):
            _, most = psutil.Process(pid).rlimit(psutil.RLIMIT_FSIZE)
            psutil.Process(pid).rlimit(psutil.RLIMIT_FSIZE, (most, most))

    # -- between two servers -------------------------------------------------------------------------------------

    def _damage_sector(self) -> None:
        size = self.file.stat().st_size
        self._write(self._random.randrange(size // _SECTOR) * _SECTOR, self._random.randbytes(_SECTOR))

    def _damage_byte(self) -> None:
        self._write(self._random.randrange(self.file.stat().st_size), bytes([self._random.randrange(128, 256)]))

    def _truncate(self) -> None:
        with self.file.open("r+b") as file:
            file.truncate(self._random.randrange(1, self.file.stat().st_size))

    def _write(self, at: int, data: bytes) -> None:
        with self.file.open("r+b") as file:
            file.seek(at)
            file.write(data)
