# ruff: noqa: PTH101, PTH115, PTH116, PTH123
# pathlib cannot work relative to open folders
"""What the broker does for a sandboxed command: one method for each kind of system call.

The path of a call is read once from the memory of the command, its folder is opened, and the name is looked at there.
So what is checked is what is changed, whatever the command does meanwhile.
"""

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable
from typing import Self

from deputy_agents.shell.brokered_areas import Areas, GoOn, Refused, is_below
from deputy_agents.shell.refusal import NETWORK, OUTSIDE, PROTECTED, SHARED, refusal_line
from deputy_agents.shell.syscall_filter import Listener, Reported

_RENAME = {"x86_64": 316, "aarch64": 276}
_EXCHANGE = 2
_AT_CWD, _FOLLOW, _EMPTY_PATH, _REMOVE_FOLDER, _NO_FOLLOW = -100, 0x400, 0x1000, 0x200, 0x100
_UNNAMED = 0o20000000
"""The flag that makes ``O_TMPFILE`` of ``O_DIRECTORY``."""
_MAX_PATH = 4096
_MAX_LINKS = 40
_MAX_REFUSALS = 16
"""Refusals that are reported; more are not needed to understand what happened."""
_DNS = 53
_LOCAL_FAMILIES = {2: (4, 4, b"\x7f"), 10: (8, 16, bytes(15) + b"\1")}
"""Families of internet addresses: where the address starts, its length, and the start of those of this machine."""

_libc = ctypes.CDLL(None, use_errno=True)


