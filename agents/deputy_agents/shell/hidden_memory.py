"""Protection of the keys that this process holds."""

import sys
from functools import cache
from typing import Final

_SET_DUMPABLE: Final = 4


@cache
def hide_memory() -> None:
    """Prevent other processes of the same user, and so every command, from reading the memory of this process and its
    initial environment, because both contain keys. Does nothing on systems other than Linux."""
    if sys.platform == "linux":
        import ctypes  # needed on Linux only

        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)
