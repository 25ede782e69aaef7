"""Snapshots of one folder tree.

Git's index is the cache of what is known of each file, and Git compares it with the disk. What has changed is read
here, through open folders, so that no link leads to a file outside the tree; Git only stores what it is given.
"""

import json
import logging
import os
import stat
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import Path
from typing import Final, cast

import anyio
from anyio import to_thread

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.ids import new_id
from deputy_agents.files.disk import Folder, TooLarge, explain_os_errors, open_folder
from deputy_agents.files.exact import FileState, state_in
from deputy_agents.snapshots.folders import GITIGNORE, Folders, Listing
from deputy_agents.snapshots.git import Git, SnapshotError, init, single
from deputy_agents.snapshots.repositories import INDEX, LAST, REFS, TIPS, sweep

logger = logging.getLogger(__name__)

_MAX_TOTAL: Final = 4 * 1024**3
"""Bytes that one snapshot may add."""
_BATCH: Final = 4 * 1024 * 1024
_STALE: Final = 200
"""Files with times that Git does not know, above which it compares them once more."""
_NO_MODES: Final[Mapping[str, int]] = {}
_SLACK: Final = 2_000_000_000
"""Nanoseconds by which the clocks of a file system and of the system may differ."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A file or link as the store has it. ``mode`` is that of the operating system; ``oid`` names the content."""

    mode: int
    oid: str

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)


@dataclass(frozen=True, slots=True)
class Changed:
    """A file that differs from the snapshot before; ``None`` means that it does not exist. ``path`` is relative to the
    root."""

    path: str
    before: Blob | None
    after: Blob | None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Files that no snapshot contains: they may hold secrets, are too large, or cannot be read."""

    secret: int = 0
    large: int = 0
    unreadable: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The tree with all files, and what has ``changed`` since the snapshot before: nothing for the first one of a
    process."""

    tree: str
    changed: tuple[Changed, ...]
    left_out: LeftOut


@dataclass(slots=True)
class _Read:
    """Files as they were read: those that exist with their content's name, the others with ``None``. ``left`` are the
    paths that are still to be read."""

    root: Path
    left: Iterator[str]
    found: dict[str, Blob | None] = field(default_factory=dict[str, "Blob | None"])
    total: int = 0
    folder: Folder | None = None
    """The folder of the last file, open: files of one folder follow each other."""
    parent: str = ""

    def state(self, path: str) -> FileState | None:
        """The file or link now; ``None`` if there is none.

        Raises:
            ToolError: it cannot be read.
        """
        parent, _, name = path.rpartition("/")
        try:
            if self.folder is None or self.parent != parent:
                self.close()
                self.folder = open_folder(self.root, parent.split("/") if parent else ())
                self.parent = parent
            with explain_os_errors(self.root / path):
                return state_in(self.folder, name)
        except ToolError as error:
            if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
                return None
            raise

    def close(self) -> None:
        if self.folder is not None:
            self.folder.close()
            self.folder = None


@dataclass(slots=True)
class _Excluded:
    """Files that snapshots do not contain. ``dropped`` are those of the last snapshot that have become too large."""

    secret: set[str] = field(default_factory=set[str])
    unreadable: set[str] = field(default_factory=set[str])
    dropped: set[str] = field(default_factory=set[str])
    large: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """With size and change time."""


