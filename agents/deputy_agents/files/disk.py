"""Files beneath a root folder. A name that is replaced by a link during an access does not lead out of the root.

Everything here blocks; call it in a worker thread. A path is resolved first, then walked again from the root, one
folder descriptor after the other, without following links: a name that was checked as a plain name is used as a plain
name. On platforms without folder descriptors, full paths are used and only the first check protects.
"""

import errno
import os
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
from deputy_agents.files.leftovers import remove_leftovers, spare_name
from deputy_agents.files.line_index import find_line
from deputy_agents.text import visible

MAX_BYTES = 10 * 1024 * 1024
"""The largest file that is read or written as a whole."""

_SNIFF = 8192
"""Bytes at the start of a large file that are checked for binary content."""

_MAX_LINE = 64 * 1024
"""Bytes of one line of a large file; the rest of the line is dropped."""

_MAX_LINKS = 40
"""Links that are followed for the names of a file."""

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
    errno.ENOTDIR: "part of the path is not a folder, or was replaced by a link",
}


class TooLarge(ToolError):
    """A file is too large to be read as a whole; parts of it can be read."""


@dataclass(frozen=True, slots=True)
class FileText:
    """The text of a file, with its original line ends, and its encoding. ``disk_changed`` is true for unsaved text of
    an editor if the file on disk has other changes."""

    text: str
    encoding: Encoding = UTF8
    disk_changed: bool = False


@dataclass(frozen=True, slots=True)
class Lines:
    """Some lines of a file, with their ends. ``last`` is true if they include the last line of the file."""

    lines: list[str]
    last: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """A name in a folder; ``mark`` is ``/`` for a folder, ``@`` for a link, empty for a file."""

    name: str
    mark: str = ""


class Folder:
    """An open folder. Names are looked up in this folder even if its path leads elsewhere now. Close it, or use it in
    ``with``."""

    def __init__(self, path: Path, fd: int | None) -> None:
        self.path = path
        self.fd = fd

    def at(self, name: str) -> str:
        """The path argument for a function of ``os`` that also gets ``dir_fd=folder.fd``."""
        return name if self.fd is not None else str(self.path / name)

    @property
    def process_cwd(self) -> str:
        """A path of this folder for the working directory of a child process."""
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
    """Open the folder ``parts`` beneath ``root``, which must be resolved.

    Raises:
        ToolError: the folder does not exist, or part of the path is a link now.
    """
    with explain_os_errors(root.joinpath(*parts)):
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
    """Read the text of a file; ``None`` if there is no such file.

    Raises:
        ToolError: it is not a regular file, is binary, is larger than :data:`MAX_BYTES`, or cannot be read.
    """
    with explain_os_errors(root.joinpath(*parts)):
        try:
            with _opened(root, parts[:-1]) as folder:
                return _read(folder, parts[-1])[0]
        except FileNotFoundError:
            return None


def read_bytes(root: Path, parts: Sequence[str], limit: int) -> bytes:
    """Read the bytes of a file.

    Raises:
        TooLarge: it has more than ``limit`` bytes.
        ToolError: it is not a regular file, or cannot be read.
    """
    with explain_os_errors(root.joinpath(*parts)), _opened(root, parts[:-1]) as folder:
        return read_raw(folder, parts[-1], limit)[0]


@contextmanager
def open_file(root: Path, parts: Sequence[str]) -> Generator[BinaryIO]:
    """Open a file of any size for reading.

    Raises:
        ToolError: it is not a regular file, or cannot be read.
    """
    with (
        explain_os_errors(root.joinpath(*parts)),
        _opened(root, parts[:-1]) as folder,
        _file(folder, parts[-1]) as file,
    ):
        yield file


def read_lines(root: Path, parts: Sequence[str], first: int, count: int) -> Lines:
    """Read ``count`` lines of a file of any size, starting at line ``first``, counted from 1. Very long lines are
    truncated. Text that is appended during the read is not read.

    Raises:
        ToolError: it is not a regular file, is binary, or cannot be read.
    """
    with open_file(root, parts) as file:
        size = os.fstat(file.fileno()).st_size
        found = [file.read(_SNIFF)]
        if b"\0" not in found[0]:
            start = find_line(file, first)
            file.seek(size if start is None else start)
            found = list(islice(_lines(file, size - file.tell()), count + 1))
    if any(b"\0" in line for line in found[:count]):
        raise ToolError(f"{_display(root.joinpath(*parts))} is a binary file ({size:,} bytes).")
    return Lines([line.decode(errors="replace") for line in found[:count]], last=len(found) <= count)


