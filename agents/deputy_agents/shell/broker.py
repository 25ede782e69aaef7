# ruff: noqa: PTH100, PTH120
"""Runs a command that changes files only through this process: the *broker*, which knows the protected names.

A mount or a rule of Landlock protects what exists. What does not exist yet, such as ``.git/hooks/pre-commit`` in a new
folder, only a look at the name can protect. So Landlock takes from the command every right to write in the workspace,
and a filter of system calls reports to the broker each call that would open a file for writing, or create, move, link
or remove one. The broker reads the path once, opens the folder, and does the same itself if the name is not protected.
That the command changes the path meanwhile has no effect: the broker uses its own copy, and what it lets the kernel
do instead is subject to Landlock. Without the broker, the command can change nothing.

A script with an interpreter of its own inside the sandbox, run as
``python -I -S broker.py CHANNEL PROXIED FREE... -- ROOT... -- PROTECTED... -- COMMAND...``. CHANNEL is the number of a
socket to the owner, which gets a line for each thing that was refused; with PROXIED ``1``, first the listening socket
of the proxy. The workspace consists of the folders ROOT; in the folders FREE, files of any name can be changed.
PROTECTED are further paths in the workspace that cannot be changed.
"""

import ctypes
import os
import select
import signal
import sys
from collections.abc import Callable

_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_SET_NO_NEW_PRIVS = 38
_TAKE_FILE = 438
"""The system call ``pidfd_getfd``."""
NOT_CONFINED = 126
"""Exit code if the command could not be confined; the output has the reason."""
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_libc = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> None:
    """Run the command, and exit as it does."""
    sys.path.append(_PACKAGES)
    from deputy_agents.shell.brokered_areas import Areas
    from deputy_agents.shell.brokered_calls import Broker
    from deputy_agents.shell.syscall_filter import Listener

    channel, proxied, *rest = arguments
    free, roots, protected, command = _split(rest, 3)
    os.set_inheritable(int(channel), False)
    umask = os.umask(0)  # the broker applies that of the command
    variables = _offer_proxy(int(channel)) if proxied == "1" else {}
    areas = Areas(free, roots, protected)
    _prctl(_SET_NO_NEW_PRIVS, 1)
    for number in _IGNORED:  # the command decides what they mean; the broker stays until it has ended
        signal.signal(number, signal.SIG_IGN)
    child, listener = _start(command, variables, areas.native, umask)
    broker = Broker(areas, Listener(listener), int(channel))
    _serve(broker.answer_next, listener, os.pidfd_open(child))
    _exit_like(child)


def _split(arguments: list[str], separators: int) -> list[list[str]]:
    """The lists between the first separators, and what follows them."""
    parts: list[list[str]] = []
    for _ in range(separators):
        end = arguments.index("--")
        parts.append(arguments[:end])
        arguments = arguments[end + 1 :]
    return [*parts, arguments]


def _offer_proxy(channel: int) -> dict[str, str]:
    """Listen in the network of the sandbox, and pass the socket to the owner, whose network it does not change.
    Returns the variables that name the proxy."""
    import socket

    listening = socket.create_server(("127.0.0.1", 0))
    with socket.socket(fileno=os.dup(channel)) as owner:
        socket.send_fds(owner, [b"\n"], [listening.fileno()])
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    listening.close()
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    local = dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,::1")
    return {**dict.fromkeys(names, address), **local, "NODE_USE_ENV_PROXY": "1"}


def _start(command: list[str], variables: dict[str, str], writable: list[str], umask: int) -> tuple[int, int]:
    """Start the command without the right to write in the workspace. Returns its number and the descriptor that
    receives its calls."""
    from deputy_agents.shell import landlock, syscall_filter

    ready, of_child = os.pipe()
    wait, go = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            landlock.restrict_writes([*writable, "/dev"])
            os.write(of_child, b"%d\n" % syscall_filter.install())
            os.read(wait, 1)
            os.umask(umask)
            for number in _IGNORED:
                signal.signal(number, signal.SIG_DFL)
            os.execvpe(command[0], command, {**os.environ, **variables})  # noqa: S606 - the purpose of the broker
        except OSError as error:
            os.write(2, f"The command could not be confined: {error.strerror} {error.filename or ''}\n".encode())
        finally:
            os._exit(NOT_CONFINED)
    os.close(of_child)
    number = os.read(ready, 16)
    if not number:
        _exit_like(child)
    pidfd = os.pidfd_open(child)
    listener = _libc.syscall(_TAKE_FILE, pidfd, int(number), 0)
    if listener < 0:
        os.kill(child, signal.SIGKILL)
        os.write(2, f"The command could not be confined: {os.strerror(ctypes.get_errno())}\n".encode())
        os._exit(NOT_CONFINED)
    os.close(pidfd)
    os.write(go, b"\n")
    for fd in (ready, wait, go):
        os.close(fd)
    return child, listener


def _serve(answer_next: Callable[[], None], listener: int, child: int) -> None:
    """Answer calls until the command itself has ended. What it leaves behind can change nothing any more."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(child, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        if ready.get(listener, 0) & select.POLLIN:
            answer_next()
        elif child in ready:
            return


def _exit_like(child: int) -> None:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    main(sys.argv[1:])
