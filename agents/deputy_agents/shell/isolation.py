# ruff: noqa: PTH102, PTH103, PTH113, PTH116, PTH118, PTH120, PTH123, PTH208, PTH211, S108
# pathlib would double the start-up time of the guard; the temporary folders are private ones
"""Namespaces for a command, made by its guard on Linux with system calls alone.

*Isolated* commands have their own process identifiers and their own ``/proc``, so nothing of other processes can be
read, signalled or traced; all else is as outside. *Sandboxed* commands have, besides, no network, and a view of the
files that is described by a list of mounts.

A user without privileges needs a user namespace for this, in which only this user exists: files of all others, root
included, appear to belong to ``nobody``, and no program can gain privileges. Root needs none and keeps its rights over
files, devices and the network.

Imported by the guard for every command, so it must load fast: a few modules of the standard library, and no others.
"""

import ctypes
import errno
import os
import stat
import sys

from deputy_agents.shell import landlock
from deputy_agents.shell.mount_kinds import HIDDEN, READ_ONLY, SCRATCH, WRITABLE

_NEWNS = 0x00020000
_NEWIPC = 0x08000000
_NEWUSER = 0x10000000
_NEWPID = 0x20000000
_NEWNET = 0x40000000

_RDONLY, _NOSUID, _NODEV, _NOEXEC, _BIND, _REC, _SLAVE = 0x1, 0x2, 0x4, 0x8, 0x1000, 0x4000, 0x80000
_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE, _ATTR_RDONLY, _MOUNT_SETATTR = -100, 0x8000, 0x1, 442

_CAPBSET_READ, _CAPBSET_DROP, _SET_NO_NEW_PRIVS = 23, 24, 38
_INSPECTING = (16, 17, 19, 38, 39, 40)
"""Capabilities that serve to look into, or to change, what namespaces hide: SYS_MODULE, SYS_RAWIO, SYS_PTRACE, PERFMON,
BPF, CHECKPOINT_RESTORE."""
_CAPABILITY_VERSION = 0x20080522
_CAPABILITIES = 64
_SIOCSIFFLAGS, _IFF_UP, _IFF_RUNNING = 0x8914, 0x1, 0x40

_SSH_CONFIG = "/etc/ssh/ssh_config"
_MAX_INCLUDED = 64
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(*, sandbox: bool) -> None:
    """Leave the namespaces of this process. The next child is the first process of the new ones; it must call
    :func:`enter`.

    Raises:
        OSError: the system does not allow it.
    """
    flags = _NEWNS | _NEWPID | (_NEWNET | _NEWIPC if sandbox else 0)
    if os.geteuid() == 0:
        _call("unshare", flags)
        return
    uid, gid = os.geteuid(), os.getegid()
    _call("unshare", flags | _NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        _write(f"/proc/self/{name}", text)


def enter() -> None:
    """Complete the isolation in the first process of the new namespaces.

    Raises:
        OSError: the system does not allow it.
    """
    _mount(None, "/", None, _REC | _SLAVE)
    if os.geteuid() == 0:
        _call("umount2", b"/proc", _DETACH)  # otherwise, unmounting the new one would uncover it
    else:
        _take_over_ssh_config()
    _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    _drop(_INSPECTING)


def enter_sandbox(mounts: list[tuple[str, str]], cwd: str) -> None:
    """Complete the sandbox in the first process of the new namespaces; afterwards nothing can be mounted, and no
    privilege gained. ``mounts`` are what the command gets and where, folders before what is in them.

    Raises:
        OSError: the system does not allow it.
    """
    _mount(None, "/", None, _REC | _SLAVE)
    sources = {path: os.open(path, os.O_PATH) for kind, path in mounts if kind in (WRITABLE, READ_ONLY)}
    devices = {name: os.open(f"/dev/{name}", os.O_PATH) for name in _DEVICES}
    _set_read_only("/", recursive=True)
    for kind, path in mounts:
        _apply(kind, path, sources.get(path, devices["null"]))
    _make_devices(devices)
    for kind, path in mounts:
        if kind == HIDDEN:
            _set_read_only(path)
    _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    for fd in (*sources.values(), *devices.values()):
        os.close(fd)
    os.chdir(cwd)
    _raise_loopback()
    _drop(range(_CAPABILITIES))
    _prctl(_SET_NO_NEW_PRIVS, 1)
    landlock.restrict_writes([*(path for kind, path in mounts if kind in (WRITABLE, SCRATCH)), "/dev"])


def _apply(kind: str, path: str, source: int) -> None:
    if kind == SCRATCH:
        _mount("tmpfs", path, "tmpfs", _NOSUID | _NODEV, "mode=1777")
    elif kind == HIDDEN:
        _mount("tmpfs", path, "tmpfs", _NOSUID | _NODEV | _NOEXEC, "mode=0755,size=64k")
    else:
        if not os.path.lexists(path):  # one of the folders above it is empty now
            _make_place(path, folder=stat.S_ISDIR(os.fstat(source).st_mode))
        _mount(f"/proc/self/fd/{source}", path, None, _BIND | _REC)
        _set_read_only(path, recursive=True, on=kind != WRITABLE)


def _make_place(path: str, *, folder: bool) -> None:
    os.makedirs(path if folder else os.path.dirname(path), exist_ok=True)
    if not folder:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))


