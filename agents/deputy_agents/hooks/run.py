"""Runs one hook: a line of bash under a guard, told by JSON on its input what happens."""

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio import to_thread

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.hook import Hook
from deputy_agents.shell.output import Output
from deputy_agents.shell.process import Guarded, served
from deputy_agents.text import clean, cut, visible

logger = logging.getLogger(__name__)

OUTPUT = 4096
"""Bytes of each end of what a hook prints that are kept."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """``code`` is that of the command; ``None`` when it had no time to end, or could not be started. ``said`` is what
    it printed, or why it has none."""

    hook: Hook
    code: int | None
    said: str

    @property
    def name(self) -> str:
        """The hook as people and models read of it."""
        return f"`{cut(visible(self.hook.command), 80)}`"


async def run(
    hook: Hook, told: Mapping[str, object], cwd: Path, file: Path | None, variables: Sequence[str]
) -> Outcome:
    """Runs ``hook`` in ``cwd``; ``file`` is what the call is about, ``variables`` are names of the environment that it
    gets beside the usual ones. Bounded by the hook's time; raises nothing."""
    env = {"DEPUTY_HOOK": hook.when.value, "DEPUTY_FILE": str(file or "")}
    try:
        bash = await to_thread.run_sync(shutil.which, "bash")
        if bash is None:
            raise ToolError("there is no bash on the PATH of the server")
        with anyio.move_on_after(hook.timeout):
            command = [bash, "--noprofile", "--norc", "-c", hook.command]
            async with served(command, str(cwd), env, variables) as program:
                said = await _spoken_with(program, json.dumps(told).encode() + b"\n")
                return Outcome(hook, program.ended.code if program.ended else None, said)
    except (ToolError, OSError) as error:
        logger.warning("a hook could not be run: %s", error)
        return Outcome(hook, None, str(error))
    return Outcome(hook, None, f"it took more than {hook.timeout:g} s, and was ended")


async def _spoken_with(program: Guarded, told: bytes) -> str:
    """Everything that the program printed, to its end."""
    output = Output(OUTPUT)

    async def tell() -> None:
        try:
            await program.input.send(told)
            await program.input.aclose()
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # it does not want to know

    async def hear() -> None:
        async for chunk in program.output:
            output.add(chunk)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tell)
        tasks.start_soon(hear)
        await program.wait()
    return "\n".join(filter(None, (output.text().strip(), clean(program.errors).strip())))
