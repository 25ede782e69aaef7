"""A command under its guard: started without a terminal, read, and ended with all that it has started."""

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from signal import SIGKILL
from typing import Final

import anyio
from anyio import to_thread
from anyio.abc import ByteReceiveStream, Process

from deputy_agents.errors import ToolError
from deputy_agents.ids import new_id
from deputy_agents.shell.environment import MARK, environment
from deputy_agents.shell.sandbox import boxed

GRACE: Final = 0.5
"""Seconds between the word to end and the end by force."""

_BOUND: Final = 5.0
"""Seconds that a guard gets to end everything; then it is taken for lost."""
_SET_DUMPABLE: Final = 4
_GUARD: Final = Path(__file__).with_name("guard.py")


@dataclass(frozen=True, slots=True)
class Launch:
    """What is to be run: ``text`` is a line of bash, ``cwd`` a folder as the guard is to find it and ``shown_cwd`` its
    path. ``variables`` are names of the environment that are passed on; ``writable`` are the folders that may be
    written in a sandbox (``None``: there is none)."""

    text: str
    cwd: str
    shown_cwd: str
    variables: tuple[str, ...] = ()
    writable: tuple[Path, ...] | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended. ``code`` is negative for a signal; ``left`` counts the processes that it left behind, which
    were ended, ``survivors`` those that could not be."""

    code: int
    left: int = 0
    survivors: int = 0


class Guarded:
    """A running command. Made by :func:`guarded`."""

    def __init__(self, process: Process, mark: str) -> None:
        self._process = process
        self._mark = mark
        self.ended: Ended | None = None
        """How it ended, as soon as that is known."""

    @property
    def output(self) -> ByteReceiveStream:
        """What the command prints, error output included, to its end."""
        assert self._process.stdout is not None
        return self._process.stdout

    async def wait(self) -> Ended:
        """Returns when the command and all that it started are gone."""
        if self.ended is None:
            assert self._process.stderr is not None
            told = b"".join([chunk async for chunk in self._process.stderr])
            self.ended = _read(told)
            await self._process.wait()
            if self.ended.survivors or not told:
                await to_thread.run_sync(_sweep, self._mark)
        return self.ended

    async def end(self) -> Ended:
        """Ends everything, by force if need be; bounded."""
        assert self._process.stdin is not None
        await self._process.stdin.aclose()
        with anyio.move_on_after(_BOUND):
            return await self.wait()
        with suppress(ProcessLookupError):
            self._process.kill()
        await to_thread.run_sync(_sweep, self._mark)
        return self.ended or Ended(-SIGKILL)


@asynccontextmanager
async def guarded(launch: Launch) -> AsyncGenerator[Guarded]:
    """Runs a command for the time of the context; leaving it ends whatever still runs.

    Raises:
        ToolError: this machine has not what it takes.
    """
    mark = new_id()
    command = await to_thread.run_sync(_command, launch)
    process = await anyio.open_process(
        [sys.executable, "-I", "-S", str(_GUARD), str(GRACE), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=launch.cwd,
        env=environment(launch.variables, launch.shown_cwd, mark),
        start_new_session=True,
    )
    running = Guarded(process, mark)
    try:
        yield running
    finally:
        with anyio.CancelScope(shield=True):
            await running.end()
            await process.aclose()


def _command(launch: Launch) -> Sequence[str]:
    _hide_memory()
    if os.name != "posix":
        raise ToolError("The shell tool needs Linux or macOS; on Windows, run Deputy in WSL.")
    bash = shutil.which("bash")
    if bash is None:
        raise ToolError("The shell tool needs bash, and there is none on the PATH of the server.")
    command = [bash, "--noprofile", "--norc", "-c", launch.text]
    return command if launch.writable is None else boxed(command, launch.writable, launch.shown_cwd)


@cache
def _hide_memory() -> None:
    """Keeps other processes of the same user, so every command, from reading the memory of this one and the environment
    that it was started with: both hold keys."""
    if sys.platform == "linux":
        import ctypes  # for Linux alone

        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def _read(told: bytes) -> Ended:
    """The guard's report; without one it was killed, and everything that it had started at once with it."""
    numbers = told.split()
    if len(numbers) != 3:
        return Ended(-SIGKILL)
    return Ended(*map(int, numbers))


def _sweep(mark: str) -> None:
    """Kills what the guard has lost, as far as the environment of processes can be seen."""
    wanted = f"{MARK}={mark}".encode()
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (place / "environ").read_bytes().split(b"\0"):
                os.kill(int(place.name), SIGKILL)