class ObjectStore:
    """The snapshots of the tree below ``root``, which has no links, in the repository ``folder``. Another process may
    use the repository too."""

    def __init__(self, binary: str, folder: Path, root: Path, without: Iterable[Path] = ()) -> None:
        self.root = root
        self.folder = folder
        self._name = f"{os.getpid()}-{new_id()}"
        self._index = folder / f"{INDEX}-{self._name}"
        self._git = Git(binary, folder, root, self._index)
        self._folders = Folders(root, without)
        self._tracked: dict[str, Blob] = {}
        """Every file of the last snapshot."""
        self._excluded = _Excluded()
        self._tree: str | None = None
        self._looked_at = 0
        self._reliable = True
        self._pinned: set[tuple[str, str]] = set()
        self._lock = anyio.Lock()

    async def open(self) -> None:
        """Prepares the repository, and continues from the last snapshot of an earlier process.

        Raises:
            SnapshotError: it cannot be used.
        """
        try:
            known = await to_thread.run_sync(self._prepare)
        except OSError as error:
            raise SnapshotError(f"The folder for checkpoints cannot be used: {error.strerror}.") from error
        if known is None:
            return
        try:
            await self._load(known)
        except SnapshotError as error:
            logger.warning("the earlier snapshots of %s are not used: %s", self.root, error)
            await to_thread.run_sync(lambda: self._index.unlink(missing_ok=True))

    async def take(self, session_id: str) -> Snapshot:
        """Takes a snapshot, which is kept as long as the session.

        Raises:
            SnapshotError: it cannot be taken. The one before is still there.
        """
        async with self._lock:
            if not self._reliable:
                await self._load(_NO_MODES)
            started, first = time.time_ns(), self._looked_at == 0
            stale, listing = await self._look()
            candidates = {*stale, *listing.new, *(await to_thread.run_sync(self._changed_large))}
            self._excluded.dropped = set[str]()
            stored = await self._store(sorted(candidates))
            if self._tree is None or stored:
                self._tree = await self._write_tree()
            await self._pin(session_id, self._tree)
            since, self._looked_at = self._looked_at, started
            changed = () if first else tuple(self._changes(stored, listing, since))
            excluded = self._excluded
            left_out = LeftOut(len(excluded.secret), len(excluded.large), len(excluded.unreadable))
            return Snapshot(self._tree, changed, left_out)

    async def read(self, oids: Iterable[str]) -> Mapping[str, bytes]:
        """The contents of blobs. Those that are not there are left out.

        Raises:
            SnapshotError: the repository cannot be read.
        """
        wanted = "".join(f"{oid}\n" for oid in dict.fromkeys(oids))
        if not wanted:
            return {}
        return _contents(await self._git.run("cat-file", "--batch", send=wanted.encode()))

    async def add(self, session_id: str, data: bytes) -> str:
        """Stores a content that no snapshot has, and returns its name. It is kept as long as the session.

        Raises:
            SnapshotError: it cannot be stored.
        """
        oid = (await self._git.run("hash-object", "-w", "--no-filters", "--stdin", send=data or b"")).decode().strip()
        await self._git.run("update-ref", f"{REFS}/{session_id}/{oid}", oid)
        return oid

    async def files(self, tree: str) -> Mapping[str, Blob]:
        """Every file of a snapshot, with the modes that Git knows."""
        return await to_thread.run_sync(_tracked, await self._git.run("ls-tree", "-r", "-z", tree), _NO_MODES)

    async def close(self) -> None:
        """Leaves the index to the next process."""
        if self._tree is None:
            return
        with suppress(OSError, SnapshotError):
            lines = f"update {LAST} {self._tree}\ndelete {TIPS}/{self._name}\n"
            await self._git.run("update-ref", "--stdin", send=lines.encode())
            await to_thread.run_sync(self._leave)

    # -- inside ----------------------------------------------------------------------------------------------------

    async def _look(self) -> tuple[list[str], Listing]:
        """The files that seem to have changed, and the new ones."""
        stale: list[str] = []
        listing = Listing()

        async def compare() -> None:
            if self._tracked:
                found = await self._git.run("diff-files", "--name-only", "-z", "--ignore-submodules=all")
                stale.extend(os.fsdecode(name) for name in found.split(b"\0") if name)

        async def look(changed: Sequence[str] = ()) -> None:
            found = await to_thread.run_sync(self._folders.look, self._tracked.keys(), changed)
            listing.new |= found.new
            self._excluded.secret |= found.secret

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(compare)
                tasks.start_soon(look)
        except ExceptionGroup as errors:
            raise single(errors) from None
        if any(path.rpartition("/")[2] == GITIGNORE for path in stale):
            await look(stale)
        return stale, listing

    def _changes(
        self, stored: Mapping[str, tuple[Blob | None, Blob | None]], listing: Listing, since: int
    ) -> Iterator[Changed]:
        """What has changed since a time. A file that was there before, and is no longer ignored, has not; nor has one
        that has become too large to be read."""
        for path, (before, after) in stored.items():
            appeared = listing.new.get(path, since) + _SLACK >= since
            if path not in self._excluded.dropped and (before is not None or appeared):
                yield Changed(path, before, after)

    async def _load(self, modes: Mapping[str, int]) -> None:
        """Makes what is known here equal to the index."""
        listed = await self._git.run("ls-files", "-s", "-z")
        self._tree = await self._write_tree()
        self._tracked = await to_thread.run_sync(_tracked, listed, modes)
        self._looked_at = 0
        self._reliable = True

    async def _write_tree(self) -> str:
        return (await self._git.run("write-tree")).decode().strip()

    def _prepare(self) -> Mapping[str, int] | None:
        """The modes that the last process knew, with its index in place; ``None`` if there is none. Blocks."""
        init(self.folder)
        sweep(self.folder)
        last = self.folder / INDEX
        try:
            data = last.read_bytes()
            modes = json.loads((self.folder / f"{INDEX}.modes").read_text("utf-8"))
        except (OSError, ValueError):
            return None
        self._index.touch(0o600)
        self._index.write_bytes(data)
        times = last.stat()
        os.utime(self._index, ns=(times.st_atime_ns, times.st_mtime_ns))  # Git compares files with this time
        return cast("dict[str, int]", modes) if isinstance(modes, dict) else _NO_MODES

    def _leave(self) -> None:
        modes = {path: blob.mode for path, blob in self._tracked.items() if blob.mode not in _PLAIN}
        spare = self.folder / f"{INDEX}.modes.{self._name}"
        spare.touch(0o600)
        spare.write_text(json.dumps(modes), "utf-8")
        spare.replace(self.folder / f"{INDEX}.modes")
        self._index.replace(self.folder / INDEX)

    def _changed_large(self) -> list[str]:
        """Files that were too large and have changed since. Blocks."""
        changed: list[str] = []
        for path, key in tuple(self._excluded.large.items()):
            try:
                found = os.lstat(self.root / path)
            except OSError:
                del self._excluded.large[path]
                continue
            if (found.st_size, found.st_ctime_ns) != key:
                changed.append(path)
        return changed

    async def _store(self, paths: Sequence[str]) -> Mapping[str, tuple[Blob | None, Blob | None]]:
        """Stores the files as they are now. Returns those that differ from the last snapshot."""
        read = _Read(self.root, iter(paths))
        known = self._tracked

        async def stream(batch: bytes) -> AsyncIterator[bytes]:
            while batch:
                yield batch
                batch = await to_thread.run_sync(self._next_batch, read)

        try:
            if first := await to_thread.run_sync(self._next_batch, read):
                await self._git.run("fast-import", "--quiet", send=stream(first))
        finally:
            read.close()
        changed = {path: (known.get(path), after) for path, after in read.found.items() if known.get(path) != after}
        lines = [_index_line(path, after) for path, after in read.found.items() if after is not None or path in known]
        if lines:
            self._reliable = False  # until what is known here is what the index has
            await self._git.run("update-index", "-z", "--index-info", send=b"".join(lines))
            if len(lines) > _STALE:
                await self._git.run("update-index", "-q", "--refresh", allow=(0, 1))
            for path, (_, after) in changed.items():
                if after is None:
                    del known[path]
                else:
                    known[path] = after
            self._reliable = True
        return changed

    def _next_batch(self, read: _Read) -> bytes:
        """The next files as the input of ``git fast-import``; empty at the end. Blocks."""
        found: list[bytes] = []
        size = 0
        for path in read.left:
            data = self._read(path, read)
            if data is not None:
                found.append(b"blob\ndata %d\n%s\n" % (len(data), data))
                size += len(data)
            if size > _BATCH:
                break
        read.total += size
        if read.total > _MAX_TOTAL:
            raise SnapshotError(
                f"The workspace has more than {_MAX_TOTAL // 1024**3} GB of files that are not ignored."
            )
        return b"".join(found)

    def _read(self, path: str, read: _Read) -> bytes | None:
        """Reads one file. Returns its content if it has to be stored."""
        try:
            state = read.state(path)
        except TooLarge:
            with suppress(OSError):
                found = os.lstat(self.root / path)
                self._excluded.large[path] = (found.st_size, found.st_ctime_ns)
            if path in self._tracked:
                self._excluded.dropped.add(path)
                read.found[path] = None
            return None
        except ToolError:
            self._excluded.unreadable.add(path)
            return None
        self._excluded.unreadable.discard(path)
        self._excluded.large.pop(path, None)
        blob = read.found[path] = None if state is None else Blob(state.mode, oid_of(state.data))
        before = self._tracked.get(path)
        return None if state is None or blob is None or (before and before.oid == blob.oid) else state.data

    async def _pin(self, session_id: str, tree: str) -> None:
        if (session_id, tree) in self._pinned:
            return
        lines = f"update {REFS}/{session_id}/{tree} {tree}\nupdate {TIPS}/{self._name} {tree}\n"
        await self._git.run("update-ref", "--stdin", send=lines.encode())
        self._pinned.add((session_id, tree))


