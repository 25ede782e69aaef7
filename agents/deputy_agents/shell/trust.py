"""Whether the sandbox of this machine holds what commands that nobody approves rely on. It is tried out."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Final

from deputy_agents.domain.errors import ToolError
from deputy_agents.shell.confinement import Confinement, run_guarded
from deputy_agents.shell.environment import environment
from deputy_agents.shell.sandbox import sandboxed

_TIMEOUT: Final = 30.0
_SECRET: Final = "a-secret-of-the-trial"
_TRIAL: Final = """
mkdir -p new/.git/hooks; echo x > new/.git/hooks/pre-commit; echo x > AGENTS.md; echo x >> settings/.vscode/tasks.json
mkdir -p moved/workflows && echo x > moved/workflows/x.yml && mv moved .github
ln -s .envrc link; echo x > link; echo x > named; ln named CLAUDE.md; mv settings other
ln settings/.vscode/tasks.json same; echo x >> same; rm -rf settings/.vscode
cat .env deep/.env; mv deep shallow; cat shallow/.env; ln .env plain; cat plain
echo x > {outside}; echo x > /dev/tcp/127.0.0.1/{port}
echo x > inside && mkdir folder && mv inside folder/inside && echo ran
"""


@cache
def trust_problem() -> str | None:
    """Why commands cannot run in the sandbox in place of being approved; ``None`` if they can. Blocks, the first time
    for about a second."""
    try:
        broken = broken_promises()
    except (ToolError, OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "; ".join(broken) or None


def broken_promises() -> Sequence[str]:
    """What a confined command can do although it must not. Blocks.

    Raises:
        ToolError: there is no sandbox, or not all of it.
        OSError: it cannot be tried.
        TimeoutExpired: the command does not end.
    """
    with (
        tempfile.TemporaryDirectory(prefix="deputy-trial-") as folder,
        closing(socket.create_server(("127.0.0.1", 0))) as listening,
    ):
        root, outside = Path(folder).resolve() / "workspace", Path(folder).resolve() / "outside"
        tasks = root / "settings" / ".vscode" / "tasks.json"
        tasks.parent.mkdir(parents=True)
        tasks.write_text("{}")
        (root / "deep").mkdir()
        for name in (".env", "deep/.env"):
            (root / name).write_text(_SECRET)
        output = _run(_TRIAL.format(outside=outside, port=listening.getsockname()[1]), root)
        names = ("new/.git", "AGENTS.md", ".github/workflows", ".envrc", "CLAUDE.md", "other")
        broken = {
            f"a command does not run in it ({output.strip()[-200:]})": not output.rstrip().endswith("ran"),
            "a command created a protected file": any(map(os.path.lexists, (root / name for name in names))),
            "a command changed a protected file": not tasks.exists() or tasks.read_text() != "{}",
            "a command read a secret": _SECRET in output,
            "a command wrote outside the workspace": outside.exists(),
            "a command reached the network": _was_reached(listening),
        }
        return [promise for promise, is_broken in broken.items() if is_broken]


def _run(text: str, root: Path) -> str:
    """The output of a confined line of bash."""
    bash = shutil.which("bash")
    if bash is None:
        raise ToolError("bash is not on the PATH")
    channel = os.open(os.devnull, os.O_WRONLY)
    try:
        command = (bash, "--noprofile", "--norc", "-c", text)
        start = sandboxed(command, Confinement((root,), private=True), str(root), channel)
        return run_guarded(start, _TIMEOUT, str(root), environment((), str(root), "trial"), channel)[1]
    finally:
        os.close(channel)


def _was_reached(listening: socket.socket) -> bool:
    listening.setblocking(False)
    try:
        listening.accept()[0].close()
    except BlockingIOError:
        return False
    return True
