# ruff: noqa: PTH100, PTH120, PTH123, PTH208
# pathlib would double the start-up time of the guard
"""Runs one command and ends every process that it has started: when it ends, when the owner requests it, and when the
owner dies.

A script with an interpreter of its own, run as ``python -I -S guard.py GRACE CONTROL MODE OPTIONS... -- COMMAND...``.
It loads little, because it starts for every command. CONTROL is the number of a file descriptor, the reading end of a
pipe; closing the pipe is the request to end, and the death of the owner closes it too. The output of the guard is that
of the command. On its error output, the guard writes one line (see :func:`_report`). If CONTROL is the input (0), the
command has no input and its errors go to its output; otherwise the command has the input, and its errors precede the
report.

With the MODE ``isolated`` or ``sandboxed``, the command has its own namespaces (see ``isolation.py``). The guard is the
first process in them, and the kernel ends all others with it; a parent, which no process inside can see, only waits for
it. With the MODE ``plain``, the guard is on Linux the reaper of all processes that its command starts: a process that
forks away, starts its own session or is disowned becomes a child of the guard, and no child is left when the guard
ends. On other systems only the process group of the command is ended, because nothing better is available.
"""

import os
import select
import signal
import sys
import time

PLAIN, ISOLATED, SANDBOXED = "plain", "isolated", "sandboxed"
NOT_ISOLATED = 126
"""Exit code if the namespaces could not be made; the output has the reason."""

_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36
_KILL_TIMEOUT = 3.0
"""Seconds that killed processes get to disappear."""
_ENDING_TIMEOUT = 0.25
"""Seconds that processes get to end by themselves when their command has ended, before they count as left behind."""
_POLL_INTERVAL = 0.01
_EXITING = 0x4
"""Flag of a process that has begun to end, in ``/proc/<pid>/stat``."""
_KILLED = 0x100
"""Bit of pending signals in ``/proc/<pid>/status``: the kernel sets it for every signal that ends a process."""
_LINUX = sys.platform == "linux"
_TO_END = (signal.SIGTERM, signal.SIGINT, *((signal.SIGHUP,) if os.name == "posix" else ()))
_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main(arguments: list[str]) -> None:
    """Run the command; returns when none of its processes is left."""
    separator = arguments.index("--")
    grace, control, mode, *options = arguments[:separator]
    report = os.dup(2)
    if mode != PLAIN:
        _isolate(int(control), report, options if mode == SANDBOXED else None)
    _supervise(arguments[separator + 1 :], float(grace), int(control), report)


def _supervise(command: list[str], grace: float, control: int, report: int) -> None:
    wakeup = _wake_on_signals()
    if _LINUX:
        _prctl(_SET_CHILD_SUBREAPER)
    child = _start(command, control)
    _release_streams(control, os.open(os.devnull, os.O_RDWR))
    code = _wait(child, wakeup, control)
    left = 0 if code is None else _left_running(child, control)
    if not _all_gone(child):
        ended = _end_all(child, grace)
        code = ended if code is None else code
    survivors = 0 if _all_gone(child) else max(1, len(_running(child)))
    _report(report, -signal.SIGKILL if code is None else code, left, survivors)


def _isolate(control: int, report: int, sandbox: list[str] | None) -> None:
    """Go on as the first process of new namespaces, while this process waits for it. ``sandbox`` is the working
    directory, and kinds of mounts with their paths."""
    sys.path.append(_PACKAGES)
    from deputy_agents.shell import isolation

    signal.pthread_sigmask(signal.SIG_BLOCK, (*_TO_END, signal.SIGCHLD))
    null = os.open(os.devnull, os.O_RDWR)  # the first process of the namespaces replaces /dev for this one too
    try:
        isolation.unshare(sandbox=sandbox is not None)
        alive, of_parent = os.pipe()
        if (first := os.fork()) != 0:
            os.close(alive)
            _release_streams(control, null)
            os.close(report)
            _wait_for_first(first)
        os.close(of_parent)
        os.close(null)
        _prctl(_SET_PDEATHSIG, signal.SIGKILL)
        if select.select([alive], [], [], 0)[0]:
            os._exit(1)  # the parent has died before it could take this process along
        os.close(alive)
        if sandbox is None:
            isolation.enter()
        else:
            isolation.enter_sandbox(list(zip(sandbox[1::2], sandbox[2::2], strict=True)), sandbox[0])
    except OSError as error:
        place = f" {error.filename}" if error.filename else ""
        os.write(1 if control == 0 else 2, f"The command could not be isolated: {error.strerror}{place}\n".encode())
        _report(report, NOT_ISOLATED, 0, 0)
        os._exit(1)


def _wait_for_first(first: int) -> None:
    """Exit when the first process of the namespaces has ended; signals to end are for that one."""
    while True:
        number = signal.sigwait((*_TO_END, signal.SIGCHLD))
        if number != signal.SIGCHLD:
            _send(first, number)
        elif _reap(first) is not None:
            os._exit(0)


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
    for number in (*_TO_END, signal.SIGCHLD):
        signal.signal(number, _ignore)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*_TO_END, signal.SIGCHLD))
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
        for number in (*_TO_END, signal.SIGCHLD, signal.SIGPIPE):
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


def _release_streams(control: int, null: int) -> None:
    """Replace the guard's copies of the standard streams by ``null``. The owner reads the output until its end, so only
    the command must hold the streams open."""
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


def _left_running(child: int, control: int) -> int:
    """The number of processes that keep running without the command. One that has been killed, or that reads or writes
    a pipe of the command and notices its end, is given the time to disappear."""
    poll = select.poll()
    poll.register(control, select.POLLIN | select.POLLHUP)
    deadline = time.monotonic() + _ENDING_TIMEOUT
    while not _all_gone(child) and time.monotonic() < deadline and not poll.poll(_POLL_INTERVAL * 1000):
        _reap(child)
    return sum(not _is_ending(pid) for pid in _running(child))


def _is_ending(pid: int) -> bool:
    """Whether the kernel is about to end the process, which takes a while on a busy machine."""
    if not _LINUX:
        return False
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            flags = int(file.read().rsplit(b")", 1)[1].split()[6])
        with open(f"/proc/{pid}/status", "rb") as file:
            pending = next(int(line.split()[1], 16) for line in file if line.startswith(b"SigPnd:"))
    except OSError:
        return True
    return bool(flags & _EXITING or pending & _KILLED)


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
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (parent := _parent(entry)) is not None:
            children.setdefault(parent, []).append(int(entry))
    found = [guard]
    for pid in found:
        found += children.get(pid, ())
    return found[1:]


def _parent(pid: str) -> int | None:
    """The parent of a process; ``None`` if the process has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
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
