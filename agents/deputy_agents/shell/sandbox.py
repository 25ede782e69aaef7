"""The optional sandbox for commands: bubblewrap, on Linux."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from deputy_agents.domain.errors import ToolError


def sandboxed(command: Sequence[str], writable: Sequence[Path], cwd: str) -> list[str]:
    """Wrap ``command`` in a sandbox without network, with a private ``/tmp`` and everything except ``writable``
    read-only.

    Raises:
        ToolError: bubblewrap is not installed; the command does not run without the sandbox.
    """
    program = shutil.which("bwrap") if sys.platform == "linux" else None
    if program is None:
        raise ToolError(
            "The setting shell.sandbox is on, but bubblewrap (bwrap) is not installed. Install it (Linux only) or turn "
            "the setting off."
        )
    places = [argument for folder in writable for argument in ("--bind", str(folder), str(folder))]
    return [
        program,
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"),  # noqa: S108 - a private one
        *places,
        *("--unshare-net", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--chdir", cwd, "--"),
        *command,
    ]
