"""A seccomp filter that reports system calls to another process, and the answers to them.

The kernel suspends a reported call until it is answered: with a result, an error, an open file, or by going on with it.
Shared with the guard's helpers, so it must load fast.
"""

import ctypes
import errno
import fcntl
import os
import sys

_SECCOMP = {"x86_64": 317, "aarch64": 277}
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000
"""Numbers of the second set of system calls on x86."""
_SET_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 1 << 3, 1 << 5

_ALLOW, _REPORT, _FAIL = 0x7FFF0000, 0x7FC00000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16

_RECEIVE, _SEND, _STILL_VALID, _ADD_FILE = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
_GO_ON, _ADD_AND_SEND = 1, 2

_TABLES = {
    "x86_64": (
        "open 2, connect 42, socket 41, truncate 76, rename 82, mkdir 83, rmdir 84, creat 85, link 86, "
        "unlink 87, symlink 88, chmod 90, fchmod 91, mknod 133, add_key 248, request_key 249, keyctl 250, "
        "openat 257, mkdirat 258, mknodat 259, unlinkat 263, renameat 264, linkat 265, symlinkat 266, "
        "fchmodat 268, renameat2 316, io_uring_setup 425, openat2 437, fchmodat2 452"
    ),
    "aarch64": (
        "mknodat 33, mkdirat 34, unlinkat 35, symlinkat 36, linkat 37, renameat 38, truncate 45, "
        "fchmod 52, fchmodat 53, openat 56, socket 198, connect 203, add_key 217, request_key 218, "
        "keyctl 219, renameat2 276, io_uring_setup 425, openat2 437, fchmodat2 452"
    ),
}
"""Numbers of system calls by architecture. An old call may be missing on a newer architecture."""
NUMBERS = {
    machine: {name: int(number) for name, number in (entry.split(" ") for entry in table.split(", "))}
    for machine, table in _TABLES.items()
}

_REPORTED = (
    *("creat", "truncate", "mkdir", "mkdirat", "mknod", "mknodat", "rename", "renameat", "renameat2", "link", "linkat"),
    *("symlink", "symlinkat", "unlink", "unlinkat", "rmdir", "chmod", "fchmod", "fchmodat", "connect"),
)
_OPENING = {"open": 1, "openat": 2}
"""Calls that are reported if they may write, by the position of their flags."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_MISSING = ("openat2", "fchmodat2", "io_uring_setup", "add_key", "request_key", "keyctl")
"""Calls that fail as if the kernel did not have them: programs use others instead, or look into the user's keyrings."""
_SOCKETS = (1, 2, 10, 16)
"""Families of sockets that a network namespace confines: local, IPv4, IPv6, and the kernel's own."""

_MACHINE = os.uname().machine if sys.platform == "linux" else ""
_libc = ctypes.CDLL(None, use_errno=True)


