"""Runs a command under a guard: without a terminal, and ending with every process that it has started."""

import os
import re
import subprocess
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from signal import SIGKILL
from typing import Final

import anyio
from anyio import to_thread
from anyio.abc import ByteReceiveStream, ByteSendStream, Process

from deputy_agents.concurrency.owned_process import kill, release, start_process
from deputy_agents.concurrency.uninterrupted import uninterrupted
from deputy_agents.domain.ids import new_id
from deputy_agents.shell.channel import Channel, open_channel
from deputy_agents.shell.confinement import Confinement, Start, guard_command, plan_command, plan_program
from deputy_agents.shell.environment import environment
from deputy_agents.shell.orphans import end_orphans

GRACE: Final = 0.5
"""Seconds between the request to end and the kill."""

EXIT_GRACE: Final = 1.0
"""Seconds that a program with an open input gets to end by itself after its input is closed."""

_ERRORS_KEPT: Final = 4096
"""Last bytes of the error output that are kept."""

_END_TIMEOUT: Final = 5.0
"""Seconds that a guard gets to end all processes before it is considered lost and killed."""
_REPORT: Final = re.compile(rb"\n-?\d+ \d+ \d+\n\Z")


@dataclass(frozen=True, slots=True)
class Launch:
    """A command to run. ``text`` is a line of bash, ``cwd`` the working directory as the guard opens it, and
    ``shown_cwd`` its path. ``variables`` are names of environment variables that are passed on. ``confinement``
    is what a sandboxed command may do (``None``: no sandbox). ``isolated`` keeps other processes out of reach
    where the system can. ``added`` are further environment variables with their values."""

    text: str
    cwd: str
    shown_cwd: str
    variables: tuple[str, ...] = ()
    confinement: Confinement | None = None
    isolated: bool = True
    added: Mapping[str, str] = field(default_factory=dict[str, str])


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

    def __init__(self, process: Process, control: int | None = None, channel: Channel | None = None) -> None:
        self._process = process
        self._control = control
        self._channel = channel
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

    @property
    def refusals(self) -> tuple[str, ...]:
        """What the sandbox has refused to the command until now, as words that follow "to"."""
        return self._channel.refusals() if self._channel else ()

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
            if not report:
                await end_orphans()
        return self.ended

    async def end(self) -> ExitStatus:
        """End the command and every process that it started, by force if necessary, within a bounded time. A
        cancellation takes effect afterwards."""
        return await uninterrupted(self._end)

    async def _end(self) -> ExitStatus:
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
        kill(self._process)
        await self._process.wait()
        await end_orphans()
        return self.ended or ExitStatus(-SIGKILL)


@asynccontextmanager
async def guarded_command(launch: Launch) -> AsyncGenerator[GuardedProcess]:
    """Run a command while the context is open; leaving the context ends all remaining processes.

    Raises:
        ToolError: this machine does not meet the requirements.
    """
    env = environment(launch.variables, launch.shown_cwd, new_id()) | dict(launch.added)
    async with open_channel(launch.confinement) as (channel, of_command):
        plan = partial(plan_command, launch.text, launch.shown_cwd, launch.confinement, of_command)
        start = await to_thread.run_sync(partial(plan, isolated=launch.isolated))
        process = await _start(0, start, launch.cwd, env, of_command)
        async with _ending(GuardedProcess(process, channel=channel), process) as running:
            yield running


@asynccontextmanager
async def guarded_program(
    command: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    variables: Sequence[str] = (),
    *,
    isolated: bool = True,
) -> AsyncGenerator[GuardedProcess]:
    """Run a program that communicates over its input and output while the context is open. Its environment is that of
    commands plus the named ``variables`` and ``env``. The caller must keep a task in :meth:`GuardedProcess.wait`, which
    reads the error output.

    Raises:
        ToolError: this machine does not meet the requirements.
    """
    start = await to_thread.run_sync(partial(plan_program, command, isolated=isolated))
    variables_of_program = environment(variables, cwd, new_id()) | dict(env)
    reading, writing = os.pipe()
    try:
        process = await _start(reading, start, cwd, variables_of_program)
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    async with _ending(GuardedProcess(process, writing), process) as running:
        yield running


async def _start(control: int, start: Start, cwd: str, env: Mapping[str, str], *passed: int) -> Process:
    """Start a guard with its command; ``control`` is the reading end of its control pipe."""
    return await start_process(
        guard_command(start, GRACE, control),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=env,
        start_new_session=True,
        pass_fds=tuple(fd for fd in (control, *passed) if fd > 0),
    )


@asynccontextmanager
async def _ending(running: GuardedProcess, process: Process) -> AsyncGenerator[GuardedProcess]:
    # Between the start of the process and this `try` there is no wait, so no cancellation either.
    try:
        yield running
    finally:
        await running.end()
        await uninterrupted(partial(release, process))


def _parse_report(errors: bytes) -> tuple[ExitStatus, int]:
    """The report of the guard, which is the last line, and its length in bytes. Without a report, the guard was killed,
    and its direct child with it."""
    report = _REPORT.search(errors)
    if report is None:
        return ExitStatus(-SIGKILL), 0
    return ExitStatus(*map(int, report[0].split())), len(report[0])
