"""Runs one command and ends every process that it has started: when it ends, when the owner requests it, and when the
owner dies.

A standalone script, run as ``python -I -S guard.py GRACE CONTROL COMMAND...``. CONTROL is the number of a file
descriptor, the reading end of a pipe; closing the pipe is the request to end, and the death of the owner closes it too.
The output of the guard is that of the command. On its error output, the guard writes one line (see :func:`_report`). If
CONTROL is the input (0), the command has no input and its errors go to its output; otherwise the command has the input,
and its errors precede the report.

On Linux the guard is the reaper of all processes that its command starts: a process that forks away, starts its own
session or is disowned becomes a child of the guard, and no child is left when the guard ends. On other systems only the
process group of the command is ended, because nothing better is available.
"""

import os
import select
import signal
import sys
import time

_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36
_KILL_TIMEOUT = 3.0
"""Seconds that killed processes get to disappear."""
_POLL_INTERVAL = 0.01
_LINUX = sys.platform == "linux"


def main(arguments: list[str]) -> None:
    """Run the command; returns when none of its processes is left."""
    grace, control, command = float(arguments[0]), int(arguments[1]), arguments[2:]
    report, wakeup = os.dup(2), _wake_on_signals()
    if _LINUX:
        _prctl(_SET_CHILD_SUBREAPER)
    child = _start(command, control)
    _release_streams(control)
    code = _wait(child, wakeup, control)
    left = 0 if code is None else len(_running(child))
    if not _all_gone(child):
        ended = _end_all(child, grace)
        code = ended if code is None else code
    survivors = 0 if _all_gone(child) else max(1, len(_running(child)))
    _report(report, -signal.SIGKILL if code is None else code, left, survivors)


def _report(to: int, code: int, left: int, survivors: int) -> None:
    """Write a line with the exit code (negative: the signal that ended the command), the number of processes that it
    left behind, and the number of processes that could not be ended."""
    try:
        os.write(to, f"\n{code} {left} {survivors}\n".encode())
    except OSError:
        return  # the owner is gone


def _wake_on_signals() -> int:
    """A pipe that becomes readable when a child ends or when the guard receives a signal to end."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _ignore)
    return reading


def _ignore(number: int, frame: object) -> None:
    """The wakeup pipe reports the signal; the handler has nothing to do."""


def _start(command: list[str], control: int) -> int:
    """Fork the command into its own session. If it cannot be started, it prints the reason and exits with 127."""
    guard = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        if _LINUX:
            _prctl(_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guard:
                os._exit(127)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        if control == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(1, 2)
        else:
            os.close(control)
        os.execvp(command[0], command)  # noqa: S606 - the purpose of the guard
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _release_streams(control: int) -> None:
    """Close the guard's copies of the standard streams. The owner reads the output until its end, so only the command
    must hold the streams open."""
    null = os.open(os.devnull, os.O_RDWR)
    if control != 0:
        os.dup2(null, 0)
    os.dup2(null, 1)
    os.dup2(null, 2)


def _wait(child: int, wakeup: int, control: int) -> int | None:
    """The exit code of the command; ``None`` if it must be ended first."""
    poll = select.poll()
    poll.register(control, select.POLLIN | select.POLLHUP)
    poll.register(wakeup, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        if control in ready:
            return None
        signals = os.read(wakeup, 4096)
        code = _reap(child)
        if code is not None:
            return code
        if signals.strip(bytes([signal.SIGCHLD])):
            return None


def _reap(child: int) -> int | None:
    """Reap every child that has ended; returns the exit code of ``child`` if it is among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == child:
            code = os.waitstatus_to_exitcode(status)


def _all_gone(child: int) -> bool:
    """Whether no process is left. On Linux the kernel answers this reliably: every process below a reaper descends from
    one of its children, whereas a scan of ``/proc`` can miss a process whose parent ends meanwhile."""
    if not _LINUX:
        return not _group(child)
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _end_all(child: int, grace: float) -> int | None:
    """Terminate all processes, and kill those that have not ended after ``grace`` seconds. Returns the exit code of
    ``child``."""
    code: int | None = None
    for pid in _running(child):
        _send(pid, signal.SIGTERM)
        _send(pid, signal.SIGCONT)
    for deadline, kill in ((time.monotonic() + grace, False), (time.monotonic() + grace + _KILL_TIMEOUT, True)):
        while time.monotonic() < deadline:
            code = ended if (ended := _reap(child)) is not None else code
            if _all_gone(child):
                return code
            if kill:
                _kill_all(child)
            time.sleep(_POLL_INTERVAL)
    return code


def _kill_all(child: int) -> None:
    """Stop all processes before killing any, because a stopped process cannot start others."""
    stopped: set[int] = set()
    while new := [pid for pid in _running(child) if pid not in stopped]:
        for pid in new:
            _send(pid, signal.SIGSTOP)
        stopped.update(new)
    for pid in stopped:
        _send(pid, signal.SIGKILL)


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return  # it has ended, or it belongs to another user and will be reported as a survivor


def _running(child: int) -> list[int]:
    """The remaining processes of the command: on Linux all below the guard, elsewhere its process group, as the
    negative number that ``kill`` takes."""
    return _below(os.getpid()) if _LINUX else _group(child)


def _below(guard: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - see _parent
        if entry.isdigit() and (parent := _parent(entry)) is not None:
            children.setdefault(parent, []).append(int(entry))
    found = [guard]
    for pid in found:
        found += children.get(pid, ())
    return found[1:]


def _parent(pid: str) -> int | None:
    """The parent of a process; ``None`` if the process has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib would double the start-up time of the guard
            state, parent = file.read().rsplit(b")", 1)[1].split()[:2]
    except (OSError, IndexError, ValueError):
        return None
    return None if state in (b"Z", b"X") else int(parent)


def _group(child: int) -> list[int]:
    try:
        os.killpg(child, 0)
    except OSError:
        return []
    return [-child]


def _prctl(option: int, value: int = 1) -> None:
    import ctypes  # needed on Linux only

    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    main(sys.argv[1:])
