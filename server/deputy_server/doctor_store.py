"""What ``deputy doctor`` finds wrong with the session store."""

import errno
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from deputy_agents.files.paths import state_folder
from deputy_agents.snapshots.repositories import list_repositories, size_of
from deputy_agents.snapshots.roots import FOLDER
from deputy_agents.store.inspection import Finding, inspect
from deputy_agents.store.sqlite import FILE

MIN_FREE = 100 * 1024 * 1024
"""Bytes that should be free on the disk."""
MAX_ENTRIES = 100_000
"""Files in the state folder that are looked at."""

_OTHERS = 0o077


def check_store(environ: Mapping[str, str]) -> tuple[str, list[Finding]]:
    """A sentence about the session store, and what is wrong with it. The sentence is empty if something serious is.
    Creates the state folder, and changes nothing in it. Blocks."""
    folder = state_folder(environ)
    findings = list(_folder_findings(folder))
    if not folder.is_dir():
        return "", findings
    if sys.platform != "win32":
        findings += _permissions(folder)
    inspection = inspect(folder)
    findings += inspection.findings
    serious = [one for one in findings if one.serious]
    if serious:
        return "", serious
    count, size = inspection.sessions or 0, _size(folder / FILE)
    stored = f" {count:,} {'session' if count == 1 else 'sessions'}, {size / 2**20:,.1f} MiB." if count else ""
    snapshots = sum(map(size_of, list_repositories(folder / FOLDER)))
    stored += f" Checkpoints: {snapshots / 2**20:,.1f} MiB." if snapshots else ""
    return f"Sessions are stored in {folder}.{stored}", findings


def _folder_findings(folder: Path) -> Iterator[Finding]:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"deputy")
    except OSError as error:
        full = error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", None))
        action = "Free some space on the disk" if full else "Make the folder writable"
        yield Finding(
            f"Cannot write to {folder}: {error.strerror or error}.",
            f"{action}, or set DEPUTY_STATE to another folder.",
        )
    else:
        free = shutil.disk_usage(folder).free
        if free < MIN_FREE:
            yield Finding(f"Only {free / 2**20:,.1f} MiB are free on the disk of {folder}.", "Free some space.")


def _permissions(folder: Path) -> Iterator[Finding]:
    foreign: list[str] = []
    loose: list[str] = []
    for path, status in _entries(folder):
        if status.st_uid != os.geteuid():
            foreign.append(path)
        elif status.st_mode & _OTHERS and not stat.S_ISLNK(status.st_mode):
            loose.append(path)
    if foreign:
        yield Finding(
            f"{_listed(foreign)} to another user, who could have prepared it, so Deputy uses nothing in {folder}.",
            "Set DEPUTY_STATE to a folder of your own, or change the owner.",
        )
    if loose:
        what = f"{loose[0]}" if len(loose) == 1 else f"{len(loose):,} files, such as {loose[0]},"
        yield Finding(
            f"Others have access to {what} in the state folder.", "Deputy repairs this when it starts.", False
        )


def _listed(paths: list[str]) -> str:
    return f"{paths[0]} belongs" if len(paths) == 1 else f"{len(paths):,} files, such as {paths[0]}, belong"


def _entries(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The folder and what is in it, as far as it can be read."""
    left = [str(folder)]
    try:
        yield str(folder), folder.stat()
    except OSError:
        return
    count = 0
    while left:
        try:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    count += 1
                    if count > MAX_ENTRIES:
                        return
                    yield entry.path, entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
        except OSError:
            continue  # it cannot be read, or has been removed


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