def _lines(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size > 0 and (line := file.readline(min(size, _MAX_LINE))):
        rest = line
        size -= len(line)
        while size > 0 and not rest.endswith(b"\n") and (rest := file.readline(min(size, _MAX_LINE))):
            size -= len(rest)
        yield line


def write_text(root: Path, parts: Sequence[str], text: str, *, expected: str | None) -> None:
    """Replace a file whose text is ``expected``. If ``expected`` is ``None``, create the file and its parent folders.

    Encoding, mode and owner are preserved. The name is replaced, so other hard links keep the old content.

    Raises:
        ToolError: the file does not have the expected text, is read-only, or cannot be written.
    """
    shown = root.joinpath(*parts)
    with explain_os_errors(shown), _opened(root, parts[:-1], create=expected is None) as folder:
        before, found = _read_if_present(folder, parts[-1])
        if (before and before.text) != expected:
            raise ToolError(f"{_display(shown)} has changed since it was read; read it again.")
        _replace(folder, parts[-1], _encoded(text, before), found)


def restore(
    root: Path, parts: Sequence[str], data: bytes | None, *, expected: bytes | None, mode: int | None = None
) -> None:
    """Give a file whose bytes are ``expected`` those of ``data``, and ``mode`` if it is known. ``None`` means that
    there is no file.

    Raises:
        ToolError: the file does not have the expected bytes, or cannot be changed.
    """
    shown = root.joinpath(*parts)
    with explain_os_errors(shown), _opened(root, parts[:-1], create=expected is None) as folder:
        name = parts[-1]
        try:
            now, found = read_raw(folder, name, MAX_BYTES)
        except FileNotFoundError:
            now, found = None, None
        if now != expected:
            raise ToolError(f"{_display(shown)} has changed.")
        if data is not None:
            _replace(folder, name, data, found, mode)
        elif found is not None:
            _check_unchanged(folder, name, found)
            os.unlink(folder.at(name), dir_fd=folder.fd)


def check_mode(found: os.stat_result, shown: Path) -> None:
    """Raise ToolError if the file ``shown`` is write-protected, also when the process is allowed to write it."""
    if not found.st_mode & 0o222:
        raise ToolError(f"{_display(shown)} is read-only.")


def delete_file(root: Path, parts: Sequence[str], *, expected: str) -> None:
    """Delete a file whose text is ``expected``. Its folder is kept.

    Raises:
        ToolError: the file does not have the expected text, or cannot be deleted.
    """
    shown = root.joinpath(*parts)
    with explain_os_errors(shown), _opened(root, parts[:-1]) as folder:
        before, found = _read(folder, parts[-1])
        if before.text != expected:
            raise ToolError(f"{_display(shown)} has changed.")
        _check_unchanged(folder, parts[-1], found)
        os.unlink(folder.at(parts[-1]), dir_fd=folder.fd)


def list_folder(root: Path, parts: Sequence[str]) -> list[Entry]:
    """List a folder, sorted by name.

    Raises:
        ToolError: the folder does not exist, or cannot be read.
    """
    with (
        explain_os_errors(root.joinpath(*parts)),
        _opened(root, parts) as folder,
        os.scandir(folder.path if folder.fd is None else folder.fd) as entries,
    ):
        return sorted((Entry(entry.name, _mark(entry)) for entry in entries), key=lambda entry: entry.name)


def names_of(path: Path) -> list[Path]:
    """The absolute ``path``, and each further path that it leads to, one link after the other. The last one has no
    links, unless there are very many."""
    names = [path]
    while len(names) <= _MAX_LINKS and (target := _follow_first_link(names[-1])) is not None:
        names.append(target)
    return names


def _follow_first_link(path: Path) -> Path | None:
    at = Path(path.anchor)
    parts = path.relative_to(at).parts
    for index, part in enumerate(parts):
        at /= part
        with suppress(OSError):
            return Path(os.path.normpath(at.parent.joinpath(at.readlink(), *parts[index + 1 :])))
    return None


@contextmanager
def explain_os_errors(path: Path) -> Generator[None]:
    """Convert an OSError to a ToolError that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OutsideRoots(f"{_display(path)} was replaced by a link, or its links form a loop.") from error
        reason = _REASONS.get(error.errno or 0) or error.strerror or "the operating system gave no reason"
        raise ToolError(f"Cannot use {_display(path)}: {reason}.") from error


def _read_if_present(folder: Folder, name: str) -> tuple[FileText, os.stat_result] | tuple[None, None]:
    try:
        return _read(folder, name)
    except FileNotFoundError:
        return None, None


def _read(folder: Folder, name: str) -> tuple[FileText, os.stat_result]:
    data, found = read_raw(folder, name, MAX_BYTES)
    return _decoded(data, folder.path / name), found


def read_raw(folder: Folder, name: str, limit: int) -> tuple[bytes, os.stat_result]:
    """Read the bytes of a regular file in an open folder. Raises as :func:`read_bytes`, and OSError."""
    with _file(folder, name) as file:
        found = os.fstat(file.fileno())
        data = b"" if found.st_size > limit else file.read(limit + 1)
    if (size := max(found.st_size, len(data))) > limit:
        raise TooLarge(
            f"{_display(folder.path / name)} has {size:,} bytes, more than the {limit:,} that can be read as a whole."
        )
    return data, found


@contextmanager
def _file(folder: Folder, name: str) -> Generator[BinaryIO]:
    """An open regular file. Its type is checked first, because opening some devices has side effects."""
    shown = folder.path / name
    _regular(os.stat(folder.at(name), dir_fd=folder.fd, follow_symlinks=False), shown)
    with os.fdopen(os.open(folder.at(name), _READ, dir_fd=folder.fd), "rb") as file:
        _regular(os.fstat(file.fileno()), shown)
        yield file


def _regular(found: os.stat_result, shown: Path) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise OutsideRoots(f"{_display(shown)} is a link, or was replaced by a link. It is not followed here.")
    if stat.S_ISDIR(found.st_mode):
        raise ToolError(f"{_display(shown)} is a folder; use list_dir.")
    if not stat.S_ISREG(found.st_mode):
        raise ToolError(f"{_display(shown)} is a pipe, socket or device, not a file.")


def _decoded(data: bytes, shown: Path) -> FileText:
    if (found := decode(data)) is None:
        raise ToolError(f"{_display(shown)} is a binary file ({len(data):,} bytes).")
    return FileText(*found)


def _encoded(text: str, before: FileText | None) -> bytes:
    old = before or FileText("")
    check_new(text, old.text)
    data = old.encoding.encode(text)
    if len(data) > MAX_BYTES:
        raise ToolError(f"The new text has {len(data):,} bytes, more than the {MAX_BYTES:,} that can be written.")
    return data


def _replace(folder: Folder, name: str, data: bytes, before: os.stat_result | None, mode: int | None = None) -> None:
    if before and (mode is None or mode == stat.S_IMODE(before.st_mode)):
        check_mode(before, folder.path / name)
    remove_leftovers(str(folder.path) if folder.fd is None else folder.fd)
    spare = spare_name()
    try:
        with os.fdopen(os.open(folder.at(spare), _CREATE, 0o600 if before else 0o666, dir_fd=folder.fd), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if before:
            _copy_mode_and_owner(folder, spare, before)
        if mode is not None:
            os.chmod(folder.at(spare), mode & 0o777, dir_fd=folder.fd)
        if before:
            _check_unchanged(folder, name, before)
            os.replace(folder.at(spare), folder.at(name), src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
        else:
            _link_new(folder, spare, name)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(folder.at(spare), dir_fd=folder.fd)


def _copy_mode_and_owner(folder: Folder, spare: str, before: os.stat_result) -> None:
    if hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(folder.at(spare), before.st_uid, before.st_gid, dir_fd=folder.fd)
    # Without set-user-id and similar bits: the kernel clears them too when the content of a file changes.
    os.chmod(folder.at(spare), before.st_mode & 0o777, dir_fd=folder.fd)


def _check_unchanged(folder: Folder, name: str, before: os.stat_result) -> None:
    """Check right before a change that the name still is the file that was compared."""
    now = os.stat(folder.at(name), dir_fd=folder.fd, follow_symlinks=False)
    if (now.st_dev, now.st_ino, now.st_mtime_ns, now.st_size) != (
        before.st_dev,
        before.st_ino,
        before.st_mtime_ns,
        before.st_size,
    ):
        raise ToolError(f"{_display(folder.path / name)} changed during the write; read it again.")


def _link_new(folder: Folder, spare: str, name: str) -> None:
    """Give the new file its name unless the name is taken: a link never overwrites a file, a rename does."""
    try:
        os.link(folder.at(spare), folder.at(name), src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
    except FileExistsError:
        raise ToolError(f"{_display(folder.path / name)} exists now; read it first.") from None
    except OSError:
        # The file system has no hard links. The name was free a moment ago, which is the best check left.
        os.replace(folder.at(spare), folder.at(name), src_dir_fd=folder.fd, dst_dir_fd=folder.fd)


def _mark(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "@"
    return "/" if entry.is_dir(follow_symlinks=False) else ""


def _display(path: Path) -> str:
    return visible(str(path))
