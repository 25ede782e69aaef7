"""Where the lines of large files begin. What was counted is kept, so that the next page of a file is found without
reading all of the file again. Blocks; call it in a worker thread."""

import os
import time
from bisect import bisect_left
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import BinaryIO, Final

PART: Final = 2**18
"""Bytes that are counted together."""
MAX_FILES: Final = 32
"""Files whose counts are kept; the ones that were not used for the longest time are forgotten first."""
_SETTLED: Final = 2.0
"""Seconds after which a further change of a file certainly changes its times, however coarse they are."""


@dataclass(frozen=True, slots=True)
class _Version:
    """The content of a file, as far as its metadata tell."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int
    """When the metadata changed, which cannot be set back, unlike the time of modification."""

    @classmethod
    def of(cls, found: os.stat_result) -> "_Version":
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    @property
    def settled(self) -> bool:
        return time.time() - max(self.modified, self.changed) / 1e9 > _SETTLED


_known: Final[OrderedDict[_Version, list[int]]] = OrderedDict()
"""The number of line ends up to the end of each part, as far as they were counted. The lists are never changed."""
_lock: Final = Lock()


def find_line(file: BinaryIO, number: int) -> int | None:
    """The offset of the line ``number``, counted from 1; ``None`` if the file has fewer line ends before it. Only the
    bytes that the file has now are considered."""
    version = _Version.of(os.fstat(file.fileno()))
    wanted = number - 1
    """The line end before the line."""
    if wanted == 0:
        return 0
    counts = _counts(file, version, wanted)
    part = bisect_left(counts, wanted)
    if part == len(counts):
        return None
    before = counts[part - 1] if part else 0
    data = _read(file, part, version.size)
    rest = data.split(b"\n", wanted - before)[-1]
    return part * PART + len(data) - len(rest)


def _counts(file: BinaryIO, version: _Version, wanted: int) -> list[int]:
    """The line ends up to the end of each part, until there are ``wanted``."""
    with _lock:
        known = _known.get(version, [])
    counts = list(known)
    while (not counts or counts[-1] < wanted) and len(counts) * PART < version.size:
        data = _read(file, len(counts), version.size)
        counts.append((counts[-1] if counts else 0) + data.count(b"\n"))
    if len(counts) > len(known) and version.settled and _Version.of(os.fstat(file.fileno())) == version:
        with _lock:
            _known[version] = counts
            _known.move_to_end(version)
            while len(_known) > MAX_FILES:
                _known.popitem(last=False)
    return counts


def _read(file: BinaryIO, part: int, size: int) -> bytes:
    file.seek(part * PART)
    return file.read(min(PART, size - part * PART))