class Place:
    """A name in an open folder; ``path`` is the real path of both."""

    __slots__ = ("folder", "name", "path")

    def __init__(self, folder: int, name: str, path: str) -> None:
        self.folder = folder
        self.name = name
        self.path = path

    def status(self) -> os.stat_result | None:
        """What is there, without following a link; ``None`` if there is nothing."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None


class Broker:
    """Answers the reported calls of one command."""

    def __init__(self, areas: Areas, listener: Listener, channel: int) -> None:
        self._areas = areas
        self._listener = listener
        self._channel = channel
        self._told: set[str] = set()

    def answer_next(self) -> None:
        """Receive and answer one call."""
        call = self._listener.receive()
        if call is None:
            return
        try:
            _HANDLERS[call.name](self, call)
        except GoOn:
            self._listener.go_on(call)
        except Refused as refused:
            self._tell(refused.line)
            self._listener.fail(call, errno.EACCES)
        except OSError as error:
            self._listener.fail(call, error.errno or errno.EIO)

    def _tell(self, line: str) -> None:
        if line in self._told or len(self._told) >= _MAX_REFUSALS:
            return
        self._told.add(line)
        try:
            os.write(self._channel, line.encode(errors="surrogateescape"))
        except OSError:
            return  # the owner is gone

    # -- calls -------------------------------------------------------------------------------------------------------

    def open(self, call: Reported, at: int, path: int, flags: int, mode: int) -> None:
        """Open a file as the command would, and give it to the command."""
        if flags & os.O_PATH:
            raise GoOn
        creates = bool(flags & os.O_CREAT)
        new = creates and bool(flags & os.O_EXCL)
        follows = not (new or flags & os.O_NOFOLLOW)
        with Folders() as folders:
            place = self._final(call, folders, at, path, follow=follows)
            status = place.status()
            if status is not None and not stat.S_ISREG(status.st_mode):
                raise GoOn  # the command can write only to devices, and to pipes without a name
            self._require(place, flags)
            if flags & _UNNAMED:
                raise OSError(errno.EOPNOTSUPP, "")
            if status is not None:
                self._require_one_name(place, status)
            mode = mode & ~_umask(call.thread) if creates and status is None else 0
            fd = os.open(place.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode & 0o7777, dir_fd=place.folder)
            try:
                self._listener.give_file(call, fd, close_on_exec=bool(flags & os.O_CLOEXEC))
            finally:
                os.close(fd)

    def _require(self, place: Place, flags: int) -> None:
        try:
            self._areas.require_changeable(place.path)
        except GoOn:
            if not flags & (os.O_WRONLY | os.O_RDWR) and flags & os.O_TRUNC:
                raise OSError(errno.EACCES, "") from None  # old versions of Landlock do not consider it as writing
            self._tell_outside(place.path)
            raise

    def _tell_outside(self, path: str) -> None:
        if not path.startswith(("/dev/", "/proc/")) and not any(is_below(path, one) for one in self._areas.native):
            self._tell(refusal_line(OUTSIDE, path))

    def _require_one_name(self, place: Place, status: os.stat_result) -> None:
        """A change of a file with several names would change what the other names stand for."""
        if status.st_nlink > 1 and stat.S_ISREG(status.st_mode) and self._areas.is_own(place.path):
            raise Refused(SHARED, place.path)

    def create(self, call: Reported, at: int, path: int, mode: int) -> None:
        """``mknod``, for usual files only."""
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise OSError(errno.EPERM, "")
        with Folders() as folders:
            place = self._changeable(call, folders, at, path)
            fd = os.open(
                place.name,
                os.O_CREAT | os.O_EXCL | os.O_WRONLY,
                mode & 0o777 & ~_umask(call.thread),
                dir_fd=place.folder,
            )
            os.close(fd)
        self._listener.succeed(call)

    def make_folder(self, call: Reported, at: int, path: int, mode: int) -> None:
        with Folders() as folders:
            place = self._changeable(call, folders, at, path)
            os.mkdir(place.name, mode & 0o1777 & ~_umask(call.thread), dir_fd=place.folder)
        self._listener.succeed(call)

    def remove(self, call: Reported, at: int, path: int, flags: int) -> None:
        with Folders() as folders:
            place = self._changeable(call, folders, at, path)
            if flags & _REMOVE_FOLDER:
                os.rmdir(place.name, dir_fd=place.folder)
            else:
                os.unlink(place.name, dir_fd=place.folder)
        self._listener.succeed(call)

    def make_link(self, call: Reported, target: int, at: int, path: int) -> None:
        """``symlink``: what the link leads to is looked at when it is used."""
        with Folders() as folders:
            place = self._changeable(call, folders, at, path)
            os.symlink(self._text(call, target), place.name, dir_fd=place.folder)
        self._listener.succeed(call)

    def add_name(self, call: Reported, old: tuple[int, int], new: tuple[int, int], flags: int) -> None:
        """``link``"""
        if flags & _EMPTY_PATH:
            raise GoOn
        with Folders() as folders:
            target = self._changeable(call, folders, *new)
            source = self._final(call, folders, *old, follow=bool(flags & _FOLLOW))
            self._areas.require_changeable(source.path)
            os.link(source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder, follow_symlinks=False)
        self._listener.succeed(call)

    def rename(self, call: Reported, old: tuple[int, int], new: tuple[int, int], flags: int) -> None:
        with Folders() as folders:
            source = self._changeable(call, folders, *old)
            target = self._changeable(call, folders, *new)
            self._require_harmless_move(source, target.path)
            if flags & _EXCHANGE:
                self._require_harmless_move(target, source.path)
            names = (os.fsencode(source.name), os.fsencode(target.name))
            number = _RENAME[os.uname().machine]
            if _libc.syscall(number, source.folder, names[0], target.folder, names[1], ctypes.c_uint(flags)) != 0:
                raise OSError(ctypes.get_errno(), "")
        self._listener.succeed(call)

    def _require_harmless_move(self, source: Place, target: str) -> None:
        """Nothing in a folder may be protected, neither before nor after it is moved."""
        status = source.status()
        if status is None or not stat.S_ISDIR(status.st_mode):
            return
        for folder, folders, files in os.walk(source.path):
            below = folder[len(source.path) :]
            for name in (*folders, *files):
                for start in (source.path, target):
                    path = f"{start}{below}/{name}"
                    if self._areas.is_own(path) and self._areas.is_protected(path):
                        raise Refused(PROTECTED, path)

    def truncate(self, call: Reported, path: int, length: int) -> None:
        with Folders() as folders:
            place = self._final(call, folders, _AT_CWD, path, follow=True)
            self._areas.require_changeable(place.path)
            if (status := place.status()) is not None:
                self._require_one_name(place, status)
            fd = os.open(place.name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place.folder)
            try:
                os.ftruncate(fd, length)
            finally:
                os.close(fd)
        self._listener.succeed(call)

    def change_mode(self, call: Reported, at: int, path: int, mode: int) -> None:
        """``chmod``. No rule of Landlock covers it, so the kernel never decides about it."""
        with Folders() as folders:
            place = self._final(call, folders, at, path, follow=True)
            self._change_mode(
                place.path, folders.keep(os.open(place.name, os.O_PATH | os.O_NOFOLLOW, dir_fd=place.folder)), mode
            )
        self._listener.succeed(call)

    def change_mode_of_open_file(self, call: Reported, fd: int, mode: int) -> None:
        with Folders() as folders:
            opened = folders.keep(os.open(f"/proc/{call.thread}/fd/{fd}", os.O_PATH))
            self._require_valid(call)
            self._change_mode(os.readlink(f"/proc/self/fd/{opened}"), opened, mode)
        self._listener.succeed(call)

    def _change_mode(self, path: str, opened: int, mode: int) -> None:
        status = os.fstat(opened)
        if self._areas.is_own(path):
            self._areas.require_changeable(path)
            self._require_one_name(Place(opened, "", path), status)
        elif not self._areas.is_covered(path):
            raise Refused(OUTSIDE, path)
        os.chmod(f"/proc/self/fd/{opened}", mode & 0o7777)

    def connect(self, call: Reported, address: int, length: int) -> None:
        """Note a connection that leads out of the sandbox; the kernel has no network for it."""
        data = self._memory(call, address, min(length, 128))
        family = int.from_bytes(data[:2], sys.byteorder)
        if family in _LOCAL_FAMILIES:
            start, size, local = _LOCAL_FAMILIES[family]
            host, port = data[start : start + size], int.from_bytes(data[2:4], "big")
            if not host.startswith(local) or port == _DNS:
                self._tell(refusal_line(NETWORK, "a name server" if port == _DNS else _address(host, port)))
        raise GoOn

    # -- paths -------------------------------------------------------------------------------------------------------

    def _changeable(self, call: Reported, folders: "Folders", at: int, path: int) -> Place:
        """The place of a name that is to appear, change its meaning, or disappear.

        Raises:
            GoOn: the broker does not decide about it.
            Refused: it is protected.
        """
        place = self._place(call, folders, at, self._text(call, path))
        try:
            self._areas.require_changeable(place.path)
        except GoOn:
            self._tell_outside(place.path)
            raise
        return place

    def _final(self, call: Reported, folders: "Folders", at: int, path: int, *, follow: bool) -> Place:
        """The place to which a path leads."""
        place = self._place(call, folders, at, self._text(call, path))
        for _ in range(_MAX_LINKS):
            status = place.status()
            if not follow or status is None or not stat.S_ISLNK(status.st_mode):
                return place
            target = os.readlink(place.name, dir_fd=place.folder)
            if place.path.startswith("/proc/") and not (self._areas.is_covered(target) and os.path.lexists(target)):
                raise GoOn  # an open file, which need not have a path
            place = self._place(call, folders, place.folder, target, opened=True)
        raise OSError(errno.ELOOP, "")

    def _place(self, call: Reported, folders: "Folders", at: int, text: str, *, opened: bool = False) -> Place:
        """The folder of ``text``, opened, and the name in it. ``at`` is a descriptor of the command, or with ``opened``
        one of the broker."""
        head, _, name = text.rstrip("/").rpartition("/")
        if not text or name in ("", ".", ".."):
            raise GoOn  # the kernel has an error for each of these
        head = f"{head}/" if head or text.startswith("/") else "."
        for own in ("/proc/self/", "/proc/thread-self/"):
            if head.startswith(own):
                head = f"/proc/{call.thread}/{head[len(own) :]}"
        if not opened and not head.startswith("/"):
            source = "cwd" if at == _AT_CWD else f"fd/{at}"
            at = folders.keep(os.open(f"/proc/{call.thread}/{source}", os.O_PATH | os.O_DIRECTORY))
        if os.stat(f"/proc/{call.thread}/root") != os.stat("/"):
            raise GoOn  # the command has changed its root folder
        self._require_valid(call)
        folder = folders.keep(os.open(head, os.O_PATH | os.O_DIRECTORY, dir_fd=None if head.startswith("/") else at))
        real = os.readlink(f"/proc/self/fd/{folder}")
        if os.fstat(folder).st_nlink == 0:
            raise OSError(errno.ENOENT, "")
        return Place(folder, name, f"{real.rstrip('/')}/{name}")

    def _text(self, call: Reported, address: int) -> str:
        data = self._memory(call, address, _MAX_PATH)
        text, end, _ = data.partition(b"\0")
        if not end:
            raise OSError(errno.ENAMETOOLONG if len(data) == _MAX_PATH else errno.EFAULT, "")
        return os.fsdecode(text)

    def _memory(self, call: Reported, address: int, size: int) -> bytes:
        """Memory of the command. What cannot be read, the kernel decides about."""
        try:
            memory = os.open(f"/proc/{call.thread}/mem", os.O_RDONLY)
        except OSError:
            raise GoOn from None
        try:
            self._require_valid(call)
            return os.pread(memory, size, address)
        except (OSError, OverflowError):
            raise OSError(errno.EFAULT, "") from None
        finally:
            os.close(memory)

    def _require_valid(self, call: Reported) -> None:
        """What was opened by the number of a thread belongs to the caller only if the call still waits."""
        if not self._listener.is_valid(call):
            raise OSError(errno.EINTR, "")


class Folders:
    """Descriptors that are closed together."""

    def __init__(self) -> None:
        self._opened: list[int] = []

    def keep(self, fd: int) -> int:
        self._opened.append(fd)
        return fd

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._opened:
            os.close(fd)


def _number(value: int) -> int:
    """A signed argument of 32 bits, such as a descriptor."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


