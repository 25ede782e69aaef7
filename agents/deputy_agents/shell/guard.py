"""Runs one command, and ends everything that it has started: on its end, on a word of the owner, and with the owner.

A script of its own, run as ``python -I -S guard.py GRACE WORD COMMAND...`` with pipes: the end of the one of number
WORD is the word to end; its output is that of the command; on its error output it reports one line (see
:func:`_report`). A killed owner closes the pipe as well as a living one. Where WORD is its input (0), the command has
no input and prints its errors with its output; else it has the input, and its errors stand before the report.

On Linux the guard is the reaper of whatever its command starts: a process that forks away, starts a session of its own
or is disowned becomes the guard's child, and no child is left when the guard ends. Elsewhere only the process group of
the command is ended, which is the best that there is.
"""

import os
import select
import signal
import sys
import time

_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36
_LIMIT = 3.0
"""Seconds that the processes may take to be gone once they were killed."""
_STEP = 0.01
_LINUX = sys.platform == "linux"


def main(arguments: list[str]) -> None:
    """Returns when nothing of the command is left."""
    grace, word, command = float(arguments[0]), int(arguments[1]), arguments[2:]
    report, woken = os.dup(2), _wake_on_signals()
    if _LINUX:
        _prctl(_SET_CHILD_SUBREAPER)
    child = _start(command, word)
    _let_go(word)
    code = _wait(child, woken, word)
    left = 0 if code is None else len(_living(child))
    if not _all_gone(child):
        ended = _end_all(child, grace)
        code = ended if code is None else code
    survivors = 0 if _all_gone(child) else max(1, len(_living(child)))
    _report(report, -signal.SIGKILL if code is None else code, left, survivors)


def _report(to: int, code: int, left: int, survivors: int) -> None:
    """Tells, on a line of its own, the exit code (negative: the signal that ended it), how many processes it left
    behind, and how many of all could not be ended."""
    try:
        os.write(to, f"\n{code} {left} {survivors}\n".encode())
    except OSError:
        return  # nobody is there any more who wants to know


def _wake_on_signals() -> int:
    """A pipe that is readable after the end of a child, or after a signal that means the guard."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _heard)
    return reading


def _heard(number: int, frame: object) -> None:
    """The pipe has told of it already."""


def _start(command: list[str], word: int) -> int:
    """Forks the command into a session of its own. One that cannot be started ends with 127, and says why."""
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
        if word == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(1, 2)
        else:
            os.close(word)
        os.execvp(command[0], command)  # noqa: S606 - that is what it is for
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _let_go(word: int) -> None:
    """The owner reads to the end of the output, and writes to the end of the input: only the command must hold them
    open."""
    nothing = os.open(os.devnull, os.O_RDWR)
    if word != 0:
        os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)


def _wait(child: int, woken: int, word: int) -> int | None:
    """The exit code of the command; ``None`` when it is to be ended before."""
    poll = select.poll()
    poll.register(word, select.POLLIN | select.POLLHUP)
    poll.register(woken, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        if word in ready:
            return None
        signals = os.read(woken, 4096)
        code = _reap(child)
        if code is not None:
            return code
        if signals.strip(bytes([signal.SIGCHLD])):
            return None


def _reap(child: int) -> int | None:
    """Takes leave of every child that has ended; the exit code of ``child`` if it is among them."""
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
    """Whether nothing is left. On Linux the kernel knows: what lives below a reaper hangs on one of its children,
    while a look at one process after the other can miss one whose parent ends meanwhile."""
    if not _LINUX:
        return not _group(child)
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _end_all(child: int, grace: float) -> int | None:
    """Asks all to end, and kills those that have not within ``grace`` seconds. The exit code of ``child``."""
    code: int | None = None
    for pid in _living(child):
        _send(pid, signal.SIGTERM)
        _send(pid, signal.SIGCONT)
    for deadline, kill in ((time.monotonic() + grace, False), (time.monotonic() + grace + _LIMIT, True)):
        while time.monotonic() < deadline:
            code = ended if (ended := _reap(child)) is not None else code
            if _all_gone(child):
                return code
            if kill:
                _kill_all(child)
            time.sleep(_STEP)
    return code


def _kill_all(child: int) -> None:
    """Stops all before it kills any: what is stopped starts no more."""
    stopped: set[int] = set()
    while new := [pid for pid in _living(child) if pid not in stopped]:
        for pid in new:
            _send(pid, signal.SIGSTOP)
        stopped.update(new)
    for pid in stopped:
        _send(pid, signal.SIGKILL)


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return  # it is gone, or it runs as someone else and is reported as a survivor


def _living(child: int) -> list[int]:
    """What is left of the command: all processes below the guard; where that cannot be seen, the group of the command,
    as ``kill`` names it."""
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
    """``None`` for a process that has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib would double the start-up of the guard
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
    import ctypes  # for Linux alone

    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    main(sys.argv[1:])
