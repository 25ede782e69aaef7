"""Runs one hook: a line of bash under a guard, with a description of the event as JSON on its input."""

import json
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio import to_thread

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.hook import Hook
from deputy_agents.domain.settings import ShellSettings
from deputy_agents.hooks.answer import Answer, failed, read_answer
from deputy_agents.redact import Redactor
from deputy_agents.shell.output import BoundedOutput
from deputy_agents.shell.process import GuardedProcess, guarded_program
from deputy_agents.text import clean, cut, visible

logger = logging.getLogger(__name__)

OUTPUT = 32 * 1024
"""Bytes that are kept of the start, and of the end, of the output of a hook."""


@dataclass(frozen=True, slots=True)
class HookResult:
    """The result of a hook, whose answer contains no secrets of the environment."""

    hook: Hook
    answer: Answer

    @property
    def name(self) -> str:
        """The display name of the hook."""
        return f"`{cut(visible(self.hook.command), 80)}`"

    @property
    def sentence(self) -> str:
        """``The hook `make` failed: no rule``; empty if it did not."""
        return "" if self.answer.failure is None else f"the hook {self.name} failed: {self.answer.failure}"


@dataclass(frozen=True, slots=True)
class HookPlace:
    """Where a hook runs: in ``cwd``, of the project ``root``. ``file`` is the file of the tool call. ``shell`` has
    names of environment variables that it gets in addition to the usual ones."""

    cwd: Path
    root: Path
    file: Path | None
    shell: ShellSettings


async def run(hook: Hook, fields: Mapping[str, object], place: HookPlace) -> HookResult:
    """Run ``hook`` with ``fields`` as JSON on its input. The timeout of the hook limits the run. Raises nothing."""
    env = {
        "DEPUTY_HOOK": hook.when.value,
        "DEPUTY_FILE": str(place.file or ""),
        "DEPUTY_PROJECT_DIR": str(place.root),
        "CLAUDE_PROJECT_DIR": str(place.root),
    }
    shell = place.shell
    try:
        bash = await to_thread.run_sync(shutil.which, "bash")
        if bash is None:
            raise ToolError("bash is not on the PATH of the server")
        with anyio.move_on_after(hook.timeout):
            command = [bash, "--noprofile", "--norc", "-c", hook.command]
            async with guarded_program(command, str(place.cwd), env, shell.env, isolated=shell.isolated) as program:
                output = await _run_with_input(program, json.dumps(fields).encode() + b"\n")
                return HookResult(hook, _answer(hook, program, output))
    except (ToolError, OSError) as error:
        logger.warning("a hook could not be started: %s", error)
        return HookResult(hook, failed(hook, str(error)))
    return HookResult(hook, failed(hook, f"it ran longer than {hook.timeout:g} s and was stopped"))


def _answer(hook: Hook, program: GuardedProcess, output: str) -> Answer:
    if program.ended is None:
        return failed(hook, "it did not run")
    redact = Redactor(os.environ).text
    return read_answer(hook, program.ended.code, redact(output), redact(clean(program.errors)))


async def _run_with_input(program: GuardedProcess, data: bytes) -> str:
    """Send ``data`` to the program, wait for its end, and return its output."""
    output = BoundedOutput(OUTPUT)

    async def send() -> None:
        try:
            await program.input.send(data)
            await program.input.aclose()
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # the program does not read its input

    async def receive() -> None:
        async for chunk in program.output:
            output.add(chunk)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        tasks.start_soon(receive)
        await program.wait()
    return output.text()
