"""Other processes of this machine."""

import os
import sys


def is_alive(pid: int) -> bool:
    """Whether a process of that number runs. Always false on Windows, where asking would end it."""
    if sys.platform == "win32":
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
