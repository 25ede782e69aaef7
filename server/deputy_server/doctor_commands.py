"""Checks of ``deputy doctor`` about running commands: each runs one and looks at what it could do."""

import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from deputy_agents.domain.errors import ToolError
from deputy_agents.shell.confinement import isolation_problem
from deputy_agents.shell.process import Launch, guarded_command
from deputy_agents.shell.sandbox import mechanism

_TIMEOUT: Final = 20.0
_KEYS: Final = (
    "Commands can read the environment of your editor. Use the setting `api.keyCommand` or `api.keyring`, so that it "
    "has no key."
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found. ``action`` is what to do."""

    ok: bool
    message: str
    action: str = ""


async def check_isolation(*, wanted: bool) -> Finding:
    """Whether commands are kept apart from other processes, if it is ``wanted``."""
    if not wanted:
        return Finding(True, "Commands are not isolated, because the setting `shell.isolation` is off.", _KEYS)
    try:
        problem = await anyio.to_thread.run_sync(isolation_problem)
        if problem is not None:
            return Finding(True, f"Commands run, but are not isolated: {problem}.", _isolation_action())
        output = await _output(f"test -e /proc/{os.getpid()} && echo visible; echo ran", "/")
    except (ToolError, OSError, TimeoutError) as error:
        return Finding(False, f"Commands do not run: {error or 'timeout'}", "Install bash, or use Linux or macOS.")
    if output != "ran":
        return Finding(False, f"The isolation of commands does not work: {output}", _KEYS)
    return Finding(True, "Commands are isolated: they cannot see other processes.")


def _isolation_action() -> str:
    if sys.platform != "linux":
        return _KEYS
    return (
        f"{_KEYS} Or allow user namespaces: see `kernel.apparmor_restrict_unprivileged_userns` (Ubuntu), "
        "`user.max_user_namespaces`, or the seccomp profile of your container."
    )


async def check_sandbox(*, wanted: bool) -> Finding:
    """What provides the sandbox, and whether it holds. It fails only if the sandbox is ``wanted``."""
    try:
        found = await anyio.to_thread.run_sync(mechanism)
        broken = await _broken_promises()
    except ToolError as error:
        return Finding(not wanted, f"There is no sandbox: {error}" if wanted else _no_sandbox(error))
    except (OSError, TimeoutError) as error:
        return Finding(not wanted, f"The sandbox does not run: {error or 'timeout'}")
    state = "on" if wanted else "off (setting `shell.sandbox`)"
    if broken:
        return Finding(False, f"The sandbox ({found.value}) does not hold: {', '.join(broken)}.", "Do not rely on it.")
    return Finding(True, f"Works with {found.value}: no network, no writing outside the workspace. It is {state}.")


def _no_sandbox(error: ToolError) -> str:
    reason = str(error).partition("on this machine: ")[2].partition(". Install")[0]
    return f"Not available, and off: {reason}."


async def _broken_promises() -> Sequence[str]:
    """What a sandboxed command could do although it must not."""
    async with anyio.TemporaryDirectory(prefix="deputy-doctor-") as folder:
        root, outside = await anyio.Path(folder, "workspace").resolve(), anyio.Path(folder, "outside")
        await root.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
            text = f"echo x > {outside}; echo x >/dev/tcp/127.0.0.1/{port}; echo x > inside && echo ran"
            output = await _output(f"{{ {text}; }} 2>/dev/null", str(root), sandbox=True)
            was_reached = _was_reached(listening)
        broken = {
            "a command does not run in it": output != "ran" or not await (root / "inside").exists(),
            "a command wrote outside the workspace": await outside.exists(),
            "a command reached the network": was_reached,
        }
        return [promise for promise, is_broken in broken.items() if is_broken]


def _was_reached(listening: socket.socket) -> bool:
    listening.setblocking(False)
    try:
        listening.accept()[0].close()
    except BlockingIOError:
        return False
    return True


async def _output(text: str, folder: str, *, sandbox: bool = False) -> str:
    launch = Launch(text, folder, folder, writable=(Path(folder),) if sandbox else None)
    with anyio.fail_after(_TIMEOUT):
        async with guarded_command(launch) as command:
            chunks = [chunk async for chunk in command.output]
            await command.wait()
    return b"".join(chunks).decode(errors="replace").strip()
