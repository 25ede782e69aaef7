"""Output to a terminal, or to a pipe that its reader may close at any time."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console


class Output(Console):
    """A console that calls ``on_unread`` and drops further output when the reader has closed the pipe. The library's
    default is to exit immediately, which would leave agents running."""

    on_unread: Callable[[], None]

    def on_broken_pipe(self) -> None:
        self.quiet = True
        discard(self.file.fileno())
        self.on_unread()


def discard(descriptor: int) -> None:
    """Drop everything that is written to ``descriptor`` from now on. At exit, the interpreter flushes its streams."""
    with Path(os.devnull).open("w") as null:
        os.dup2(null.fileno(), descriptor)


def command_name() -> str:
    """The command with which the user can run this program from the current folder."""
    program = Path(sys.argv[0])
    if program.name == "__main__.py":
        return "python -m deputy_server"
    on_path = shutil.which("deputy")
    if on_path is not None and Path(on_path).resolve() == program.resolve():
        return "deputy"
    return os.path.relpath(program)
