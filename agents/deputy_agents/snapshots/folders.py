"""Which files of a folder tree belong to a snapshot. Blocks; call it in a worker thread.

A folder whose times have not changed since it was listed has the same entries, so only folders are looked at again.
"""

import os
import stat
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deputy_agents.files.ignore import IgnoreRules
from deputy_agents.files.leftovers import is_spare
from deputy_agents.files.sensitive import is_secret
from deputy_agents.snapshots.git import SnapshotError

MAX_FILES: Final = 200_000
"""Files of a tree that snapshots cover. Of a larger tree there is none."""

_RACY: Final = 2_000_000_000
"""Nanoseconds: a folder that changed so recently may change again without a new time on some file systems."""
GITIGNORE: Final = ".gitignore"


@dataclass(slots=True)
class _Folder:
    """A folder as it was listed: its times and inode, and the names in it that belong to snapshots."""

    key: tuple[int, int, int]
    files: tuple[str, ...]
    folders: tuple[str, ...]


@dataclass(slots=True)
class Listing:
    """What a look at the tree found. Paths are relative to the root, with forward slashes."""

    new: dict[str, int] = field(default_factory=dict[str, int])
    """Files that were not there at the last look, and when each appeared at the latest: the change time of the file,
    or of a new folder around it, in nanoseconds since the epoch."""
    secret: set[str] = field(default_factory=set[str])
    """Files that are left out because they may hold secrets."""


class Folders:
    """The tree below ``root``, without ``.git`` of any repository, what a ``.gitignore`` excludes, files that may hold
    secrets, and the folders ``without``."""

    def __init__(self, root: Path, without: Iterable[Path] = ()) -> None:
        self._root = root
        self._without = {str(folder) for folder in without}
        self._known: dict[str, _Folder] = {}
        self._files = 0

    def look(self, tracked: Collection[str], stale: Iterable[str] = ()) -> Listing:
        """List what is new. Files that are ``tracked`` stay, also where they are ignored now. ``stale`` are files that
        have changed: below a changed ``.gitignore`` everything is listed again.

        Raises:
            SnapshotError: there are too many files.
        """
        for path in stale:
            above, _, name = path.rpartition("/")
            if name == GITIGNORE:
                self._forget(above)
        listing = Listing()
        self._files = 0
        self._visit("", IgnoreRules(self._root), tracked, listing, 0)
        return listing

    def _forget(self, folder: str) -> None:
        for path in [path for path in self._known if not folder or path == folder or path.startswith(f"{folder}/")]:
            del self._known[path]

    def _visit(self, path: str, rules: IgnoreRules, tracked: Collection[str], listing: Listing, appeared: int) -> None:
        """Visit a folder; it ``appeared`` at that time if it is new."""
        full = f"{self._root}/{path}" if path else str(self._root)
        try:
            found = os.lstat(full)
        except OSError:
            self._known.pop(path, None)
            return
        if not stat.S_ISDIR(found.st_mode) or full in self._without:
            self._known.pop(path, None)
            return
        known = self._known.get(path)
        key = (found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
        if known is None or known.key != key:
            if path and known is None:
                appeared = max(appeared, found.st_ctime_ns)
            known = self._list(path, full, rules, tracked, listing, appeared)
            racy = max(found.st_mtime_ns, found.st_ctime_ns) + _RACY > time.time_ns()
            known.key = (0, 0, 0) if racy else key
            self._known[path] = known
        elif GITIGNORE in known.files:
            rules.read()
        self._files += len(known.files)
        if self._files > MAX_FILES:
            raise SnapshotError(f"The workspace has more than {MAX_FILES:,} files.")
        for name in known.folders:
            self._visit(f"{path}/{name}" if path else name, rules.below(name), tracked, listing, appeared)

    def _list(
        self,
        path: str,
        full: str,
        rules: IgnoreRules,
        tracked: Collection[str],
        listing: Listing,
        appeared: int,
    ) -> _Folder:
        try:
            with os.scandir(full) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            return _Folder((0, 0, 0), (), ())
        if any(entry.name == GITIGNORE for entry in entries):
            rules.read()
        folders = tuple(
            entry.name
            for entry in entries
            if entry.is_dir(follow_symlinks=False)
            and entry.name.lower() != ".git"
            and not rules.ignores(entry.name, is_folder=True)
        )
        files: list[str] = []
        for entry in entries:
            below = f"{path}/{entry.name}" if path else entry.name
            if below in tracked:
                files.append(entry.name)
            elif self._belongs(entry, below, rules, listing):
                files.append(entry.name)
                changed = entry.stat(follow_symlinks=False).st_ctime_ns
                listing.new[below] = max(changed, appeared)
        return _Folder((0, 0, 0), tuple(files), folders)

    def _belongs(self, entry: "os.DirEntry[str]", path: str, rules: IgnoreRules, listing: Listing) -> bool:
        link = entry.is_symlink()
        if not link and not entry.is_file(follow_symlinks=False):
            return False
        if entry.name.lower() == ".git" or is_spare(entry.name) or (link and entry.name.lower() == ".gitmodules"):
            return False
        if rules.ignores(entry.name, is_folder=False):
            return False
        if is_secret(path):
            listing.secret.add(path)
            return False
        return True
