"""Converts hostile data in processes of their own: a converter may take all time and memory that it gets, and its
libraries may fail in any way. A conversion ends with its call."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
from anyio.lowlevel import RunVar

from deputy_agents.shell.process import GuardedProcess, guarded_program

PARALLEL: Final = 4
"""Conversions at the same time."""

_MAIN: Final = (
    "import sys; from importlib import import_module; sys.path[:0] = sys.argv[2:]; import_module(sys.argv[1]).main()"
)
_slots: RunVar[anyio.Semaphore] = RunVar("conversions")


async def convert(module: str, data: bytes, seconds: float, max_output: int) -> bytes:
    """What ``main`` of ``module`` writes to its standard output for ``data`` on its standard input; empty if it fails
    or writes more than ``max_output`` bytes.

    Raises:
        TimeoutError: it took more than ``seconds``.
    """
    async with _slot():
        with anyio.fail_after(seconds):
            return await _convert(module, data, max_output)


def _slot() -> anyio.Semaphore:
    try:
        return _slots.get()
    except LookupError:
        _slots.set(slots := anyio.Semaphore(PARALLEL))
        return slots


async def _convert(module: str, data: bytes, max_output: int) -> bytes:
    # Without the site module and the environment, Python starts sooner and loads nothing else.
    folders = [folder for folder in sys.path if Path(folder).is_absolute()]
    command = [sys.executable, "-I", "-S", "-c", _MAIN, module, *folders]
    output = b""
    async with guarded_program(command, Path(sys.executable).anchor, {}) as program, anyio.create_task_group() as tasks:
        tasks.start_soon(program.wait)
        tasks.start_soon(_send, program, data)
        output = await _read(program, max_output)
    return output if program.ended is not None and program.ended.code == 0 else b""


async def _send(program: GuardedProcess, data: bytes) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        async with program.input:
            await program.input.send(data)


async def _read(program: GuardedProcess, max_output: int) -> bytes:
    output = bytearray()
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for chunk in program.output:
            output += chunk
            if len(output) > max_output:
                return b""
    return bytes(output)
