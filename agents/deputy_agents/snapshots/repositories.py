"""The repositories as files on the disk: what they use, and what of it is still needed."""

import logging
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from anyio import to_thread

from deputy_agents.snapshots.git import Git, SnapshotError, git_binary

logger = logging.getLogger(__name__)

REFS: Final = "refs/deputy"
"""What sessions need: ``refs/deputy/SESSION/NAME``."""
TIPS: Final = "refs/tips"
"""What the index of a process needs: ``refs/tips/PID-ID``."""
LAST: Final = f"{TIPS}/last"
"""What the index needs that the last process has left."""
INDEX: Final = "index"
_GRACE: Final = "2.hours.ago"
"""Objects that are younger may belong to a snapshot that is being taken."""
_LOCK: Final = "compact.lock"
_LOCK_AGE: Final = 3600.0
_MARK: Final = "compacted"
"""Its time is that of the last time that the repository was compacted."""


def list_repositories(folder: Path) -> Sequence[Path]:
    """The repositories in ``folder``. Blocks."""
    try:
        return sorted(path for path in folder.iterdir() if (path / "objects").is_dir())
    except OSError:
        return ()


def size_of(folder: Path) -> int:
    """The bytes of all files in ``folder``. Blocks."""
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(at, name)).st_size  # noqa: PTH118
    return total


async def forget(repository: Path, session_id: str) -> None:
    """Lets go of the snapshots of a session. Their space is freed by :func:`compact`. Never raises."""
    try:
        git = await _git(repository)
        found = await git.run("for-each-ref", "--format=%(refname)", f"{REFS}/{session_id}/")
        if names := found.split():
            await git.run("update-ref", "--stdin", send=b"".join(b"delete %s\n" % name for name in names))
    except SnapshotError as error:
        logger.warning("the snapshots of session %s were not deleted: %s", session_id, error)


async def compact(repository: Path, *, every: float = 0) -> None:
    """Frees the space of what nothing needs any more, and packs the rest, unless another process does, or did in the
    last ``every`` seconds. A repository that no session needs is removed. Never raises."""
    try:
        if not await to_thread.run_sync(_is_due, repository, every) or not await to_thread.run_sync(_lock, repository):
            return
        try:
            git = await _git(repository)
            await to_thread.run_sync(sweep, repository)
            if not await _drop_tips(git):
                await to_thread.run_sync(lambda: shutil.rmtree(repository, ignore_errors=True))
                return
            await git.run("gc", "--quiet", f"--prune={_GRACE}")
            await to_thread.run_sync((repository / _MARK).touch, 0o600)
        finally:
            await to_thread.run_sync(lambda: (repository / _LOCK).unlink(missing_ok=True))
    except (SnapshotError, OSError) as error:
        logger.warning("the repository %s was not compacted: %s", repository, error)


async def _git(repository: Path) -> Git:
    binary = await to_thread.run_sync(git_binary)
    if binary is None:
        raise SnapshotError("git is not installed.")
    return Git(binary, repository, repository, repository / INDEX)


async def _drop_tips(git: Git) -> bool:
    """Drops what the indexes of ended processes needed. Returns whether anything is needed still."""
    names = (await git.run("for-each-ref", "--format=%(refname)")).decode().split()
    tips = [name for name in names if name.startswith(f"{TIPS}/") and name != LAST]
    ended = [name for name in tips if not is_alive(name.removeprefix(f"{TIPS}/"))]
    for name in ended:
        await git.run("update-ref", "-d", name)
    return any(name not in ended and name != LAST for name in names)


def _is_due(repository: Path, every: float) -> bool:
    """Whether the repository was not compacted lately. A new one is due later."""
    if not every:
        return True
    mark = repository / _MARK
    try:
        return time.time() - mark.stat().st_mtime > every
    except FileNotFoundError:
        mark.touch(0o600)
        return False


def _lock(repository: Path) -> bool:
    lock = repository / _LOCK
    with suppress(OSError):
        if time.time() - lock.stat().st_mtime > _LOCK_AGE:
            lock.unlink()
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    return True


def sweep(folder: Path) -> None:
    """Removes what ended processes have left in a repository. Blocks.

    Raises:
        OSError: it cannot be read.
    """
    for path in folder.iterdir():
        is_left = path.name.startswith(f"{INDEX}-") and not is_alive(path.name.removeprefix(f"{INDEX}-"))
        if is_left or path.name.startswith("fast_import_crash_"):
            path.unlink(missing_ok=True)
    for path in (folder / "objects" / "pack").glob("tmp_*"):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - 3600:
                path.unlink()


def is_alive(name: str) -> bool:
    """Whether the process in ``PID-ID`` runs."""
    try:
        os.kill(int(name.partition("-")[0]), 0)
    except (ProcessLookupError, ValueError):
        return False
    except OSError:
        return True  # of another user
    return True
