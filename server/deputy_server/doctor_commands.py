"""Checks of ``deputy doctor`` about running commands: each runs one and looks at what it could do."""

import os
import sys
from dataclasses import dataclass
from subprocess import TimeoutExpired
from typing import Final

import anyio
import anyio.to_thread

from deputy_agents.domain.errors import ToolError
from deputy_agents.shell.confinement import isolation_problem
from deputy_agents.shell.process import Launch, guarded_command
from deputy_agents.shell.sandbox import broker_problem, mechanism
from deputy_agents.shell.trust import broken_promises

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


async def check_sandbox(*, wanted: bool, auto_approved: bool) -> Finding:
    """What provides the sandbox, whether it holds, and whether commands can run in it in place of being approved. It
    fails only if what is ``wanted`` or ``auto_approved`` does not hold."""
    needed = wanted or auto_approved
    try:
        found = await anyio.to_thread.run_sync(mechanism)
        problem = await anyio.to_thread.run_sync(broker_problem)
        broken = await anyio.to_thread.run_sync(broken_promises) if problem is None else ()
    except ToolError as error:
        return Finding(not needed, f"There is no sandbox: {error}" if needed else _no_sandbox(error))
    except (OSError, TimeoutExpired) as error:
        return Finding(not needed, f"The sandbox does not run: {error}")
    state = f"It is {_state(wanted)} (`shell.sandbox`), automatic approval is {_state(auto_approved)}."
    if problem is not None:
        message = (
            f"Works with {found.value}: no network, no writing outside the workspace. {state} Commands cannot run in "
            f"it in place of being approved, because new protected files could be created: {problem}."
        )
        return Finding(not auto_approved, message, "Commands ask as before." if auto_approved else "")
    if broken:
        return Finding(False, f"The sandbox ({found.value}) does not hold: {', '.join(broken)}.", "Do not rely on it.")
    promises = "no network, no change of protected files or outside the workspace, no secrets"
    return Finding(True, f"Works with {found.value}: {promises}. {state}")


def _state(on: bool) -> str:
    return "on" if on else "off"


def _no_sandbox(error: ToolError) -> str:
    reason = str(error).partition("on this machine: ")[2].partition(". Install")[0]
    return f"Not available, and off: {reason}."


async def _output(text: str, folder: str) -> str:
    launch = Launch(text, folder, folder)
    with anyio.fail_after(_TIMEOUT):
        async with guarded_command(launch) as command:
            chunks = [chunk async for chunk in command.output]
            await command.wait()
    return b"".join(chunks).decode(errors="replace").strip()
