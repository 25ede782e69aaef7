"""Single key presses from the terminal, without echo and without waiting for Enter."""

import os
import sys
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager

import anyio


def available() -> bool:
    """Whether a person sits at a terminal that can give single keys."""
    return os.name == "posix" and sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def one_by_one() -> Generator[None]:
    """Sets the terminal so that keys arrive at once and are not shown; puts it back on the way out. Ctrl-C goes on
    to be a signal."""
    import termios  # POSIX only
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


async def pressed() -> AsyncIterator[str]:
    """Keys as they come, until the terminal goes away."""
    terminal = sys.stdin.fileno()
    while True:
        await anyio.wait_readable(terminal)
        data = os.read(terminal, 64)
        if not data:
            return
        # Arrow and function keys arrive as one escape sequence: none of its letters may answer a question.
        if not data.startswith(b"\x1b"):
            for key in data.decode(errors="ignore"):
                yield key
