"""Names of files that exist only while a file is written, and removal of those that a killed process has left."""

import os
import re
import secrets
import stat
import time
from contextlib import suppress
from itertools import islice
from typing import Final

_NAME: Final = re.compile(r"\.deputy-(?:(\d{1,10})-)?[0-9a-f]{16}\.tmp")
_MAX_ENTRIES: Final = 10_000
"""Entries of a folder that are looked at."""
_GRACE: Final = 10.0
"""Seconds in which a file is not removed although its process does not run here: another machine may be writing it."""
_MAX_AGE: Final = 3600.0
"""Seconds after which no process still writes a file: the number of an ended process may belong to another one."""


def spare_name() -> str:
    """A new name for a file that will replace another one."""
    return f".deputy-{os.getpid()}-{secrets.token_hex(8)}.tmp"


def is_spare(name: str) -> bool:
    """Whether ``name`` is that of a file that will replace another one."""
    return _NAME.fullmatch(name) is not None


def remove_leftovers(folder: str | int) -> None:
    """Remove the files in ``folder``, a path or descriptor, that ended processes have left. Never raises. Blocks."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in islice(entries, _MAX_ENTRIES):
            if (name := _NAME.fullmatch(entry.name)) is not None:
                with suppress(OSError):
                    if _is_left(entry, name[1]):
                        os.unlink(entry.name if isinstance(folder, int) else entry.path, dir_fd=_descriptor(folder))


def _descriptor(folder: str | int) -> int | None:
    return folder if isinstance(folder, int) else None


def _is_left(entry: os.DirEntry[str], process: str | None) -> bool:
    found = entry.stat(follow_symlinks=False)
    age = time.time() - found.st_mtime
    ended = process is not None and not _runs(int(process))
    return stat.S_ISREG(found.st_mode) and age > (_GRACE if ended else _MAX_AGE)


def _runs(process: int) -> bool:
    if os.name == "nt":
        return True  # the call below would interrupt it there
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # of another user
    return True
