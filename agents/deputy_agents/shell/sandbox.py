"""The optional sandbox for commands: without network, and without writing outside the workspace. What provides it
depends on the system; without any of it, the command does not run."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Final

from deputy_agents.domain.errors import ToolError
from deputy_agents.shell.confinement import PROBE_TIMEOUT, Start, probe
from deputy_agents.shell.file_view import Mount, file_view
from deputy_agents.shell.guard import SANDBOXED
from deputy_agents.shell.mount_kinds import HIDDEN, HIDDEN_FILE, READ_ONLY, SCRATCH, WRITABLE

_KERNEL: Final = "/proc/sys"
"""Settings of the kernel, some of which name programs. Root may write them even without any capability."""
_SEATBELT: Final = "/usr/bin/sandbox-exec"
_SEATBELT_BASE: Final = """\
(version 1)
(allow default)
(deny network*)
(deny appleevent-send)
(deny job-creation)
(deny lsopen)
(deny file-write*)
(allow file-write*
  (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (literal "/dev/stdout") (literal "/dev/stderr")
  (regex #"^/dev/fd/[0-9]+$"))
"""


class Mechanism(Enum):
    """What provides the sandbox on this machine."""

    BUBBLEWRAP = "bubblewrap"
    NAMESPACES = "namespaces and Landlock"
    SEATBELT = "sandbox-exec"


def sandboxed(command: Sequence[str], writable: Sequence[Path], cwd: str) -> Start:
    """Wrap ``command``, which may write the folders ``writable`` only, with the working directory ``cwd``. It may block
    for a moment.

    Raises:
        ToolError: this machine has nothing that provides the sandbox; the command does not run without it.
    """
    found, mounts = mechanism(), file_view(writable)
    match found:
        case Mechanism.BUBBLEWRAP:
            return Start((*_bubblewrap(mounts, cwd), *command))
        case Mechanism.NAMESPACES:
            return Start(tuple(command), SANDBOXED, (cwd, *(text for one in mounts for text in one)))
        case Mechanism.SEATBELT:
            return Start((_SEATBELT, "-p", seatbelt_profile(mounts), *command))


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


def seatbelt_profile(mounts: Sequence[Mount]) -> str:
    """The rules for ``sandbox-exec`` of macOS, of which the last that matches counts."""
    allowed = {
        WRITABLE: "(allow file-write* (subpath {0}))",
        SCRATCH: "(allow file-write* (subpath {0}))",  # macOS has no private folders
        READ_ONLY: "(deny file-write* (subpath {0}))",
        HIDDEN: "(deny file-read* file-write* (subpath {0}))",
        HIDDEN_FILE: "(deny file-read* file-write* (literal {0}))",
    }
    return _SEATBELT_BASE + "".join(f"{allowed[kind].format(_quoted(path))}\n" for kind, path in mounts)


def _quoted(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
