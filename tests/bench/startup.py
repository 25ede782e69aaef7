"""Start-up: from the start of the process to the answers to ``initialize`` and to the first request behind it, beside a
server of pygls that can do nothing else."""

import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.rpc import SERVE, running

ROUNDS = 9

_BARE = """
from pygls.lsp.server import LanguageServer
server = LanguageServer("bare", "1")
@server.feature("deputy/session/list")
def sessions(params):
    return {"sessions": []}
server.start_io()
"""

# With an option of the interpreter it starts cold, as users have it, and not from a process that has all loaded.
_CONTENDERS: Mapping[str, Sequence[str]] = {"bare pygls": ("-P", "-c", _BARE), "Deputy": ("-P", *SERVE)}


async def _start(command: Sequence[str], folder: Path) -> tuple[float, float]:
    began = time.perf_counter()
    async with running(command, cwd=folder) as client:
        await client.initialize(folder)
        greeted = time.perf_counter() - began
        await client.request("deputy/session/list", {})
        return greeted, time.perf_counter() - began


async def main() -> None:
    """Measures and prints."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in _CONTENDERS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            for name, command in _CONTENDERS.items():
                taken[name].append(await _start(command, Path(folder)))
    floor, *_ = medians = [[statistics.median(column) for column in zip(*runs, strict=True)] for runs in taken.values()]
    print("start-up, ms                 initialize    first request    times the floor")
    for name, (greeted, answered) in zip(taken, medians, strict=True):
        ratios = f"{greeted / floor[0]:.2f}, {answered / floor[1]:.2f}"
        print(f"  {name:<20} {greeted * 1000:>16.0f} {answered * 1000:>16.0f} {ratios:>18}", flush=True)
