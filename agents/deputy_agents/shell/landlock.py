"""Landlock: the kernel denies this process, and all that it starts, to open for writing, create, delete or rename
anything outside some folders. Unlike a read-only mount it also covers devices, pipes and the files of ``/proc``; it
does not cover modes, owners and times, which a read-only mount does.

Imported by the guard, so it must load fast. See ``docs/decisions/0014-isolation.md`` for why this is no library.
"""

import ctypes
import errno
import os

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_VERSION_FLAG, _PATH_BENEATH = 1, 1
MIN_VERSION = 2
"""The first version that allows moving a file to another folder."""

_WRITE_FILE, _TRUNCATE, _IOCTL_DEVICE = 1 << 1, 1 << 14, 1 << 15
_RIGHTS = {1: _WRITE_FILE | 0b1_1111_1111_0000, 2: 1 << 13, 3: _TRUNCATE, 5: _IOCTL_DEVICE}
"""Rights by the version that introduced them: write, remove and make all kinds of files; move; truncate; control a
device."""

_libc = ctypes.CDLL(None, use_errno=True)


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def version() -> int:
    """The version of Landlock in this kernel; 0 if there is none."""
    return max(0, _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG))


def restrict_writes(folders: list[str]) -> None:
    """Deny writing outside ``folders``. This process must have given up gaining privileges.

    Raises:
        OSError: the kernel does not support it.
    """
    found = version()
    if found < MIN_VERSION:
        raise OSError(errno.ENOSYS, "Landlock is not available")
    rights = sum(bits for since, bits in _RIGHTS.items() if since <= found)
    ruleset = _call(_CREATE_RULESET, ctypes.byref(ctypes.c_uint64(rights)), ctypes.c_size_t(8), 0)
    for folder in folders:
        fd = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(_PathBeneath(rights, fd)), 0)
        os.close(fd)
    _call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _call(number: int, *arguments: object) -> int:
    result = _libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"Landlock: {os.strerror(ctypes.get_errno())}")
    return result
