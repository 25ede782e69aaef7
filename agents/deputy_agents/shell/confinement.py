"""How a command is kept apart from everything else: isolated, sandboxed, or not at all."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from deputy_agents.domain.errors import ToolError
from deputy_agents.shell.guard import ISOLATED, PLAIN
from deputy_agents.shell.hidden_memory import hide_memory
from deputy_agents.shell.orphans import adopt_orphans

PROBE_TIMEOUT: Final = 10.0
"""Seconds that a probe of this machine may take."""
_PROBLEM: Final = re.compile("^The command could not be (isolated|confined): ")
_GUARD: Final = str(Path(__file__).with_name("guard.py"))


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a sandboxed command may do: write in the folders ``roots``, and connect to ``hosts`` through a proxy. From a
    command that is ``private``, secrets are hidden, and private files outside ``roots`` and ``readable``."""

    roots: tuple[Path, ...]
    readable: tuple[Path, ...] = ()
    private: bool = False
    hosts: tuple[str, ...] = ()
    private_hosts: bool = False
    """Whether hosts may be on this machine and in private networks."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a guard runs: the ``mode`` and its ``options``, and the command."""

    command: tuple[str, ...]
    mode: str = PLAIN
    options: tuple[str, ...] = ()


def guard_command(start: Start, grace: float, control: int) -> list[str]:
    """The command line of a guard. ``grace`` is in seconds; ``control`` is its control descriptor."""
    options = (str(grace), str(control), start.mode, *start.options)
    return [sys.executable, "-I", "-S", _GUARD, *options, "--", *start.command]


def plan_command(text: str, cwd: str, confinement: Confinement | None, channel: int, *, isolated: bool) -> Start:
    """Decide how a line of bash is run. ``channel`` is the descriptor of the socket to which a sandboxed command
    reports. It may block for a moment.

    Raises:
        ToolError: bash is missing, or there is no sandbox although ``confinement`` demands one.
    """
    _require_posix("The shell tool needs")
    bash = shutil.which("bash")
    if bash is None:
        raise ToolError("The shell tool needs bash, which is not on the PATH of Deputy's server.")
    command = (bash, "--noprofile", "--norc", "-c", text)
    if confinement is None:
        return plan_program(command, isolated=isolated)
    from deputy_agents.shell.sandbox import sandboxed  # it imports this module, and few users need it

    hide_memory()
    return _ready(sandboxed(command, confinement, cwd, channel))


def plan_program(command: Sequence[str], *, isolated: bool) -> Start:
    """Decide how a program is run. It may block for a moment.

    Raises:
        ToolError: the system is not supported.
    """
    _require_posix("Running programs needs")
    hide_memory()
    mode = ISOLATED if isolated and isolation_problem() is None else PLAIN
    return _ready(Start(tuple(command), mode))


@cache
def isolation_problem() -> str | None:
    """Why commands cannot be isolated on this machine; ``None`` if they can. Once they can, a command that cannot be
    isolated does not run."""
    if sys.platform != "linux":
        return "only Linux has what it needs"
    return probe(Start(("true",), ISOLATED))


def probe(start: Start) -> str | None:
    """Why ``start``, a command that does nothing, cannot be run; ``None`` if it can."""
    try:
        code, output = run_guarded(start, PROBE_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if code == 0:
        return None
    output = output.strip()
    return _PROBLEM.sub("", output.rpartition("\n")[2]) or "the guard does not start"


def run_guarded(
    start: Start, timeout: float, cwd: str = "/", env: Mapping[str, str] | None = None, channel: int = -1
) -> tuple[int | None, str]:
    """Run ``start`` under a guard, and return its exit code and its output; the code is ``None`` if the guard does not
    start. Blocks.

    Raises:
        OSError: it cannot be started.
        TimeoutExpired: it has not ended after ``timeout`` seconds.
    """
    reading, writing = os.pipe()  # closing it would be the request to end
    try:
        ran = subprocess.run(
            guard_command(start, 0.5, 0),
            stdin=reading,
            capture_output=True,
            timeout=timeout,
            check=False,
            cwd=cwd,
            env=env,
            pass_fds=(channel,) if channel >= 0 else (),
        )
    finally:
        os.close(reading)
        os.close(writing)
    report = ran.stderr.split()
    return int(report[-3]) if len(report) >= 3 else None, ran.stdout.decode(errors="replace")


def _ready(start: Start) -> Start:
    if start.mode == PLAIN:
        adopt_orphans()
    return start


def _require_posix(needs: str) -> None:
    if os.name != "posix":
        raise ToolError(f"{needs} Linux or macOS. On Windows, run Deputy in WSL.")