_Handler = Callable[[Broker, Reported], None]

_HANDLERS: dict[str, _Handler] = {
    "open": lambda b, c: b.open(c, _AT_CWD, c.arguments[0], _number(c.arguments[1]), c.arguments[2]),
    "openat": lambda b, c: b.open(c, _number(c.arguments[0]), c.arguments[1], _number(c.arguments[2]), c.arguments[3]),
    "creat": lambda b, c: b.open(c, _AT_CWD, c.arguments[0], os.O_CREAT | os.O_WRONLY | os.O_TRUNC, c.arguments[1]),
    "mknod": lambda b, c: b.create(c, _AT_CWD, c.arguments[0], c.arguments[1]),
    "mknodat": lambda b, c: b.create(c, _number(c.arguments[0]), c.arguments[1], c.arguments[2]),
    "mkdir": lambda b, c: b.make_folder(c, _AT_CWD, c.arguments[0], c.arguments[1]),
    "mkdirat": lambda b, c: b.make_folder(c, _number(c.arguments[0]), c.arguments[1], c.arguments[2]),
    "unlink": lambda b, c: b.remove(c, _AT_CWD, c.arguments[0], 0),
    "rmdir": lambda b, c: b.remove(c, _AT_CWD, c.arguments[0], _REMOVE_FOLDER),
    "unlinkat": lambda b, c: b.remove(c, _number(c.arguments[0]), c.arguments[1], c.arguments[2]),
    "symlink": lambda b, c: b.make_link(c, c.arguments[0], _AT_CWD, c.arguments[1]),
    "symlinkat": lambda b, c: b.make_link(c, c.arguments[0], _number(c.arguments[1]), c.arguments[2]),
    "link": lambda b, c: b.add_name(c, (_AT_CWD, c.arguments[0]), (_AT_CWD, c.arguments[1]), 0),
    "linkat": lambda b, c: b.add_name(c, *_two_places(c), c.arguments[4]),
    "rename": lambda b, c: b.rename(c, (_AT_CWD, c.arguments[0]), (_AT_CWD, c.arguments[1]), 0),
    "renameat": lambda b, c: b.rename(c, *_two_places(c), 0),
    "renameat2": lambda b, c: b.rename(c, *_two_places(c), c.arguments[4]),
    "truncate": lambda b, c: b.truncate(c, c.arguments[0], c.arguments[1]),
    "chmod": lambda b, c: b.change_mode(c, _AT_CWD, c.arguments[0], c.arguments[1]),
    "fchmodat": lambda b, c: b.change_mode(c, _number(c.arguments[0]), c.arguments[1], c.arguments[2]),
    "fchmod": lambda b, c: b.change_mode_of_open_file(c, _number(c.arguments[0]), c.arguments[1]),
    "connect": lambda b, c: b.connect(c, c.arguments[1], c.arguments[2]),
}
"""What answers each reported call, with its arguments in the order of the kernel."""


def _two_places(call: Reported) -> tuple[tuple[int, int], tuple[int, int]]:
    old_folder, old, new_folder, new = call.arguments[:4]
    return (_number(old_folder), old), (_number(new_folder), new)


def _umask(thread: int) -> int:
    with open(f"/proc/{thread}/status", "rb") as file:
        line = next(line for line in file if line.startswith(b"Umask:"))
    return int(line.split()[1], 8)


def _address(host: bytes, port: int) -> str:
    import ipaddress

    shown = str(ipaddress.ip_address(host))
    return f"[{shown}]:{port}" if ":" in shown else f"{shown}:{port}"
