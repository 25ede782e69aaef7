"""Looks for processes of commands, and waits for what they do."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
import psutil


async def until(holds: Callable[[], bool], seconds: float = 20) -> None:
    """Returns when ``holds``; looks again and again."""
    with anyio.fail_after(seconds):
        while not holds():  # noqa: ASYNC110 - processes send no events
            await anyio.sleep(0.01)


def marked(folder: Path) -> list[psutil.Process]:
    """The processes that were started in ``folder``, guards included, by what their environment says."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            environment = process.environ()
            if "DEPUTY_COMMAND" in environment and environment.get("PWD") == str(folder):
                found.append(process)
    return found


def started() -> list[psutil.Process]:
    """The processes that tests of this process have started, and those below them: all but the two that
    :mod:`tests.support.warm` keeps."""
    found: list[psutil.Process] = []
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            found += [] if "from multiprocessing" in " ".join(child.cmdline()) else [child]
            found += child.children(recursive=True)
    return found
