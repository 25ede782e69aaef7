"""Runs a command under a guard: without a terminal, and ending with every process that it has started."""

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
from deputy_agents.shell.sandbox import sandboxed

GRACE: Final = 0.5
"""Seconds between the request to end and the kill."""

EXIT_GRACE: Final = 1.0
"""Seconds that a program with an open input gets to end by itself after its input is closed."""

_ERRORS_KEPT: Final = 4096
"""Last bytes of the error output that are kept."""

_END_TIMEOUT: Final = 5.0
"""Seconds that a guard gets to end all processes before it is considered lost and killed."""
_SET_DUMPABLE: Final = 4
_REPORT: Final = re.compile(rb"\n-?\d+ \d+ \d+\n\Z")
_GUARD: Final = Path(__file__).with_name("guard.py")


@dataclass(frozen=True, slots=True)
class Launch:
    """A command to run. ``text`` is a line of bash, ``cwd`` the working directory as the guard opens it, and
    ``shown_cwd`` its path. ``variables`` are names of environment variables that are passed on. ``writable`` are the
    folders that a sandboxed command may write (``None``: no sandbox)."""

    text: str
    cwd: str
    shown_cwd: str
    variables: tuple[str, ...] = ()
    writable: tuple[Path, ...] | None = None


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a command ended. ``code`` is negative for a signal. ``left`` is the number of processes that it left behind
    and that were ended, ``survivors`` the number of those that could not be ended."""

    code: int
    left: int = 0
    survivors: int = 0


class GuardedProcess:
    """A running command, created by :func:`guarded_command`, or by :func:`guarded_program` with the descriptor of its
    control pipe, whose closing ends the program."""

    def __init__(self, process: Process, mark: str, control: int | None = None) -> None:
        self._process = process
        self._mark = mark
        self._control = control
        self._errors = bytearray()
        self.ended: ExitStatus | None = None
        """How it ended; ``None`` until that is known."""

    @property
    def output(self) -> ByteReceiveStream:
        """The output of the command, including its error output if it was started by :func:`guarded_command`."""
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def input(self) -> ByteSendStream:
        """The input of a program started by :func:`guarded_program`."""
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def errors(self) -> str:
        """The last part of the error output of a program started by :func:`guarded_program`."""
        return self._errors.decode(errors="replace")

    async def wait(self) -> ExitStatus:
        """Wait until the command and every process that it started have ended."""
        if self.ended is None:
            assert self._process.stderr is not None
            async for chunk in self._process.stderr:
                self._errors += chunk
                del self._errors[:-_ERRORS_KEPT]
            self.ended, report = _parse_report(bytes(self._errors))
            del self._errors[-report:]
            await self._process.wait()
            if self.ended.survivors or not report:
                await to_thread.run_sync(_kill_marked, self._mark)
        return self.ended

    async def end(self) -> ExitStatus:
        """End the command and every process that it started, by force if necessary, within a bounded time."""
        assert self._process.stdin is not None
        with suppress(OSError, anyio.BrokenResourceError):
            await self._process.stdin.aclose()
        if self._control is not None:
            with anyio.move_on_after(EXIT_GRACE):
                await self.wait()
            os.close(self._control)
            self._control = None
        with anyio.move_on_after(_END_TIMEOUT):
            return await self.wait()
        with suppress(ProcessLookupError):
            self._process.kill()
        await to_thread.run_sync(_kill_marked, self._mark)
        return self.ended or ExitStatus(-SIGKILL)


@asynccontextmanager
async def guarded_command(launch: Launch) -> AsyncGenerator[GuardedProcess]:
    """Run a command while the context is open; leaving the context ends all remaining processes.

    Raises:
        ToolError: this machine does not meet the requirements.
    """
    mark = new_id()
    command = await to_thread.run_sync(_command, launch)
    env = environment(launch.variables, launch.shown_cwd, mark)
    process = await _start(0, command, launch.cwd, env)
    async with _ending(GuardedProcess(process, mark), process) as running:
        yield running


@asynccontextmanager
async def guarded_program(
    command: Sequence[str], cwd: str, env: Mapping[str, str], variables: Sequence[str] = ()
) -> AsyncGenerator[GuardedProcess]:
    """Run a program that communicates over its input and output while the context is open. Its environment is that of
    commands plus the named ``variables`` and ``env``. The caller must keep a task in :meth:`GuardedProcess.wait`, which
    reads the error output.

    Raises:
        ToolError: this machine does not meet the requirements.
    """
    _hide_memory()
    if os.name != "posix":
        raise ToolError("Running programs needs Linux or macOS. On Windows, run Deputy in WSL.")
    mark = new_id()
    reading, writing = os.pipe()
    try:
        process = await _start(reading, command, cwd, environment(variables, cwd, mark) | dict(env))
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    async with _ending(GuardedProcess(process, mark, writing), process) as running:
        yield running


async def _start(control: int, command: Sequence[str], cwd: str, env: Mapping[str, str]) -> Process:
    """Start a guard with its command; ``control`` is the reading end of its control pipe."""
    return await anyio.open_process(
        [sys.executable, "-I", "-S", str(_GUARD), str(GRACE), str(control), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=env,
        start_new_session=True,
        pass_fds=(control,) if control else (),
    )


@asynccontextmanager
async def _ending(running: GuardedProcess, process: Process) -> AsyncGenerator[GuardedProcess]:
    try:
        yield running
    finally:
        with anyio.CancelScope(shield=True):
            await running.end()
            await process.aclose()


def _command(launch: Launch) -> Sequence[str]:
    _hide_memory()
    if os.name != "posix":
        raise ToolError("The shell tool needs Linux or macOS. On Windows, run Deputy in WSL.")
    bash = shutil.which("bash")
    if bash is None:
        raise ToolError("The shell tool needs bash, which is not on the PATH of Deputy's server.")
    command = [bash, "--noprofile", "--norc", "-c", launch.text]
    return command if launch.writable is None else sandboxed(command, launch.writable, launch.shown_cwd)


@cache
def _hide_memory() -> None:
    """Prevent other processes of the same user, and so every command, from reading the memory of this process and its
    initial environment, because both contain keys."""
    if sys.platform == "linux":
        import ctypes  # needed on Linux only

        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def _parse_report(errors: bytes) -> tuple[ExitStatus, int]:
    """The report of the guard, which is the last line, and its length in bytes. Without a report, the guard was killed,
    and its direct child with it."""
    report = _REPORT.search(errors)
    if report is None:
        return ExitStatus(-SIGKILL), 0
    return ExitStatus(*map(int, report[0].split())), len(report[0])


def _kill_marked(mark: str) -> None:
    """Kill the processes that escaped the guard, as far as the environment of processes is readable."""
    variable = f"{MARK}={mark}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if variable in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), SIGKILL)
