"""Files beneath a root folder, reached so that no name swapped for a link in between leads out.

Everything here blocks and belongs in a worker thread. A path is first resolved and then walked again from the root, one
folder descriptor after the other, following no link: what was a plain name when it was checked is one when it is used.
Where the platform has no such descriptors, full paths are used and only the first check holds.
"""

import errno
import os
import secrets
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from deputy_agents.domain.errors import OutsideRoots, ToolError
from deputy_agents.files.encoding import UTF8, Encoding, check_new, decode
from deputy_agents.text import visible

MAX_BYTES = 10 * 1024 * 1024
"""The largest file that is read or written whole."""

_SNIFF = 8192
"""Bytes at the start of a large file that show whether it is text."""

_MAX_LINE = 64 * 1024
"""Bytes of one line of a large file that are kept."""

_DIR_FD = {os.open, os.stat, os.mkdir, os.unlink, os.link} <= os.supports_dir_fd
_PROC_FD = "/proc/self/fd" if Path("/proc/self/fd").is_dir() else ""
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_FOLLOW
_READ = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0) | _NO_FOLLOW
)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | _NO_FOLLOW

_REASONS = {
    errno.ENOENT: "there is no such file or folder",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "the disk is full",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EISDIR: "it is a folder",
    errno.ENOTDIR: "a part of the path is no folder, or was replaced by a link",
}


class TooLarge(ToolError):
    """A file is too large to be read whole; parts of it can be read."""


@dataclass(frozen=True, slots=True)
class FileText:
    """The text of a file, with its own line ends, and how it is written as bytes."""

    text: str
    encoding: Encoding = UTF8


@dataclass(frozen=True, slots=True)
class Lines:
    """Some lines of a file, with their ends; ``last`` when the file ends with them."""

    lines: list[str]
    last: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """A name in a folder; ``mark`` is ``/`` for a folder, ``@`` for a link, nothing for a file."""

    name: str
    mark: str = ""


class Folder:
    """An open folder. Names are looked up in it wherever its path leads by now; close it, or use it in ``with``."""

    def __init__(self, path: Path, fd: int | None) -> None:
        self.path = path
        self.fd = fd

    def at(self, name: str) -> str:
        """What to hand to a function of ``os`` together with ``dir_fd=folder.fd``."""
        return name if self.fd is not None else str(self.path / name)

    @property
    def process_cwd(self) -> str:
        """A working directory for a child process that is this very folder."""
        return str(self.path) if self.fd is None or not _PROC_FD else f"{_PROC_FD}/{self.fd}"

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def open_folder(root: Path, parts: Sequence[str]) -> Folder:
    """The folder ``parts`` beneath ``root``, which is resolved.

    Raises:
        ToolError: there is no such folder, or a part of the path is a link by now.
    """
    with explained(root.joinpath(*parts)):
        return _opened(root, parts)


def _opened(root: Path, parts: Sequence[str], *, create: bool = False) -> Folder:
    folder = Folder(root, os.open(root, _FOLDER) if _DIR_FD else None)
    try:
        for part in parts:
            _descend(folder, part, create)
    except BaseException:
        folder.close()
        raise
    return folder


def _descend(folder: Folder, part: str, create: bool) -> None:
    if create:
        with suppress(FileExistsError):
            os.mkdir(folder.at(part), dir_fd=folder.fd)
    if folder.fd is not None:
        above, folder.fd = folder.fd, os.open(part, _FOLDER, dir_fd=folder.fd)
        os.close(above)
    folder.path /= part


def read_text(root: Path, parts: Sequence[str]) -> FileText | None:
    """The text of a file, or ``None`` when there is no such file.

    Raises:
        ToolError: it is no regular file, binary, larger than :data:`MAX_BYTES`, or cannot be read.
    """
    with explained(root.joinpath(*parts)):
        try:
            with _opened(root, parts[:-1]) as folder:
                return _read(folder, parts[-1])[0]
        except FileNotFoundError:
            return None


def read_bytes(root: Path, parts: Sequence[str], limit: int) -> bytes:
    """The bytes of a file.

    Raises:
        TooLarge: there are more than ``limit``.
        ToolError: it is no regular file, or cannot be read.
    """
    with explained(root.joinpath(*parts)), _opened(root, parts[:-1]) as folder:
        return _read_bytes(folder, parts[-1], limit)[0]


