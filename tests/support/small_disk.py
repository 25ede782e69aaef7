"""A small disk for a program and what it starts: it can be full, and permissions hold for root, too."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SIZE = 24 * 1024 * 1024
"""Bytes."""
_MOUNT = 'mount -t tmpfs -o size="$0",mode=700 tmpfs "$1" && shift && exec "$@"'
_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _MOUNT, str(SIZE))
_NO_OVERRIDE = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")


@cache
def _is_possible() -> bool:
    """Whether the system offers what is needed."""
    if not all(map(shutil.which, ("unshare", "mount", "setpriv"))):
        return False
    tried = subprocess.run([*_NAMESPACE, "/mnt", "true"], check=False, capture_output=True, timeout=30)
    return tried.returncode == 0


def on_small_disk(folder: Path, command: Sequence[str]) -> Sequence[str]:
    """A command that runs ``command`` with a disk of ``SIZE`` at ``folder``, if the system can do that. Blocks."""
    return (*_NAMESPACE, str(folder), *command) if _is_possible() else command


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk at ``folder``, for a program that runs with it."""

    folder: Path

    @property
    def is_small(self) -> bool:
        return self.folder.is_mount()

    @property
    def prefix(self) -> Sequence[str]:
        """What to put before a command that permissions shall hold for."""
        return _NO_OVERRIDE if self.is_small else ()

    def fill(self) -> None:
        """Leaves no room. Blocks."""
        with self._ballast.open("ab", 0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                return

    def empty(self) -> None:
        self._ballast.unlink(missing_ok=True)

    @property
    def _ballast(self) -> Path:
        return self.folder / "ballast"
