"""How a command is kept apart from everything else: isolated, sandboxed, or not at all."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from deputy_agents.domain.errors import ToolError
from deputy_agents.shell.guard import ISOLATED, NOT_ISOLATED, PLAIN
from deputy_agents.shell.hidden_memory import hide_memory
from deputy_agents.shell.orphans import adopt_orphans

PROBE_TIMEOUT: Final = 10.0
"""Seconds that a probe of this machine may take."""
_GUARD: Final = str(Path(__file__).with_name("guard.py"))


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


def plan_command(text: str, cwd: str, writable: Sequence[Path] | None, *, isolated: bool) -> Start:
    """Decide how a line of bash is run. It may block for a moment.

    Raises:
        ToolError: bash is missing, or there is no sandbox although ``writable`` demands one.
    """
    _require_posix("The shell tool needs")
    bash = shutil.which("bash")
    if bash is None:
        raise ToolError("The shell tool needs bash, which is not on the PATH of Deputy's server.")
    command = (bash, "--noprofile", "--norc", "-c", text)
    if writable is None:
        return plan_program(command, isolated=isolated)
    from deputy_agents.shell.sandbox import sandboxed  # it imports this module, and few users need it

    hide_memory()
    return _ready(sandboxed(command, writable, cwd))


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
    """Why a guard cannot run ``start``; ``None`` if it can."""
    try:
        command = guard_command(start, 0, 0)
        ran = subprocess.run(command, input=b"", capture_output=True, timeout=PROBE_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if ran.stderr.split()[:1] == [b"%d" % NOT_ISOLATED] or not ran.stderr:
        return ran.stdout.decode(errors="replace").strip().rpartition("isolated: ")[2] or "the guard does not start"
    return None


def _ready(start: Start) -> Start:
    if start.mode == PLAIN:
        adopt_orphans()
    return start


def _require_posix(needs: str) -> None:
    if os.name != "posix":
        raise ToolError(f"{needs} Linux or macOS. On Windows, run Deputy in WSL.")