class _Report(ctypes.Structure):
    _fields_ = (
        ("id", ctypes.c_uint64),
        ("thread", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("number", ctypes.c_int32),
        ("architecture", ctypes.c_uint32),
        ("instruction", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
    )


class _Answer(ctypes.Structure):
    _fields_ = (
        ("id", ctypes.c_uint64),
        ("value", ctypes.c_int64),
        ("error", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
    )


class _AddedFile(ctypes.Structure):
    _fields_ = (
        ("id", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("file", ctypes.c_uint32),
        ("new_number", ctypes.c_uint32),
        ("new_flags", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.c_void_p))


class Reported:
    """A system call that waits for its answer."""

    __slots__ = ("arguments", "id", "name", "thread")

    def __init__(self, id: int, thread: int, name: str, arguments: tuple[int, ...]) -> None:
        self.id = id
        self.thread = thread
        self.name = name
        self.arguments = arguments


def is_supported() -> bool:
    """Whether the numbers of this architecture's system calls are known."""
    return _MACHINE in NUMBERS


def install() -> int:
    """Filter the system calls of this process and of all that it starts from now on. Returns the file descriptor that
    receives the reported ones. This process must have given up gaining privileges.

    Raises:
        OSError: the system does not allow it.
    """
    instructions = _filter(_MACHINE)
    text = b"".join(
        code.to_bytes(2, sys.byteorder) + bytes((yes, no)) + value.to_bytes(4, sys.byteorder)
        for code, yes, no, value in instructions
    )
    buffer = ctypes.create_string_buffer(text, len(text))
    program = _Program(len(instructions), ctypes.cast(buffer, ctypes.c_void_p))
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):  # the first needs Linux 5.19
        listener = _libc.syscall(_SECCOMP[_MACHINE], _SET_FILTER, ctypes.c_ulong(flags), ctypes.byref(program))
        if listener >= 0:
            return listener
        if ctypes.get_errno() != errno.EINVAL:
            break
    raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")


def _filter(machine: str) -> list[tuple[int, int, int, int]]:
    """The instructions of the filter. A call of another architecture fails."""
    numbers = NUMBERS[machine]
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, _ARCHITECTURE[machine]),
        (_RETURN, 0, 0, _FAIL | errno.ENOSYS),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _FAIL | errno.ENOSYS),
    ]
    for names, result in ((_REPORTED, _REPORT), (_MISSING, _FAIL | errno.ENOSYS)):
        for name in names:
            if name in numbers:
                program += [(_EQUAL, 0, 1, numbers[name]), (_RETURN, 0, 0, result)]
    for name, position in _OPENING.items():
        if name in numbers:
            program += [
                (_EQUAL, 0, 4, numbers[name]),
                (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * position),
                (_ANY_BIT, 0, 1, _WRITING),
                (_RETURN, 0, 0, _REPORT),
                (_RETURN, 0, 0, _ALLOW),
            ]
    count = len(_SOCKETS)
    program += [(_EQUAL, 0, count + 2, numbers["socket"]), (_LOAD, 0, 0, _ARGUMENTS_AT)]
    program += [(_EQUAL, count - index, 0, family) for index, family in enumerate(_SOCKETS)]
    program += [(_RETURN, 0, 0, _FAIL | errno.EAFNOSUPPORT), (_RETURN, 0, 0, _ALLOW)]
    return program


class Listener:
    """Receives reported calls and answers them."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._names = {number: name for name, number in NUMBERS[_MACHINE].items()}

    def receive(self) -> Reported | None:
        """The next call; ``None`` if the process that made it has ended meanwhile."""
        report = _Report()
        try:
            fcntl.ioctl(self._fd, _RECEIVE, report)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                return None
            raise
        return Reported(report.id, report.thread, self._names[report.number], tuple(report.arguments))

    def is_valid(self, call: Reported) -> bool:
        """Whether the thread still waits, so that its number is not that of another one by now."""
        try:
            fcntl.ioctl(self._fd, _STILL_VALID, call.id.to_bytes(8, sys.byteorder))
        except OSError:
            return False
        return True

    def succeed(self, call: Reported) -> None:
        """Answer with the result 0."""
        self._answer(_Answer(call.id, 0, 0, 0))

    def fail(self, call: Reported, number: int) -> None:
        """Answer with an error."""
        self._answer(_Answer(call.id, 0, -number, 0))

    def go_on(self, call: Reported) -> None:
        """Let the kernel perform the call. What it then reads from the memory of the process may have changed."""
        self._answer(_Answer(call.id, 0, 0, _GO_ON))

    def give_file(self, call: Reported, fd: int, *, close_on_exec: bool) -> None:
        """Answer with an open file."""
        added = _AddedFile(call.id, _ADD_AND_SEND, fd, 0, os.O_CLOEXEC if close_on_exec else 0)
        _ignoring_ended(self._fd, _ADD_FILE, added)

    def _answer(self, answer: _Answer) -> None:
        _ignoring_ended(self._fd, _SEND, answer)


def _ignoring_ended(fd: int, request: int, what: ctypes.Structure) -> None:
    """Send an answer, which nobody needs if the process has ended meanwhile."""
    try:
        fcntl.ioctl(fd, request, what)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EINPROGRESS):
            raise
