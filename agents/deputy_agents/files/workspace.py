"""Confines agents to files beneath the roots. Open documents of the editor take precedence over the disk."""

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from enum import Enum, auto
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

from anyio import fail_after, to_thread

from deputy_agents.concurrency.keyed_lock import KeyedLock
from deputy_agents.domain.errors import OutsideRoots, ToolError
from deputy_agents.domain.settings import Root
from deputy_agents.files import disk
from deputy_agents.files.disk import Entry, FileText, Lines
from deputy_agents.files.encoding import REPLACED, as_displayed, fingerprint, is_exact
from deputy_agents.files.ignore import is_ignored, list_unignored
from deputy_agents.files.place import PathKind, Place, place_of
from deputy_agents.files.spelling import spelled
from deputy_agents.ports.buffers import Buffer, Buffers
from deputy_agents.text import visible

_T = TypeVar("_T")

_KERNEL_FOLDERS = tuple(map(Path, ("/proc", "/sys", "/dev")))
"""Folders of the kernel. They contain no files of users, and some of their files contain the environment."""


def digest(text: str) -> str:
    """A hash of ``text``."""
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


CHANGE_TIMEOUT = 30.0
"""Seconds that a change of a file waits for another change of the same file."""

_change_locks = KeyedLock[Path]()
"""Held while a file is changed in this process, by any session."""


_writes: dict[Path, int] = {}
_MAX_WRITES = 10_000
"""Files whose changes are counted; the oldest are forgotten."""


def _count_write(path: Path) -> int:
    _writes[path] = count = _writes.pop(path, 0) + 1
    while len(_writes) > _MAX_WRITES:
        del _writes[next(iter(_writes))]
    return count


