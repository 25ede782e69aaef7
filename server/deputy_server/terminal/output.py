"""Where lines go: a terminal or a pipe, which its reader may close at any time."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console


class Output(Console):
    """The terminal or pipe. When nobody reads any more, it falls silent and says so by ``on_unread``; what it does by
    itself, to exit from the midst of a task, would leave agents for later."""

    on_unread: Callable[[], None]

    def on_broken_pipe(self) -> None:
        self.quiet = True
        discard(self.file.fileno())
        self.on_unread()


def discard(descriptor: int) -> None:
    """What is written there goes nowhere from now on: the interpreter flushes its streams once more at its end."""
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), descriptor)


def command_name() -> str:
    """How the user calls this program from here."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return "python -m deputy_server"
    found = shutil.which("deputy")
    if found is not None and Path(found).resolve() == called.resolve():
        return "deputy"
    return os.path.relpath(called)
