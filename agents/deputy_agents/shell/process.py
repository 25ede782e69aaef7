"""A command under its guard: started without a terminal, read, and ended with all that it has started."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from signal import SIGKILL
from typing import Final

import anyio
from anyio import to_thread
from anyio.abc import ByteReceiveStream, ByteSendStream, Process

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.ids import new_id
from deputy_agents.shell.environment import MARK, environment
from deputy_agents.shell.sandbox import boxed

GRACE: Final = 0.5
"""Seconds between the word to end and the end by force."""

EXIT_GRACE: Final = 1.0
"""Seconds that a served program gets to end by itself when its input is closed."""

_TOLD: Final = 4096
"""Bytes of what stands on the error output that are kept, the last ones."""

_BOUND: Final = 5.0
"""Seconds that a guard gets to end everything; then it is taken for lost."""
_SET_DUMPABLE: Final = 4
_REPORT: Final = re.compile(rb"\n-?\d+ \d+ \d+\n\Z")
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
    """A running command. Made by :func:`guarded`, or by :func:`served` with the pipe whose end is the word to end."""

    def __init__(self, process: Process, mark: str, word: int | None = None) -> None:
        self._process = process
        self._mark = mark
        self._word = word
        self._told = bytearray()
        self.ended: Ended | None = None
        """How it ended, as soon as that is known."""

    @property
    def output(self) -> ByteReceiveStream:
        """What the command prints, error output included, to its end."""
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def input(self) -> ByteSendStream:
        """What a served program reads."""
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def errors(self) -> str:
        """The last of what a served program has printed as errors."""
        return self._told.decode(errors="replace")

    async def wait(self) -> Ended:
        """Returns when the command and all that it started are gone."""
        if self.ended is None:
            assert self._process.stderr is not None
            async for chunk in self._process.stderr:
                self._told += chunk
                del self._told[:-_TOLD]
            self.ended, report = _read(bytes(self._told))
            del self._told[-report:]
            await self._process.wait()
            if self.ended.survivors or not report:
                await to_thread.run_sync(_sweep, self._mark)
        return self.ended

    async def end(self) -> Ended:
        """Ends everything, by force if need be; bounded."""
        assert self._process.stdin is not None
        with suppress(OSError, anyio.BrokenResourceError):
            await self._process.stdin.aclose()
        if self._word is not None:
            with anyio.move_on_after(EXIT_GRACE):
                await self.wait()
            os.close(self._word)
            self._word = None
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
    env = environment(launch.variables, launch.shown_cwd, mark)
    process = await _start(0, command, launch.cwd, env)
    async with _ending(Guarded(process, mark), process) as running:
        yield running


@asynccontextmanager
async def served(
    command: Sequence[str], cwd: str, env: Mapping[str, str], variables: Sequence[str] = ()
) -> AsyncGenerator[Guarded]:
    """Runs a program that is spoken with by its input and output, for the time of the context. ``env`` is added to what
    commands get, and so are the ``variables`` of the environment. Somebody has to be in :meth:`Guarded.wait`
    meanwhile: it takes what the program prints as errors.

    Raises:
        ToolError: this machine has not what it takes.
    """
    _hide_memory()
    if os.name != "posix":
        raise ToolError("Programs are run on Linux and macOS alone; on Windows, run Deputy in WSL.")
    mark = new_id()
    reading, writing = os.pipe()
    try:
        process = await _start(reading, command, cwd, environment(variables, cwd, mark) | dict(env))
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    async with _ending(Guarded(process, mark, writing), process) as running:
        yield running


async def _start(word: int, command: Sequence[str], cwd: str, env: Mapping[str, str]) -> Process:
    """A guard with its command; the end of the pipe ``word`` is its word to end."""
    return await anyio.open_process(
        [sys.executable, "-I", "-S", str(_GUARD), str(GRACE), str(word), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=env,
        start_new_session=True,
        pass_fds=(word,) if word else (),
    )


@asynccontextmanager
async def _ending(running: Guarded, process: Process) -> AsyncGenerator[Guarded]:
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


def _read(told: bytes) -> tuple[Ended, int]:
    """The guard's report, which is the last line, and how many bytes it has; without one it was killed, and everything
    that it had started at once with it."""
    report = _REPORT.search(told)
    if report is None:
        return Ended(-SIGKILL), 0
    return Ended(*map(int, report[0].split())), len(report[0])


def _sweep(mark: str) -> None:
    """Kills what the guard has lost, as far as the environment of processes can be seen."""
    wanted = f"{MARK}={mark}".encode()
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (place / "environ").read_bytes().split(b"\0"):
                os.kill(int(place.name), SIGKILL)