class Workspace:
    """Reads and writes files beneath ``roots``, of which the first is the main root, and beneath ``further`` folders.

    Create it with :meth:`open`. The constructor does not access the disk and requires roots without links: no file is
    found beneath any other root. Open documents of ``buffers`` take precedence over the disk for reads and writes.
    """

    def __init__(self, roots: Sequence[Path], buffers: Buffers | None = None, further: Sequence[Root] = ()) -> None:
        self.roots = tuple(roots)
        self.further = tuple(further)
        self.buffers = buffers

    @classmethod
    async def open(
        cls, roots: Sequence[Path], buffers: Buffers | None = None, further: Sequence[Root] = ()
    ) -> "Workspace":
        """Create a workspace whose folders are resolved once, now: no file is found in one that is replaced by a
        link."""
        return await to_thread.run_sync(
            lambda: cls(_resolve(roots), buffers, [_resolve_root(root) for root in further])
        )

    @property
    def is_empty(self) -> bool:
        """Whether there is no folder at all."""
        return not self.roots and not self.further

    async def locate(self, path: str, cwd: Path, *, exact: bool = False) -> Place:
        """Resolve ``path``, relative to ``cwd``. The file need not exist. Unless ``exact``, a path that does not exist
        means the only file whose name differs from it in spelling (see :mod:`deputy_agents.files.spelling`).

        Raises:
            OutsideRoots: it leads out of every root, through links or otherwise.
            ToolError: it is not a valid path, or several files differ in spelling only.
        """
        if not path or "\0" in path:
            raise ToolError("path: must not be empty or contain a null character.")
        try:
            os.fsencode(path)
        except UnicodeEncodeError:
            raise ToolError("path: contains characters that file names cannot have.") from None
        if path.startswith("~"):
            raise ToolError("path: ~ is not expanded; give a path relative to the root, or an absolute one.")
        return await to_thread.run_sync(self._resolved, path, cwd, exact)

    async def spelled(self, path: str, cwd: Path) -> Path:
        """The file that ``path`` means, by its own name. Links are not resolved. The file need not exist.

        Raises:
            ToolError: several files differ in spelling only.
        """
        return cwd / await to_thread.run_sync(spelled, path, cwd, self._has_folder)

    async def read(self, place: Place) -> FileText | None:
        """Read the text at ``place`` as the user sees it; ``None`` if there is no file.

        Raises:
            ToolError: it is not a regular file, is binary or too large, or cannot be read.
        """
        if (buffer := await self._buffer(place)) is not None:
            return FileText(buffer.text, disk_changed=buffer.disk_changed)
        return await _run_read(partial(disk.read_text, place.root, _file_parts(place)))

    async def read_many(self, paths: Sequence[str]) -> dict[str, FileText | ToolError | None]:
        """Read files as :meth:`read` does, given by their absolute paths without links. What is wrong with one is its
        result."""
        opened = {str(buffer.path) for buffer in self.buffers.all()} if self.buffers else set[str]()
        found = await _run_read(lambda: {path: self._read_closed(path) for path in paths if path not in opened})
        for path in opened.intersection(paths):
            try:
                found[path] = await self.read(await self.locate_again(path))
            except ToolError as error:
                found[path] = error
        return found

    async def locate_again(self, path: str) -> Place:
        """Resolve an absolute path that had no links before.

        Raises:
            ToolError: it now leads to another file, or out of every root.
        """
        return await to_thread.run_sync(self._located_again, path)

    async def read_bytes(self, place: Place, limit: int) -> bytes:
        """Read the bytes of the file at ``place`` on disk.

        Raises:
            TooLarge: it has more than ``limit`` bytes.
            ToolError: it is not a regular file, or cannot be read.
        """
        return await _run_read(partial(disk.read_bytes, place.root, _file_parts(place), limit))

    async def read_lines(self, place: Place, first: int, count: int) -> Lines:
        """Read ``count`` lines of a file of any size on disk, starting at line ``first``, counted from 1.

        Raises:
            ToolError: it is not a regular file, is binary, or cannot be read.
        """
        return await _run_read(partial(disk.read_lines, place.root, _file_parts(place), first, count))

    @asynccontextmanager
    async def opened(self, place: Place) -> AsyncGenerator[int]:
        """Open the file at ``place`` on disk and provide its descriptor, for a process that reads it.

        Raises:
            ToolError: it is not a regular file, or cannot be read.
        """
        opening = disk.open_file(place.root, _file_parts(place))
        file = await to_thread.run_sync(opening.__enter__)
        try:
            yield file.fileno()
        finally:
            file.close()

    async def write(self, place: Place, text: str, *, expected: str | None, label: str) -> int:
        """Write ``text`` to the file at ``place``, whose text must be ``expected``; ``None`` means that it must not
        exist. An open document is changed through the editor, with ``label``. Other files are replaced atomically on
        disk. Return what :meth:`writes` is now.

        Raises:
            ToolError: the file does not have the expected text, is read-only, or cannot be written. Nothing has
                changed.
        """
        self.check_writable(place)
        async with _lock_for_change(place):
            await self._write(place, text, expected, label)
            return _count_write(place.path)

    def writes(self, place: Place) -> int:
        """How often this process has changed the file at ``place``, as far as it remembers."""
        return _writes.get(place.path, 0)

    async def check_write(self, place: Place, text: str) -> None:
        """Check, as far as possible in advance, that :meth:`write` can write ``text``.

        Raises:
            ToolError: it cannot.
        """
        self.check_writable(place)
        if self.buffers and (buffer := await self._buffer(place)):
            await self._check_open(self.buffers, place, buffer, text)
        else:
            await to_thread.run_sync(_exists_writable, place)

    async def delete(self, place: Place, *, expected: str, label: str) -> None:
        """Delete the file at ``place``, whose text must be ``expected``. An open document is deleted through the
        editor, with ``label``.

        Raises:
            ToolError: the file does not have the expected text, is read-only, or cannot be deleted.
        """
        self.check_writable(place)
        async with _lock_for_change(place):
            if self.buffers and (buffer := await self._buffer(place)):
                if buffer.text != expected:
                    raise ToolError(f"{visible(place.subject)} has changed in the editor.")
                await self.buffers.delete(place.path, version=buffer.version, label=label)
            else:
                delete = partial(disk.delete_file, place.root, _file_parts(place), expected=expected)
                await to_thread.run_sync(delete)
            _count_write(place.path)

    def check_writable(self, place: Place) -> None:
        """Raise ToolError if ``place`` is beneath a root that agents may only read."""
        if not place.writable:
            raise ToolError(f"{visible(str(place.path))} is in a folder that agents may only read (setting `roots`).")

    async def entries(self, place: Place) -> list[Entry]:
        """List the folder at ``place`` without what ``.gitignore`` excludes, sorted by name.

        Raises:
            ToolError: the folder does not exist, or cannot be read.
        """
        return await _run_read(partial(list_unignored, place.root, place.parts))

    async def unsaved(self, folder: Place) -> dict[str, str]:
        """The open documents beneath ``folder`` whose text differs from the file on disk, by path below the folder and
        sorted by it, without what ``.gitignore`` excludes."""
        below = [b for b in self.buffers.all() if b.path.is_relative_to(folder.path)] if self.buffers else []
        return await to_thread.run_sync(_unsaved, folder, below, abandon_on_cancel=True) if below else {}

    @asynccontextmanager
    async def working_directory(self, place: Place) -> AsyncGenerator[str]:
        """Provide a working directory for a process: the folder at ``place``, even if it is renamed or replaced."""
        folder = await to_thread.run_sync(disk.open_folder, place.root, place.parts)
        with folder:
            yield folder.process_cwd

    async def has(self, place: Place) -> bool:
        """Whether ``place`` existed on disk when it was resolved, or is open in the editor."""
        return place.kind is not PathKind.MISSING or bool(self.buffers and await self.buffers.get(place.path))

    async def is_open(self, place: Place) -> bool:
        """Whether the file at ``place`` is open in the editor."""
        return self.buffers is not None and await self.buffers.get(place.path) is not None

    def shown(self, place: Place, cwd: Path) -> str:
        """The path of ``place`` as models see it: relative to ``cwd`` if it is below, else absolute."""
        return visible(str(place.path.relative_to(cwd) if place.path.is_relative_to(cwd) else place.path))

    async def _write(self, place: Place, text: str, expected: str | None, label: str) -> None:
        buffer = await self._buffer(place)
        if not self.buffers or not buffer:
            write = partial(disk.write_text, place.root, _file_parts(place), text, expected=expected)
            await to_thread.run_sync(write)
        elif buffer.text != expected:
            raise ToolError(f"{visible(place.subject)} has changed in the editor since it was read; read it again.")
        else:
            await self._check_open(self.buffers, place, buffer, text)
            await self.buffers.apply(place.path, text, version=buffer.version, label=label)

    async def _check_open(self, buffers: Buffers, place: Place, buffer: Buffer, text: str) -> None:
        if not await to_thread.run_sync(_exists_writable, place) and place.kind is PathKind.FILE:
            # If the file was moved, saving the document would create a second file.
            raise ToolError(
                f"{visible(place.subject)} is open in the editor, but was removed from disk since it was read."
            )
        if await _undecoded_text(place, buffer) is not None:
            raise ToolError(
                f"{visible(place.subject)} has unsaved changes in an editor that does not know its encoding: saving "
                f"it would lose what is shown as {REPLACED}. Reopen it with its encoding, then try again."
            )
        await buffers.check(place.path, text)

    async def _buffer(self, place: Place) -> Buffer | None:
        """The open document at ``place``, if it is the one to read and change. A document without unsaved changes is
        not, and the file on disk is, if the editor could not decode it completely or has not loaded the changes of the
        file. Then the editor is asked to reload it."""
        buffer = await self.buffers.get(place.path) if self.buffers else None
        if buffer is None or self.buffers is None:
            return None
        match await _run_read(partial(_compared, place, buffer)):
            case _Compared.UNDECODED:
                return None
            case _Compared.BEHIND:
                self.buffers.reload(place.path)
                return None
            case _Compared.BOTH_CHANGED:
                return replace(buffer, disk_changed=True)
            case _:
                return buffer

    def _resolved(self, path: str, cwd: Path, exact: bool) -> Place:
        if not exact:
            path = spelled(path, cwd, self._has_folder)
        requested = Path(os.path.normpath(cwd / path))
        with disk.explain_os_errors(requested):
            real = Path(os.path.realpath(cwd / path))
            root = self._innermost_root(real)
            if root is None:
                raise OutsideRoots(
                    f"{visible(path)} is outside the workspace; only files beneath its roots can be used."
                )
            return place_of(requested, real, root, main=self.roots[:1] == (root.path,))

    def _located_again(self, path: str) -> Place:
        place = self._resolved(path, Path(path).parent, True)
        if str(place.path) != path:
            raise ToolError("Its path now leads to another file.")
        return place

    def _read_closed(self, path: str) -> FileText | ToolError | None:
        try:
            place = self._located_again(path)
            return disk.read_text(place.root, _file_parts(place))
        except ToolError as error:
            return error

    def _has_folder(self, folder: Path) -> bool:
        return self._innermost_root(Path(os.path.realpath(folder))) is not None

    def _innermost_root(self, path: Path) -> Root | None:
        """The innermost root above ``path``. If a folder is given twice, the workspace root has precedence."""
        roots = (*(Root(root, writable=True) for root in self.roots), *self.further)
        above = [root for root in roots if path.is_relative_to(root.path) and not _is_kernel_path(path, root.path)]
        return max(above, key=lambda root: len(root.path.parts), default=None)


