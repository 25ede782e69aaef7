"""The files that agents may touch: beneath the roots, open buffers first, the disk below them."""

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

from anyio import Event, fail_after, to_thread

from deputy_agents.domain.errors import OutsideRoots, ToolError
from deputy_agents.domain.settings import Root
from deputy_agents.files import disk
from deputy_agents.files.disk import Entry, FileText, Lines
from deputy_agents.files.encoding import REPLACED, blurred, is_exact
from deputy_agents.files.ignore import is_ignored, list_unignored
from deputy_agents.ports.buffers import Buffer, Buffers
from deputy_agents.text import visible

_T = TypeVar("_T")

_SECRET_NAMES = (
    *(".env", ".env.*", "*.env", ".envrc", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.tfvars"),
    *(".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".htpasswd"),
    *("credentials", "credentials.json", "credentials.toml", "credentials.y*ml"),
    *("secrets.json", "secrets.toml", "secrets.y*ml", "service-account*.json"),
)
_SECRET_FOLDERS = frozenset({".ssh", ".aws", ".gnupg", ".kube", ".docker"})
_NO_SECRET = (".example", ".sample", ".template", ".dist")

_PROTECTED_FOLDERS = frozenset({".git", ".hg", ".jj", ".deputy", ".claude", ".vscode", ".idea", ".husky"})
_PROTECTED_NAMES = frozenset({".git", ".envrc", ".mcp.json", ".exrc", ".vimrc", ".nvimrc", ".nvim.lua"})

_NO_FILES = tuple(map(Path, ("/proc", "/sys", "/dev")))
"""What the kernel shows there is no file of a user, and some of it holds the environment."""


class PathKind(Enum):
    """What stood at a path when it was resolved; good for messages and previews, not for safety."""

    FILE = "file"
    FOLDER = "folder"
    MISSING = "missing"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path led when it was resolved: ``path`` is absolute, without links, and beneath ``root``.

    ``secret`` says that the name by which it was asked for, or the one it leads to, is that of a secret.
    """

    path: Path
    root: Path
    kind: PathKind
    secret: bool
    writable: bool = True
    main: bool = True
    """``root`` is the main one."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Below the root."""
        return self.path.relative_to(self.root).parts

    @property
    def subject(self) -> str:
        """What permission rules match: the path below its root, with forward slashes; the root itself is ``.``"""
        return "/".join(self.parts) or "."

    @property
    def whole(self) -> str:
        """What permission rules match beside the subject, where that alone does not say which root is meant."""
        return "" if self.main else self.path.as_posix()

    @property
    def protected(self) -> bool:
        """Whether other programs obey or run the file, as Git does its hooks."""
        *folders, name = [part.lower() for part in self.parts] or [""]
        return name in _PROTECTED_NAMES or not _PROTECTED_FOLDERS.isdisjoint(folders)


def is_secret(path: Path | str) -> bool:
    """Whether a file of this name may hold secrets. Only the name counts; pass the part below a root."""
    *folders, name = [part.lower() for part in Path(path).parts] or [""]
    if not _SECRET_FOLDERS.isdisjoint(folders):
        return True
    return not name.endswith(_NO_SECRET) and any(fnmatchcase(name, pattern) for pattern in _SECRET_NAMES)


def digest(text: str) -> str:
    """A short name for ``text``, equal only for equal texts."""
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


TURN = 30.0
"""Seconds that a change of a file waits for another one of the same file to be over."""

_changes: dict[Path, Event] = {}
"""The files that are being changed in this process, by whichever session; set when that is over."""


class Workspace:
    """Reads and writes files beneath ``roots``, of which the first is the main one, and beneath ``further`` folders.

    Make it by :meth:`open`. The constructor looks at nothing and expects roots without links: beneath any other no file
    is found. Open documents of ``buffers`` win over the disk, in reading and in writing.
    """

    def __init__(self, roots: Sequence[Path], buffers: Buffers | None = None, further: Sequence[Root] = ()) -> None:
        self.roots = tuple(roots)
        self.further = tuple(further)
        self.buffers = buffers

    @classmethod
    async def open(
        cls, roots: Sequence[Path], buffers: Buffers | None = None, further: Sequence[Root] = ()
    ) -> "Workspace":
        """A workspace at folders that are resolved now and once: one that is swapped for a link later leads nowhere."""
        return await to_thread.run_sync(lambda: cls(_real(roots), buffers, [_real_root(root) for root in further]))

    async def locate(self, path: str, cwd: Path) -> Place:
        """Where ``path`` leads now; a relative one starts at ``cwd``. The file need not exist.

        Raises:
            OutsideRoots: it leads out of every root, through links or otherwise.
            ToolError: it is no path.
        """
        if not path or "\0" in path:
            raise ToolError("path: must not be empty or hold a null character.")
        try:
            os.fsencode(path)
        except UnicodeEncodeError:
            raise ToolError("path: it holds characters that no file name can have.") from None
        if path.startswith("~"):
            raise ToolError("path: ~ is not expanded; give a path relative to the root, or an absolute one.")
        return await to_thread.run_sync(self._resolved, path, cwd)

    async def read(self, place: Place) -> FileText | None:
        """The text at ``place`` as the user sees it, or ``None`` when there is no file.

        Raises:
            ToolError: it is no regular file, binary, too large, or cannot be read.
        """
        if (buffer := await self._buffer(place)) is not None:
            return FileText(buffer.text)
        return await _reading(partial(disk.read_text, place.root, _file_parts(place)))

    async def read_bytes(self, place: Place, limit: int) -> bytes:
        """The bytes of the file at ``place`` on disk.

        Raises:
            TooLarge: there are more than ``limit``.
            ToolError: it is no regular file, or cannot be read.
        """
        return await _reading(partial(disk.read_bytes, place.root, _file_parts(place), limit))

    async def read_lines(self, place: Place, first: int, count: int) -> Lines:
        """Some lines of a file on disk that may be of any size.

        Raises:
            ToolError: it is no regular file, binary, or cannot be read.
        """
        return await _reading(partial(disk.read_lines, place.root, _file_parts(place), first, count))

    @asynccontextmanager
    async def opened(self, place: Place) -> AsyncGenerator[int]:
        """A descriptor of the file at ``place`` on disk, for a process to read.

        Raises:
            ToolError: it is no regular file, or cannot be read.
        """
        opening = disk.open_file(place.root, _file_parts(place))
        file = await to_thread.run_sync(opening.__enter__)
        try:
            yield file.fileno()
        finally:
            file.close()

    async def write(self, place: Place, text: str, *, expected: str | None, label: str) -> None:
        """Makes ``text`` the content of the file at ``place``, whose text must be ``expected`` (``None``: there must be
        none). An open document is changed through the editor, under ``label``; other files atomically on disk.

        Raises:
            ToolError: the file is not as expected, may only be read, or cannot be written; then nothing has changed.
        """
        self.check_writable(place)
        async with _changing(place):
            await self._write(place, text, expected, label)

    async def check_write(self, place: Place, text: str) -> None:
        """Whether :meth:`write` could make ``text`` the content, as far as that is known before.

        Raises:
            ToolError: it could not.
        """
        self.check_writable(place)
        if self.buffers and (buffer := await self._buffer(place)):
            await self._check_open(self.buffers, place, buffer, text)
        else:
            await to_thread.run_sync(_is_there, place)

    async def delete(self, place: Place, *, expected: str, label: str) -> None:
        """Deletes the file at ``place``, whose text must be ``expected``; one that is open in the editor by it, under
        ``label``.

        Raises:
            ToolError: the file is not as expected, may only be read, or cannot be deleted.
        """
        self.check_writable(place)
        async with _changing(place):
            if self.buffers and (buffer := await self._buffer(place)):
                if buffer.text != expected:
                    raise ToolError(f"{visible(place.subject)} has changed in the editor.")
                await self.buffers.delete(place.path, version=buffer.version, label=label)
            else:
                delete = partial(disk.delete_file, place.root, _file_parts(place), expected=expected)
                await to_thread.run_sync(delete)

    def check_writable(self, place: Place) -> None:
        """Raises ToolError when ``place`` is beneath a folder that may only be read."""
        if not place.writable:
            raise ToolError(
                f"{visible(str(place.path))} is in a folder that agents may only read; the setting `roots` says so."
            )

    async def entries(self, place: Place) -> list[Entry]:
        """What is in the folder at ``place`` and not excluded by ``.gitignore``, sorted by name.

        Raises:
            ToolError: there is no such folder, or it cannot be read.
        """
        return await _reading(partial(list_unignored, place.root, place.parts))

    async def unsaved(self, folder: Place) -> dict[str, str]:
        """Texts of open documents beneath ``folder`` that are not those on disk, by their path below it and in its
        order; without what ``.gitignore`` excludes."""
        below = [b for b in self.buffers.all() if b.path.is_relative_to(folder.path)] if self.buffers else []
        return await to_thread.run_sync(_unsaved, folder, below, abandon_on_cancel=True) if below else {}

    @asynccontextmanager
    async def working_directory(self, place: Place) -> AsyncGenerator[str]:
        """A working directory for a process that is the folder at ``place``, even if another gets its name."""
        folder = await to_thread.run_sync(disk.open_folder, place.root, place.parts)
        with folder:
            yield folder.process_cwd

    async def has(self, place: Place) -> bool:
        """Whether there was something at ``place``, on disk or open in the editor."""
        return place.kind is not PathKind.MISSING or bool(self.buffers and await self.buffers.get(place.path))

    async def is_open(self, place: Place) -> bool:
        """Whether the file at ``place`` is open in the editor."""
        return self.buffers is not None and await self.buffers.get(place.path) is not None

    def shown(self, place: Place, cwd: Path) -> str:
        """How the model names ``place``: relative to ``cwd`` if it is below, else absolute."""
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
        if not await to_thread.run_sync(_is_there, place) and place.kind is PathKind.FILE:
            # The editor would save it, and make it anew beside the one that has been moved.
            raise ToolError(f"{visible(place.subject)} is open in the editor, but gone from disk since it was read.")
        if await _undecoded(place, buffer) is not None:
            raise ToolError(
                f"{visible(place.subject)} has unsaved changes in an editor that does not know its encoding: saving it "
                f"would lose what is shown as {REPLACED}. Reopen it there with its encoding, then try again."
            )
        await buffers.check(place.path, text)

    async def _buffer(self, place: Place) -> Buffer | None:
        """The open document at ``place``, if it has the text. One that shows, in place of bytes, that its editor could
        not read the file, and has no changes, is only a view of it: the file itself is read and changed."""
        buffer = await self.buffers.get(place.path) if self.buffers else None
        if buffer is not None and (undecoded := await _undecoded(place, buffer)) is not None:
            return None if blurred(undecoded) == blurred(buffer.text) else buffer
        return buffer

    def _resolved(self, path: str, cwd: Path) -> Place:
        asked = Path(os.path.normpath(cwd / path))
        with disk.explained(asked):
            real = Path(os.path.realpath(cwd / path))
            root = self._root_of(real)
            if root is None:
                raise OutsideRoots(
                    f"{visible(path)} is outside the workspace; only files beneath its roots can be used."
                )
            secret = is_secret(real.relative_to(root.path)) or is_secret(asked.name)
            return Place(real, root.path, _kind(real), secret, root.writable, root.path == self.roots[0])

    def _root_of(self, path: Path) -> Root | None:
        """The innermost root above ``path``; of one that is named twice, what the workspace says of it."""
        roots = (*(Root(root, writable=True) for root in self.roots), *self.further)
        above = [root for root in roots if path.is_relative_to(root.path) and not _kernel(path, root.path)]
        return max(above, key=lambda root: len(root.path.parts), default=None)


@asynccontextmanager
async def _changing(place: Place) -> AsyncGenerator[None]:
    """Keeps all others from changing the file at ``place``: each gets its turn, and finds what the one before has made.

    Raises:
        ToolError: another change of it does not come to its end.
    """
    try:
        with fail_after(TURN):
            while (other := _changes.get(place.path)) is not None:
                await other.wait()
    except TimeoutError:
        raise ToolError(f"{visible(place.subject)} is being changed by another agent; try again later.") from None
    over = _changes[place.path] = Event()
    try:
        yield
    finally:
        del _changes[place.path]
        over.set()


def _real_root(root: Root) -> Root:
    return Root(Path(os.path.realpath(root.path)), root.writable)


def _real(paths: Sequence[Path]) -> list[Path]:
    return [Path(os.path.realpath(path)) for path in paths]


def _kernel(path: Path, root: Path) -> bool:
    return any(path.is_relative_to(place) and not root.is_relative_to(place) for place in _NO_FILES)


def _kind(path: Path) -> PathKind:
    if not os.path.lexists(path):
        return PathKind.MISSING
    if path.is_dir():
        return PathKind.FOLDER
    return PathKind.FILE if path.is_file() else PathKind.OTHER


def _is_there(place: Place) -> bool:
    """Whether there is a file now. Raises ToolError: it is read-only."""
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


async def _undecoded(place: Place, buffer: Buffer) -> str | None:
    """The text on disk where ``buffer`` shows that its editor has not read all bytes of it, and would not write them
    again; ``None`` where it has."""
    if REPLACED not in buffer.text:
        return None
    on_disk = await _reading(partial(_text_on_disk, place.root, place.parts))
    return None if on_disk is None or is_exact(on_disk) else on_disk


def _unsaved(folder: Place, buffers: Sequence[Buffer]) -> dict[str, str]:
    above = len(folder.parts)
    found: dict[str, str] = {}
    for buffer in sorted(buffers, key=lambda buffer: buffer.path):
        parts = buffer.path.relative_to(folder.root).parts
        if _text_on_disk(folder.root, parts) != buffer.text and not is_ignored(folder.root, parts, above):
            found["/".join(parts[above:])] = buffer.text
    return found


def _text_on_disk(root: Path, parts: Sequence[str]) -> str | None:
    with suppress(ToolError):
        if file := disk.read_text(root, parts):
            return file.text
    return None


async def _reading(read: Callable[[], _T]) -> _T:
    # A read has no effect, so a cancelled one is left behind: a dead network drive must not hold up the cancelling.
    return await to_thread.run_sync(read, abandon_on_cancel=True)
