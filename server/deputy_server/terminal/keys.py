"""Single key presses at a terminal, without echo and without Enter."""

import os
import sys
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager, suppress

import anyio


def available() -> bool:
    """Whether the process has a terminal that supports single keys."""
    return os.name == "posix" and sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def single_keys() -> Generator[None]:
    """Make keys arrive immediately and without echo, until the end of the block. Ctrl-C remains a signal."""
    import termios  # POSIX only
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def discard_typed() -> None:
    """Discard what was typed and not read yet."""
    import termios  # POSIX only

    with suppress(termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def pressed() -> AsyncIterator[str]:
    """Keys as they are pressed, until the terminal is closed."""
    terminal = sys.stdin.fileno()
    while True:
        await anyio.wait_readable(terminal)
        data = os.read(terminal, 64)
        if not data:
            return
        # Arrow and function keys arrive as one escape sequence, whose letters must not count as keys.
        if data == b"\x1b" or not data.startswith(b"\x1b"):
            for key in data.decode(errors="ignore"):
                yield key
