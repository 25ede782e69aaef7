"""The command `deputy` for editors, which start the server themselves: it starts as in :mod:`tests.support.warm`.

The command is :mod:`tests.support.relay`, run by a bare interpreter. It passes its arguments, environment, folder and
file descriptors to a process that has imported everything; that forks the server. The relay ends with the exit status
of the server, passes signals on to it, and if it is killed, so is the server.
"""

import atexit
import marshal
import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support import relay, warm

_forking = multiprocessing.get_context("fork")


@cache
def warm_deputy() -> Path:
    """The path of the command; it works until this process ends."""
    folder = TemporaryDirectory(prefix="warm-")  # short, because a socket is in it
    address = Path(folder.name) / "socket"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(address))
    listener.listen()
    ours, theirs = multiprocessing.Pipe(duplex=False)
    with listener, ours:
        starter = warm.context.Process(target=_start_servers, args=(DupFd(listener.fileno()), ours))
        starter.start()
    atexit.register(folder.cleanup)
    atexit.register(starter.join)
    atexit.register(theirs.close)
    command = Path(folder.name) / "bin" / "deputy"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{relay.__file__}" "{address}" "$@"\n', "utf-8")
    command.chmod(0o755)
    return command


def _start_servers(listening: DupFd, alive: Connection) -> None:
    """Forks a server for each relay that connects, until the tests end, which closes ``alive``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    servers: dict[socket.socket, ForkProcess] = {}
    with socket.socket(fileno=listening.detach()) as listener:
        while alive not in (ready := wait([alive, listener, *servers, *(one.sentinel for one in servers.values())])):
            # Before new servers: the old one has ended when an editor that has killed it starts the next one.
            for connection, server in tuple(servers.items()):
                is_connected = connection not in ready or _is_signal_passed_on(connection, server)
                if not is_connected:
                    server.kill()
                if server.sentinel in ready or not is_connected:
                    _end(connection, server)
                    del servers[connection]
            if listener in ready:
                connection, _ = listener.accept()
                with suppress(EOFError, ValueError):  # the relay was killed at once
                    servers[connection] = _started(connection)
    for server in servers.values():
        server.kill()


def _started(connection: socket.socket) -> ForkProcess:
    size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), sys.byteorder)
    first, fds, _, _ = socket.recv_fds(connection, 1, 3)
    arguments, environment, folder = marshal.loads(first + connection.recv(size - 1, socket.MSG_WAITALL))
    server = _forking.Process(target=_serve, args=(arguments, environment, folder, fds))
    server.start()
    for fd in fds:
        os.close(fd)
    return server


def _serve(arguments: Sequence[str], environment: Mapping[str, str], folder: str, fds: Sequence[int]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warm.run(("-P", "-m", "deputy_server", *arguments), environment, folder, fds)


def _is_signal_passed_on(connection: socket.socket, server: ForkProcess) -> bool:
    """Sends the server the signal that its relay got; false if the relay was killed."""
    got = connection.recv(1)
    if got and server.is_alive():
        assert server.pid is not None
        os.kill(server.pid, got[0])
    return bool(got)


def _end(connection: socket.socket, server: ForkProcess) -> None:
    """Sends the relay the exit status of the server, which is about to end."""
    server.join()
    assert server.exitcode is not None
    with connection, suppress(OSError):  # the relay was killed
        connection.sendall(server.exitcode.to_bytes(4, sys.byteorder, signed=True))