def _contents(batch: bytes) -> dict[str, bytes]:
    """The blobs in the output of ``git cat-file --batch``."""
    found: dict[str, bytes] = {}
    at = 0
    while at < len(batch):
        end = batch.index(b"\n", at)
        fields = batch[at:end].split()
        at = end + 1
        if len(fields) == 3:  # else it is missing
            size = int(fields[2])
            found[fields[0].decode()] = batch[at : at + size]
            at += size + 1
    return found


def oid_of(data: bytes) -> str:
    """The name of a blob with this content."""
    return sha1(b"blob %d\0%s" % (len(data), data), usedforsecurity=False).hexdigest()


_PLAIN: Final = frozenset({0o100644, 0o100755, 0o120777})
"""Modes that the index can express."""


def _index_line(path: str, blob: Blob | None) -> bytes:
    """A line for ``git update-index``: what the index has for a path, or that it has nothing."""
    if blob is None:
        return b"0 %s\t%s\0" % (b"0" * 40, os.fsencode(path))
    mode = b"120000" if blob.is_link else b"100755" if blob.mode & 0o100 else b"100644"
    return b"%s %s 0\t%s\0" % (mode, blob.oid.encode(), os.fsencode(path))


def _tracked(listed: bytes, modes: Mapping[str, int]) -> dict[str, Blob]:
    """The files of a listing: of lines ``mode oid stage TAB path`` or ``mode type oid TAB path``."""
    found: dict[str, Blob] = {}
    for line in listed.split(b"\0"):
        if line:
            head, _, name = line.partition(b"\t")
            fields = head.split()
            oid = next(field for field in fields if len(field) == 40).decode()
            mode = int(fields[0], 8)
            path = os.fsdecode(name)
            found[path] = Blob(modes.get(path, 0o120777 if stat.S_ISLNK(mode) else mode), oid)
    return found