@asynccontextmanager
async def _lock_for_change(place: Place) -> AsyncGenerator[None]:
    """Exclude all other changes of the file at ``place`` in this process.

    Raises:
        ToolError: another change of the file did not finish in time.
    """
    async with AsyncExitStack() as lock:
        try:
            with fail_after(CHANGE_TIMEOUT):
                await lock.enter_async_context(_change_locks.hold(place.path))
        except TimeoutError:
            raise ToolError(f"{visible(place.subject)} is being changed by another agent; try again later.") from None
        yield


def _resolve_root(root: Root) -> Root:
    return Root(Path(os.path.realpath(root.path)), root.writable)


def _resolve(paths: Sequence[Path]) -> list[Path]:
    return [Path(os.path.realpath(path)) for path in paths]


def _is_kernel_path(path: Path, root: Path) -> bool:
    return any(path.is_relative_to(folder) and not root.is_relative_to(folder) for folder in _KERNEL_FOLDERS)


def _exists_writable(place: Place) -> bool:
    """Whether the file exists now.

    Raises:
        ToolError: it is read-only.
    """
    try:
        found = place.path.stat()
    except OSError:
        return False
    disk.check_mode(found, place.path)
    return True


def _file_parts(place: Place) -> tuple[str, ...]:
    if not place.parts:
        raise ToolError(f"{visible(str(place.path))} is a folder; use list_dir.")
    return place.parts


