"""Snapshots of a workspace: the first, and the next ones of unchanged and of changed files. The reference is
``git diff`` and ``git add -A`` of the same tree in the same run."""

import asyncio
import os
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from deputy_agents.snapshots.object_store import ObjectStore

FOLDERS, FILES = 2500, 20
ROUNDS = 7


def _git(folder: Path, *arguments: str) -> float:
    """The milliseconds that a command of Git takes in the tree, which is a repository of its own."""
    environ = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    start = time.perf_counter()
    subprocess.run(["git", "-C", str(folder), *arguments], env=environ, check=True, capture_output=True)
    return (time.perf_counter() - start) * 1000


def _make(folder: Path) -> None:
    for number in range(FOLDERS):
        below = folder / f"package_{number % 50}" / f"part_{number}"
        below.mkdir(parents=True)
        for name in range(FILES):
            (below / f"module_{name}.py").write_text(f"value_{number} = {name}\n" * 20)


async def _taken(store: ObjectStore) -> float:
    start = time.perf_counter()
    await store.take("session")
    return (time.perf_counter() - start) * 1000


async def main() -> None:
    print(f"\nsnapshots of {FOLDERS * FILES:,} files")
    with tempfile.TemporaryDirectory() as name:
        tree = Path(os.path.realpath(name)) / "tree"  # noqa: ASYNC240 - nothing else runs
        await asyncio.to_thread(_make, tree)
        store = ObjectStore("git", Path(name) / "snapshots", tree)
        await store.open()
        first = await _taken(store)
        added = await asyncio.to_thread(lambda: _git(tree, "init", "-q") + _git(tree, "add", "-A"))
        unchanged, status, changed = list[float](), list[float](), list[float]()
        for number in range(ROUNDS):
            unchanged.append(await _taken(store))
            status.append(await asyncio.to_thread(_git, tree, "diff", "--stat"))
            (tree / "package_0" / "part_0" / "module_0.py").write_text(f"value = {number}\n")
            changed.append(await _taken(store))
        await store.close()
    reference = median(status)
    print(f"  first      {first:8.0f} ms, {first / added:5.2f} of git add -A ({added:.0f} ms)")
    print(f"  git diff   {reference:8.0f} ms")
    for what, times in (("unchanged", unchanged), ("one change", changed)):
        print(f"  {what:10} {median(times):8.0f} ms, {median(times) / reference:5.2f} of git diff")


if __name__ == "__main__":
    asyncio.run(main())
