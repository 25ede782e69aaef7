"""The optional sandbox for commands: without network, and without writing outside the workspace. What provides it
depends on the system; without any of it, the command does not run."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Final

from deputy_agents.domain.errors import ToolError
from deputy_agents.files.paths import config_folder, state_folder
from deputy_agents.shell import landlock, syscall_filter
from deputy_agents.shell.confinement import PROBE_TIMEOUT, Confinement, Start, probe
from deputy_agents.shell.file_view import Mount, file_view
from deputy_agents.shell.guard import SANDBOXED
from deputy_agents.shell.mount_kinds import HIDDEN, HIDDEN_FILE, SCRATCH, WRITABLE
from deputy_agents.shell.seatbelt import seatbelt_profile
from deputy_agents.shell.workspace_scan import scan_workspace

_BROKER: Final = str(Path(__file__).with_name("broker.py"))
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - the private one of the sandbox
_KERNEL: Final = "/proc/sys"
"""Settings of the kernel, some of which name programs. Root may write them even without any capability."""
_SEATBELT: Final = "/usr/bin/sandbox-exec"


class Mechanism(Enum):
    """What provides the sandbox on this machine."""

    BUBBLEWRAP = "bubblewrap"
    NAMESPACES = "namespaces and Landlock"
    SEATBELT = "sandbox-exec"


def sandboxed(command: Sequence[str], confinement: Confinement, cwd: str, channel: int) -> Start:
    """Wrap ``command`` with the working directory ``cwd``. ``channel`` is the descriptor of the socket to which the
    broker reports. It may block for some seconds in a large workspace.

    Raises:
        ToolError: this machine has nothing that provides the sandbox, or not what the confinement needs; the command
            does not run without it.
    """
    found, scan = mechanism(), scan_workspace((*confinement.roots, *confinement.readable))
    hidden = scan.hidden if confinement.private else None
    mounts = file_view(confinement.roots, readable=confinement.readable, hidden=hidden)
    if found is Mechanism.SEATBELT:
        return Start((_SEATBELT, "-p", seatbelt_profile(mounts), *command))
    problem = broker_problem()
    if problem is None:
        command = broker_command(command, confinement, mounts, scan.protected, channel)
    elif confinement.private:
        raise ToolError(f"The command cannot be confined: {problem}.")
    return _in_namespaces(found, command, mounts, cwd)


def _in_namespaces(found: Mechanism, command: Sequence[str], mounts: Sequence[Mount], cwd: str) -> Start:
    if found is Mechanism.BUBBLEWRAP:
        return Start((*_bubblewrap(mounts, cwd), *command))
    return Start(tuple(command), SANDBOXED, (cwd, *(text for one in mounts for text in one)))


def broker_command(
    command: Sequence[str], confinement: Confinement, mounts: Sequence[Mount], protected: Iterable[str], channel: int
) -> tuple[str, ...]:
    """The command line of a broker that runs ``command``; see ``broker.py``."""
    free = (*(path for kind, path in mounts if kind == SCRATCH), _SHARED_MEMORY)
    own = (*protected, *(str(path) for path in (config_folder(os.environ), state_folder(os.environ)) if path))
    broker = (sys.executable, "-I", "-S", _BROKER, str(channel), "1" if confinement.hosts else "0")
    return (*broker, *free, "--", *map(str, confinement.roots), "--", *own, "--", *command)


@cache
def broker_problem() -> str | None:
    """Why names that do not exist yet cannot be protected on this machine; ``None`` if they can.

    Raises:
        ToolError: there is no sandbox at all.
    """
    if mechanism() is Mechanism.SEATBELT:
        return None
    if not syscall_filter.is_supported():
        return f"system calls of {os.uname().machine} are not known"
    if landlock.version() < landlock.MIN_VERSION:
        return "the kernel does not have Landlock, or an old version (Linux 5.19 or newer has what is needed)"
    return probe(_in_namespaces(mechanism(), broker_command(("true",), Confinement(()), (), (), 2), (), "/"))


@cache
def mechanism() -> Mechanism:
    """What provides the sandbox on this machine.

    Raises:
        ToolError: nothing does.
    """
    if sys.platform == "darwin" and Path(_SEATBELT).exists():
        return Mechanism.SEATBELT
    if sys.platform != "linux":
        raise _missing("this system has no sandbox that Deputy supports")
    reasons = [_bubblewrap_problem(), probe(Start(("true",), SANDBOXED, ("/",)))]
    if reasons[0] is None:
        return Mechanism.BUBBLEWRAP
    if reasons[1] is None:
        return Mechanism.NAMESPACES
    raise _missing("; ".join(reason for reason in reasons if reason is not None))


def _missing(reason: str) -> ToolError:
    return ToolError(
        f"The setting shell.sandbox is on, but there is no sandbox on this machine: {reason}. Install bubblewrap "
        "(Linux) or turn the setting off."
    )


def _bubblewrap_problem() -> str | None:
    """Why bubblewrap cannot be used; ``None`` if it can."""
    if shutil.which("bwrap") is None:
        return "bubblewrap (bwrap) is not installed"
    try:
        ran = subprocess.run([*_bubblewrap([], "/"), "true"], capture_output=True, timeout=PROBE_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap fails: {error}"
    return f"bubblewrap fails: {ran.stderr.decode(errors='replace').strip()}" if ran.returncode else None


def _bubblewrap(mounts: Sequence[Mount], cwd: str) -> list[str]:
    """The command line of bubblewrap, up to the command."""
    program = shutil.which("bwrap") or "bwrap"
    arguments = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    if os.geteuid() == 0:
        arguments += ["--ro-bind", _KERNEL, _KERNEL]
    for kind, path in mounts:
        if kind in (SCRATCH, HIDDEN):
            arguments += ["--tmpfs", path]
        else:
            source = "/dev/null" if kind == HIDDEN_FILE else path
            arguments += ["--bind" if kind == WRITABLE else "--ro-bind", source, path]
    for kind, path in mounts:
        if kind == HIDDEN:
            arguments += ["--remount-ro", path]
    separate = ("--unshare-user-try", "--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts")
    return [
        program,
        *arguments,
        *separate,
        *("--unshare-cgroup-try", "--cap-drop", "ALL", "--new-session", "--die-with-parent", "--chdir", cwd, "--"),
    ]
