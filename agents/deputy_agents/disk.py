"""Files beneath a root folder, reached so that no name swapped for a link in between leads out.

Everything here blocks and belongs in a worker thread. A path is first resolved and then walked again from the root, one
folder descriptor after the other, following no link: what was a plain name when it was checked is one when it is used.
Where the platform has no such descriptors, full paths are used and only the first check holds.
"""

import errno
import os
import secrets
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from deputy_agents.errors import OutsideRoots, ToolError
from deputy_agents.text import visible

MAX_BYTES = 10 * 1024 * 1024
"""The largest file that is read or written whole."""

_BOM = b"\xef\xbb\xbf"
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


@dataclass(frozen=True, slots=True)
class FileText:
    """The text of a file. ``text`` keeps its line ends and lacks the byte order mark; ``exact`` is false when bytes
    that are no UTF-8 were replaced, so that writing it back would damage the file."""

    text: str
    bom: bool = False
    exact: bool = True


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


def write_text(root: Path, parts: Sequence[str], text: str, *, expected: str | None) -> None:
    """Replaces a file whose text is ``expected`` as a whole, or makes a new one (``None``) and the folders above it.

    The byte order mark, the mode and the owner stay. The name is replaced, so another hard link keeps its content.

    Raises:
        ToolError: the file is not as expected, is read-only, is no UTF-8, or cannot be written.
    """
    shown = root.joinpath(*parts)
    with explained(shown), _opened(root, parts[:-1], create=expected is None) as folder:
        before, found = _present(folder, parts[-1])
        if (before and before.text) != expected:
            raise ToolError(f"{_name(shown)} has changed since it was read; read it again.")
        _replace(folder, parts[-1], _encoded(text, before, shown), found)


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
    shown = folder.path / name
    # Looking first keeps devices shut: opening some of them already does something.
    _regular(os.stat(folder.at(name), dir_fd=folder.fd, follow_symlinks=False), shown)
    with os.fdopen(os.open(folder.at(name), _READ, dir_fd=folder.fd), "rb") as file:
        found = os.fstat(file.fileno())
        _regular(found, shown)
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ToolError(f"{_name(shown)} grew beyond {MAX_BYTES:,} bytes; use grep to find the part that matters.")
    return _decoded(data, shown), found


def _regular(found: os.stat_result, shown: Path) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise OutsideRoots(f"{_name(shown)} was replaced by a link.")
    if stat.S_ISDIR(found.st_mode):
        raise ToolError(f"{_name(shown)} is a folder; use list_dir.")
    if not stat.S_ISREG(found.st_mode):
        raise ToolError(f"{_name(shown)} is a pipe, socket or device, not a file.")
    if found.st_size > MAX_BYTES:
        raise ToolError(
            f"{_name(shown)} has {found.st_size:,} bytes, more than the {MAX_BYTES:,} that are read whole; "
            "use grep to find the part that matters."
        )


def _decoded(data: bytes, shown: Path) -> FileText:
    if b"\0" in data:
        raise ToolError(f"{_name(shown)} is a binary file ({len(data):,} bytes).")
    bom = data.startswith(_BOM)
    body = data[len(_BOM) :] if bom else data
    try:
        return FileText(body.decode(), bom)
    except UnicodeDecodeError:
        return FileText(body.decode(errors="replace"), bom, exact=False)


def _encoded(text: str, before: FileText | None, shown: Path) -> bytes:
    if before and not before.exact:
        raise ToolError(f"{_name(shown)} is not UTF-8 text; writing it would damage it.")
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise ToolError("The new text holds lone surrogates, which are no characters.") from error
    if len(data) > MAX_BYTES:
        raise ToolError(f"The new text has {len(data):,} bytes, more than the {MAX_BYTES:,} that are written.")
    return _BOM + data if before and before.bom else data


def _replace(folder: Folder, name: str, data: bytes, before: os.stat_result | None) -> None:
    if before and not before.st_mode & 0o222:
        raise ToolError(f"{_name(folder.path / name)} is read-only.")
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
