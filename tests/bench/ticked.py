"""Runs a module with a timer on its event loop: ``python -m tests.bench.ticked FILE MODULE ARGUMENTS...``.

The file gets two doubles: the longest time between two ticks since it was last set to zeros, in seconds by the clock
and in seconds of this process on a processor. Both count all that keeps the loop from running: callbacks, and threads
that hold the interpreter. The first also counts what other processes take, the second no waiting for the disk.
"""

import asyncio
import mmap
import runpy
import struct
import sys
import time
from pathlib import Path

INTERVAL = 0.001
FORMAT = "2d"


def _watch(path: Path) -> None:
    run_forever = asyncio.base_events.BaseEventLoop.run_forever
    with path.open("r+b") as file:
        shared = mmap.mmap(file.fileno(), struct.calcsize(FORMAT))

    def tick(loop: asyncio.AbstractEventLoop, before: tuple[float, float]) -> None:
        now = _now()
        since = (now[0] - before[0] - INTERVAL, now[1] - before[1])
        shared[:] = struct.pack(FORMAT, *map(max, struct.unpack(FORMAT, shared[:]), since))
        loop.call_later(INTERVAL, tick, loop, _now())

    def watched(loop: asyncio.BaseEventLoop) -> None:
        loop.call_soon(lambda: tick(loop, _now()))
        run_forever(loop)

    asyncio.base_events.BaseEventLoop.run_forever = watched  # type: ignore[method-assign]


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


if __name__ == "__main__":
    _, file, module, *arguments = sys.argv
    _watch(Path(file))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
