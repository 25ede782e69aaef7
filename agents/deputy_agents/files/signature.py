"""What tells without reading a file whether it has changed."""

import os
import stat
import time
from collections.abc import Sequence
from typing import TypeAlias

Signature: TypeAlias = tuple[int, int, int, int, int]

_SETTLED = 100_000_000
"""Nanoseconds after which another change of a file has another time for sure."""


def signatures(paths: Sequence[str]) -> dict[str, Signature | None]:
    """The signatures of regular files; ``None`` for others, and for files that have changed just now."""
    return {path: _signature(path) for path in paths}


def _signature(path: str) -> Signature | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    settled = time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) > _SETTLED
    if not settled or not stat.S_ISREG(found.st_mode):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
