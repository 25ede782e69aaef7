"""What a command leaves behind if it kills its own guard.

Isolated and sandboxed commands cannot do that. For the others, this process becomes on Linux the reaper of what is
below it: processes that lose their guard become its children. It did not start them, which tells them from all other
children.
"""

import os
import signal
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread

from deputy_agents.concurrency.owned_process import owned

TIMEOUT: Final = 3.0
"""Seconds that killed processes get to disappear."""
_SET_CHILD_SUBREAPER: Final = 36
_POLL_INTERVAL: Final = 0.01


@cache
def adopt_orphans() -> None:
    """Make this process the new parent of processes that lose their guard. Does nothing on systems without this."""
    if sys.platform == "linux":
        import ctypes  # needed on Linux only

        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


async def end_orphans() -> None:
    """Kill all processes that lost their guard, and what they start meanwhile, within a bounded time."""
    if not adopt_orphans.cache_info().currsize or sys.platform != "linux":
        return
    with anyio.move_on_after(TIMEOUT):
        while True:
            children = await to_thread.run_sync(_foreign_sessions)
            started = owned()  # after the search, so that what it found is among them or still starting
            if started is not None:
                orphans = [pid for child, below in children.items() if child not in started for pid in (child, *below)]
                if not orphans:
                    return
                _kill(orphans)
            await anyio.sleep(_POLL_INTERVAL)


def _foreign_sessions() -> dict[int, list[int]]:
    """The children of this process that have a session of their own, as all commands have, and their descendants."""
    children: dict[int, list[int]] = {}
    sessions: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, IndexError, ValueError):
            fields = (entry / "stat").read_bytes().rsplit(b")", 1)[1].split()
            children.setdefault(int(fields[1]), []).append(int(entry.name))
            sessions[int(entry.name)] = int(fields[3])
    own = os.getsid(0)
    found = {child: list(children.get(child, ())) for child in children.get(os.getpid(), ()) if sessions[child] != own}
    for below in found.values():
        for pid in below:
            below.extend(children.get(pid, ()))
    return found


def _kill(orphans: list[int]) -> None:
    """Kill the processes and remove their entries. All are stopped first, because a stopped process cannot start
    others."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in orphans:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
    for pid in orphans:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