class _Compared(Enum):
    """An open document, compared with the file on disk."""

    CURRENT = auto()
    """It is what the user works on."""
    UNDECODED = auto()
    """It has no unsaved changes, and the editor could not decode all bytes of the file."""
    BEHIND = auto()
    """It has no unsaved changes, and the file has changed since the editor loaded it."""
    BOTH_CHANGED = auto()
    """It has unsaved changes, and the file has other changes."""


def _compared(place: Place, buffer: Buffer) -> _Compared:
    on_disk = _text_on_disk(place.root, place.parts) if place.parts else None
    if on_disk is None:
        return _Compared.CURRENT
    if REPLACED in buffer.text and not is_exact(on_disk):
        same = as_displayed(on_disk) == as_displayed(buffer.text)
        return _Compared.UNDECODED if same else _Compared.CURRENT
    if (
        buffer.saved is None
        or buffer.saved == (now := fingerprint(on_disk))
        or now == (shown := fingerprint(buffer.text))
    ):
        return _Compared.CURRENT
    return _Compared.BEHIND if shown == buffer.saved else _Compared.BOTH_CHANGED


async def _undecoded_text(place: Place, buffer: Buffer) -> str | None:
    """The text on disk if the editor could not decode all bytes of the file, and so could not save them again; else
    ``None``."""
    if REPLACED not in buffer.text:
        return None
    on_disk = await _run_read(partial(_text_on_disk, place.root, place.parts))
    return None if on_disk is None or is_exact(on_disk) else on_disk


def _unsaved(folder: Place, buffers: Sequence[Buffer]) -> dict[str, str]:
    depth = len(folder.parts)
    found: dict[str, str] = {}
    for buffer in sorted(buffers, key=lambda buffer: buffer.path):
        parts = buffer.path.relative_to(folder.root).parts
        on_disk = _text_on_disk(folder.root, parts)
        behind = buffer.saved is not None and on_disk is not None and fingerprint(buffer.text) == buffer.saved
        if on_disk != buffer.text and not behind and not is_ignored(folder.root, parts, depth):
            found["/".join(parts[depth:])] = buffer.text
    return found


def _text_on_disk(root: Path, parts: Sequence[str]) -> str | None:
    with suppress(ToolError):
        if file := disk.read_text(root, parts):
            return file.text
    return None


async def _run_read(read: Callable[[], _T]) -> _T:
    # A read has no effect, so a cancelled read is abandoned: a dead network drive must not delay the cancellation.
    return await to_thread.run_sync(read, abandon_on_cancel=True)
