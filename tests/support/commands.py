"""Finds processes of commands, and waits for their effects."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import anyio
import psutil

Started: TypeAlias = Callable[[], list[psutil.Process]]
"""What the fixture ``started`` is: see tests/conftest.py."""


async def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Poll until ``condition`` is true."""
    with anyio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110 - processes send no events
            await anyio.sleep(0.01)


def marked(folder: Path) -> list[psutil.Process]:
    """The processes of commands started in ``folder``, including guards, found by their environment."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            environment = process.environ()
            if "DEPUTY_COMMAND" in environment and environment.get("PWD") == str(folder):
                found.append(process)
    return found


def descendants() -> list[psutil.Process]:
    """The child processes of this process and their descendants, without the two that :mod:`tests.support.warm`
    keeps."""
    found: list[psutil.Process] = []
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            found += [] if "from multiprocessing" in " ".join(child.cmdline()) else [child]
            found += child.children(recursive=True)
    return found


def runs(process: psutil.Process) -> bool:
    """Whether the process exists and has not ended; it may end at any moment."""
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
