"""Other processes of this machine."""

import os
import sys


def is_alive(pid: int) -> bool:
    """Whether a process with this id is running. Always false on Windows, where the check would terminate it."""
    if sys.platform == "win32":
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
