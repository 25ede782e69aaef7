"""The optional sandbox of commands: bubblewrap, on Linux."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from deputy_agents.domain.errors import ToolError


def boxed(command: Sequence[str], writable: Sequence[Path], cwd: str) -> list[str]:
    """``command`` without network and with everything but ``writable`` read-only; ``/tmp`` is its own.

    Raises:
        ToolError: there is no bubblewrap. A command that was to be confined never runs unconfined.
    """
    program = shutil.which("bwrap") if sys.platform == "linux" else None
    if program is None:
        raise ToolError(
            "The setting shell.sandbox is on, and bubblewrap (bwrap) is not there: install it, which works on Linux "
            "alone, or turn the setting off."
        )
    places = [argument for folder in writable for argument in ("--bind", str(folder), str(folder))]
    return [
        program,
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"),  # noqa: S108 - a new one
        *places,
        *("--unshare-net", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--chdir", cwd, "--"),
        *command,
    ]
