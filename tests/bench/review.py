"""Reviews: listing, keeping and undoing hunks, and those of a long file. The reference is ``git diff --stat`` of the
same tree in the same run."""

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

from deputy_agents.clock import SystemClock
from deputy_agents.domain.file_change import FileChange
from deputy_agents.domain.ids import new_id
from deputy_agents.events.event_log import EventLog
from deputy_agents.events.view import View
from deputy_agents.files.workspace import Workspace
from deputy_agents.session.change_tracker import ChangeTracker
from deputy_agents.session.review import Review, Selection
from deputy_agents.store.sqlite import SqliteStore
from deputy_protocol.base import to_json_in_steps
from deputy_server.convert.review import files_to_wire
from tests.support.stored_sessions import record

FILES, HUNKS = 200, 10
"""Changed files, and hunks in each."""
LONG_LINES, LONG_HUNKS = 5000, 100
ROUNDS = 15


def _text(lines: int) -> list[str]:
    return [f"    value_{number} = compute({number % 17}, 'text {number}')\n" for number in range(lines)]


def _changed(lines: list[str], hunks: int) -> str:
    step = len(lines) // hunks
    return "".join(f"# {line}" if number % step == 3 else line for number, line in enumerate(lines))


def _git(folder: Path, *arguments: str) -> None:
    command = ("git", "-c", "user.name=n", "-c", "user.email=e@e", "-C", str(folder), *arguments)
    subprocess.run(command, check=True, capture_output=True)


async def _measured(what: Callable[[], Awaitable[object]]) -> float:
    """The median of the milliseconds that ``what`` takes."""
    times: list[float] = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        await what()
        times.append(time.perf_counter() - start)
    return median(times) * 1000


async def main() -> None:
    print(
        f"\nreview of {FILES} files with {FILES * HUNKS} hunks; a long file has {LONG_LINES} lines, {LONG_HUNKS} hunks"
    )
    with tempfile.TemporaryDirectory() as state, tempfile.TemporaryDirectory() as name:
        folder = Path(os.path.realpath(name))  # noqa: ASYNC240 - nothing else runs
        texts = {folder / f"file_{number}.py": (_text(200), HUNKS) for number in range(FILES)}
        texts[folder / "z_long.py"] = (_text(LONG_LINES), LONG_HUNKS)
        for path, (lines, _) in texts.items():
            path.write_text("".join(lines))
        _git(folder, "init", "-q")
        _git(folder, "add", ".")
        _git(folder, "commit", "-qm", "start")
        store = await asyncio.to_thread(SqliteStore.open, Path(state))
        await store.create(record())
        log = EventLog("s", store, SystemClock(), View())
        async with asyncio.TaskGroup() as tasks:
            writer = tasks.create_task(log.run())
            changes = ChangeTracker(log)
            made: list[FileChange] = []
            for path, (lines, hunks) in texts.items():
                before, after = "".join(lines), _changed(lines, hunks)
                made.append(FileChange(new_id(), "agent", 1, "call", str(path), before, after, 1.0))
                path.write_text(after)
            await changes.record(made)
            await _report(folder, Review(Workspace([folder]), log, changes, lambda _: None))
            writer.cancel()
        await store.close()


async def _report(folder: Path, review: Review) -> None:
    async def listed() -> bytes:
        files, notes = await review.unreviewed_files()
        return to_json_in_steps(files_to_wire(files, notes, review.changes.label))

    async def long_file() -> object:
        files, _ = await review.unreviewed_files(str(folder / "z_long.py"))
        return [(hunk.start, files[0].changes(hunk)) for hunk in files[0].hunks]

    files, _ = await review.unreviewed_files()
    hunks = iter([hunk.hunk_id for one in files for hunk in one.hunks])

    async def one(act: Callable[[Selection], Awaitable[object]]) -> None:
        await act(Selection(hunk_ids=(next(hunks),)))

    reference = await _measured(lambda: asyncio.to_thread(_git, folder, "diff", "--stat"))
    print(f"  git diff --stat                 {reference:8.1f} ms")
    for name, milliseconds in (
        ("list everything as JSON", await _measured(listed)),
        ("hunks of the long file", await _measured(long_file)),
        ("keep one hunk", await _measured(lambda: one(review.keep))),
        ("undo one hunk", await _measured(lambda: one(review.undo))),
    ):
        print(f"  {name:<31} {milliseconds:8.1f} ms  {milliseconds / reference:6.2f} of git")