@contextmanager
def open_file(root: Path, parts: Sequence[str]) -> Generator[BinaryIO]:
    """A file of any size, to be read piece by piece.

    Raises:
        ToolError: it is no regular file, or cannot be read.
    """
    with explained(root.joinpath(*parts)), _opened(root, parts[:-1]) as folder, _file(folder, parts[-1]) as file:
        yield file


def read_lines(root: Path, parts: Sequence[str], first: int, count: int) -> Lines:
    """``count`` lines, from line ``first`` (counted from 1) on, of a file of any size. Of a very long line only the
    start is given; what is appended meanwhile is not read.

    Raises:
        ToolError: it is no regular file, binary, or cannot be read.
    """
    with open_file(root, parts) as file:
        size = os.fstat(file.fileno()).st_size
        found = [file.read(_SNIFF)]
        if b"\0" not in found[0]:
            file.seek(0)
            found = list(islice(_lines(file, size), first - 1, first + count))
    if any(b"\0" in line for line in found[:count]):
        raise ToolError(f"{_name(root.joinpath(*parts))} is a binary file ({size:,} bytes).")
    return Lines([line.decode(errors="replace") for line in found[:count]], last=len(found) <= count)


def _lines(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size > 0 and (line := file.readline(min(size, _MAX_LINE))):
        rest = line
        size -= len(line)
        while size > 0 and not rest.endswith(b"\n") and (rest := file.readline(min(size, _MAX_LINE))):
            size -= len(rest)
        yield line


def write_text(root: Path, parts: Sequence[str], text: str, *, expected: str | None) -> None:
    """Replaces a file whose text is ``expected`` as a whole, or makes a new one (``None``) and the folders above it.

    Encoding, mode and owner stay. The name is replaced, so another hard link keeps its content.

    Raises:
        ToolError: the file is not as expected, is read-only, or cannot be written.
    """
    shown = root.joinpath(*parts)
    with explained(shown), _opened(root, parts[:-1], create=expected is None) as folder:
        before, found = _present(folder, parts[-1])
        if (before and before.text) != expected:
            raise ToolError(f"{_name(shown)} has changed since it was read; read it again.")
        _replace(folder, parts[-1], _encoded(text, before), found)


def check_mode(found: os.stat_result, shown: Path) -> None:
    """Raises ToolError: nobody is meant to write the file ``shown``. Administrators could, and editors offer to."""
    if not found.st_mode & 0o222:
        raise ToolError(f"{_name(shown)} is read-only.")


def delete_file(root: Path, parts: Sequence[str], *, expected: str) -> None:
    """Deletes a file whose text is ``expected``. The folder that it is in stays.

    Raises:
        ToolError: the file is not as expected, or cannot be deleted.
    """
    shown = root.joinpath(*parts)
    with explained(shown), _opened(root, parts[:-1]) as folder:
        before, found = _read(folder, parts[-1])
        if before.text != expected:
            raise ToolError(f"{_name(shown)} has changed.")
        _still(folder, parts[-1], found)
        os.unlink(folder.at(parts[-1]), dir_fd=folder.fd)


def list_folder(root: Path, parts: Sequence[str]) -> list[Entry]:
    """The entries of a folder, sorted by name.

    Raises:
        ToolError: there is no such folder, or it cannot be read.
    """
    with (
        explained(root.joinpath(*parts)),
        _opened(root, parts) as folder,
        os.scandir(folder.path if folder.fd is None else folder.fd) as entries,
    ):
        return sorted((Entry(entry.name, _mark(entry)) for entry in entries), key=lambda entry: entry.name)


@contextmanager
def explained(path: Path) -> Generator[None]:
    """Turns what the operating system refuses into a ToolError that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OutsideRoots(f"{_name(path)} was replaced by a link, or its links form a loop.") from error
        reason = _REASONS.get(error.errno or 0) or error.strerror or "the operating system refused"
        raise ToolError(f"Cannot use {_name(path)}: {reason}.") from error


def _present(folder: Folder, name: str) -> tuple[FileText, os.stat_result] | tuple[None, None]:
    try:
        return _read(folder, name)
    except FileNotFoundError:
        return None, None


def _read(folder: Folder, name: str) -> tuple[FileText, os.stat_result]:
    data, found = _read_bytes(folder, name, MAX_BYTES)
    return _decoded(data, folder.path / name), found


def _read_bytes(folder: Folder, name: str, limit: int) -> tuple[bytes, os.stat_result]:
    with _file(folder, name) as file:
        found = os.fstat(file.fileno())
        data = b"" if found.st_size > limit else file.read(limit + 1)
    if (size := max(found.st_size, len(data))) > limit:
        raise TooLarge(f"{_name(folder.path / name)} has {size:,} bytes, more than the {limit:,} that are read whole.")
    return data, found


@contextmanager
def _file(folder: Folder, name: str) -> Generator[BinaryIO]:
    """An open regular file. Looking first keeps devices shut: opening some of them already does something."""
    shown = folder.path / name
    _regular(os.stat(folder.at(name), dir_fd=folder.fd, follow_symlinks=False), shown)
    with os.fdopen(os.open(folder.at(name), _READ, dir_fd=folder.fd), "rb") as file:
        _regular(os.fstat(file.fileno()), shown)
        yield file


def _regular(found: os.stat_result, shown: Path) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise OutsideRoots(f"{_name(shown)} was replaced by a link.")
    if stat.S_ISDIR(found.st_mode):
        raise ToolError(f"{_name(shown)} is a folder; use list_dir.")
    if not stat.S_ISREG(found.st_mode):
        raise ToolError(f"{_name(shown)} is a pipe, socket or device, not a file.")


def _decoded(data: bytes, shown: Path) -> FileText:
    if (found := decode(data)) is None:
        raise ToolError(f"{_name(shown)} is a binary file ({len(data):,} bytes).")
    return FileText(*found)


def _encoded(text: str, before: FileText | None) -> bytes:
    old = before or FileText("")
    check_new(text, old.text)
    data = old.encoding.encode(text)
    if len(data) > MAX_BYTES:
        raise ToolError(f"The new text has {len(data):,} bytes, more than the {MAX_BYTES:,} that are written.")
    return data


def _replace(folder: Folder, name: str, data: bytes, before: os.stat_result | None) -> None:
    if before:
        check_mode(before, folder.path / name)
    spare = f".deputy-{secrets.token_hex(8)}.tmp"
    try:
        with os.fdopen(os.open(folder.at(spare), _CREATE, 0o600 if before else 0o666, dir_fd=folder.fd), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if before:
            _dress(folder, spare, before)
            _still(folder, name, before)
            os.replace(folder.at(spare), folder.at(name), src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
        else:
            _place_new(folder, spare, name)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(folder.at(spare), dir_fd=folder.fd)


def _dress(folder: Folder, spare: str, before: os.stat_result) -> None:
    if hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(folder.at(spare), before.st_uid, before.st_gid, dir_fd=folder.fd)
    # Not set-user-id and the like: the kernel drops those on a change of content, too.
    os.chmod(folder.at(spare), before.st_mode & 0o777, dir_fd=folder.fd)


def _still(folder: Folder, name: str, before: os.stat_result) -> None:
    """Last look: the name still is the file that was compared."""
    now = os.stat(folder.at(name), dir_fd=folder.fd, follow_symlinks=False)
    if (now.st_dev, now.st_ino, now.st_mtime_ns, now.st_size) != (
        before.st_dev,
        before.st_ino,
        before.st_mtime_ns,
        before.st_size,
    ):
        raise ToolError(f"{_name(folder.path / name)} changed while it was written; read it again.")


def _place_new(folder: Folder, spare: str, name: str) -> None:
    """Gives the new file its name unless somebody has taken it: a link never overwrites, a rename does."""
    try:
        os.link(folder.at(spare), folder.at(name), src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
    except FileExistsError:
        raise ToolError(f"{_name(folder.path / name)} exists by now; read it first.") from None
    except OSError:
        # A file system without hard links: the name was free a moment ago, and that has to do.
        os.replace(folder.at(spare), folder.at(name), src_dir_fd=folder.fd, dst_dir_fd=folder.fd)


def _mark(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "@"
    return "/" if entry.is_dir(follow_symlinks=False) else ""


def _name(path: Path) -> str:
    return visible(str(path))
