"""A program at a pseudo-terminal."""

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 40
"""Seconds to wait for output, or for the program to end."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """What the user of the terminal sees and presses. Text that :meth:`wait_for` has found is dropped."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._master = master
        self._seen = ""

    def wait_for(self, pattern: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not re.search(pattern, self._seen):
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{pattern!r} did not appear in:\n{self._seen}"
            text = self._read()
            assert text, f"the program ended before {pattern!r} appeared:\n{self._seen}"
            self._seen += _ESCAPES.sub("", text)
        self._seen = self._seen[re.search(pattern, self._seen).end() :]  # type: ignore[union-attr]

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def end(self) -> int:
        """Read until the program has ended, and return its exit code."""
        while text := self._read():
            self._seen += _ESCAPES.sub("", text)
        return self.process.wait(PATIENCE)

    @property
    def rest(self) -> str:
        """The output that was not yet waited for."""
        return self._seen

    def _read(self) -> str:
        try:
            return os.read(self._master, 65536).decode(errors="replace")
        except OSError:  # raised on Linux when the other end is closed
            return ""


@contextmanager
def terminal(command: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    """Run ``command`` at a terminal of 100 columns and 40 lines."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40", **(env or {})},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Terminal(master, process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(master)