def _make_devices(devices: dict[str, int]) -> None:
    """Replace ``/dev`` by one with harmless devices only."""
    _mount("tmpfs", "/dev", "tmpfs", _NOSUID | _NOEXEC, "mode=0755")
    for name, fd in devices.items():
        _make_place(f"/dev/{name}", folder=False)
        _mount(f"/proc/self/fd/{fd}", f"/dev/{name}", None, _BIND)
    for name in ("pts", "shm"):
        os.mkdir(f"/dev/{name}")
    _mount("devpts", "/dev/pts", "devpts", _NOSUID | _NOEXEC, "newinstance,ptmxmode=0666,mode=620")
    _mount("tmpfs", "/dev/shm", "tmpfs", _NOSUID | _NODEV, "mode=1777")
    for name, target in _LINKS.items():
        os.symlink(target, f"/dev/{name}")
    _set_read_only("/dev")


def _take_over_ssh_config() -> None:
    """Replace the system's configuration files of ssh by copies that belong to the user. Ssh rejects an included file
    that belongs neither to root nor to the user, and so would fail in a user namespace: ``git fetch`` included."""
    user = os.geteuid()
    files = [path for path in _included(_SSH_CONFIG, []) if os.stat(path).st_uid != user]
    if not files:
        return
    contents = [_read(path) for path in files]
    _mount("tmpfs", "/proc", "tmpfs", _NOSUID | _NODEV | _NOEXEC, "mode=0755")  # the new /proc will cover it
    for number, path in enumerate(files):
        _write(f"/proc/{number}", contents[number], os.O_CREAT)
        _mount(f"/proc/{number}", path, None, _BIND)
    _call("umount2", b"/proc", _DETACH)


def _included(config: str, found: list[str]) -> list[str]:
    """The files that an ssh configuration file includes, directly or not, as far as the user can read them."""
    for line in _read(config).splitlines():
        keyword, _, patterns = line.strip().replace("=", " ", 1).partition(" ")
        if keyword.lower() == "include":
            for pattern in patterns.replace('"', " ").split():
                for path in _matching(os.path.join(os.path.dirname(_SSH_CONFIG), pattern)):
                    if path not in found and len(found) < _MAX_INCLUDED:
                        found.append(path)
                        _included(path, found)
    return found


def _matching(pattern: str) -> list[str]:
    """The readable files that match a pattern with at most one ``*``, in its last part. The module for patterns takes
    longer to load than all of this."""
    folder, name = os.path.split(pattern)
    start, star, end = name.partition("*")
    try:
        names = sorted(os.listdir(folder)) if star else [name]
    except OSError:
        return []
    matching = [one for one in names if not star or (one.startswith(start) and one.endswith(end))]
    paths = [os.path.realpath(os.path.join(folder, one)) for one in matching]
    return [path for path in paths if os.path.isfile(path) and os.access(path, os.R_OK)]


def _raise_loopback() -> None:
    """Programs in the sandbox may talk to each other over the network of the sandbox."""
    import fcntl
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = b"lo".ljust(16, b"\0") + (_IFF_UP | _IFF_RUNNING).to_bytes(2, sys.byteorder)
        fcntl.ioctl(control, _SIOCSIFFLAGS, request.ljust(40, b"\0"))


def _drop(capabilities: "range | tuple[int, ...]") -> None:
    """Give up capabilities for good, as far as this process has them."""
    for one in capabilities:
        if _libc.prctl(_CAPBSET_READ, one, 0, 0, 0) == 1:
            _prctl(_CAPBSET_DROP, one)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; then the same for the upper half
    _call("capget", header, sets)
    for one in capabilities:
        for kind in range(3):
            sets[3 * (one // 32) + kind] &= ~(1 << one % 32)
    _call("capset", header, sets)


def _set_read_only(path: str, *, recursive: bool = False, on: bool = True) -> None:
    attributes = (ctypes.c_uint64 * 4)(*((_ATTR_RDONLY, 0) if on else (0, _ATTR_RDONLY)))
    flags = _AT_RECURSIVE if recursive else 0
    if _libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(path), flags, attributes, ctypes.sizeof(attributes)) == 0:
        return
    if on or ctypes.get_errno() != errno.EPERM:  # what was read-only outside remains so
        _raise(f"mount_setattr {path}")


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    if _libc.mount(*texts[:3], ctypes.c_ulong(flags), texts[3]) != 0:
        _raise(f"mount {target}")


def _prctl(option: int, value: int) -> None:
    _call("prctl", option, ctypes.c_ulong(value), 0, 0, 0)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        _raise(name)


def _raise(what: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{what}: {os.strerror(number)}")


def _read(path: str) -> str:
    """The text of a file; empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str, flags: int = 0) -> None:
    fd = os.open(path, os.O_WRONLY | flags, 0o644)
    try:
        os.write(fd, os.fsencode(text))
    finally:
        os.close(fd)
