"""Neovim in an emulated terminal: the screen as text."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pyte

from tests.editors.nvim.neovim import BARE, PATIENCE, PLUGIN, Neovim, ended, program, reached

_CLOCK = re.compile(r"\b\d+ s\b")


class Terminal:
    """An emulated terminal that reads what a program writes."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()

    def read_from(self, master: int) -> None:
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:
                return  # the program has ended
            with self._lock:
                self._stream.feed(data)

    def text(self) -> str:
        """The screen without trailing blanks, with elapsed times normalized."""
        with self._lock:
            shown = [line.rstrip() for line in self._screen.display]
        return _CLOCK.sub("N s", "\n".join(shown).rstrip()) + "\n"

    def until(self, holds: Callable[[str], bool]) -> str:
        """The screen, once ``holds`` is true for it and it is completely drawn. Also while Neovim waits for a key and
        answers no request."""
        end, before = time.monotonic() + PATIENCE, ""
        while not holds(text := self.text()) or text != before:
            assert time.monotonic() < end, text
            before = text
            time.sleep(0.1)
        return text


@contextmanager
def in_terminal(workspace: Path, columns: int, lines: int, background: str) -> Iterator[tuple[Neovim, Terminal]]:
    """Neovim on a screen of that size."""
    terminal = Terminal(columns, lines)
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    with TemporaryDirectory(prefix="nvim-") as folder:
        path = str(Path(folder) / "socket")
        start = [*BARE, "--listen", path, "--cmd", f"set rtp^={PLUGIN} background={background}"]
        process = subprocess.Popen(
            [program(), *start],
            cwd=workspace,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(slave)
        reader = threading.Thread(target=terminal.read_from, args=(master,), daemon=True)
        reader.start()
        try:
            with reached(path, process) as api:
                yield Neovim(api, workspace), terminal
        finally:
            ended(process)
            reader.join()
            os.close(master)
