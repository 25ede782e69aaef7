"""Stands for a server that was forked elsewhere, see :mod:`tests.support.warm_command`: `relay.py SOCKET ARGUMENTS`.

Imports little, and nothing of the tests, because it starts often.
"""

import marshal
import os
import signal
import socket
import sys

PASSED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals that end the server, or that it handles."""


def main(address: str, *arguments: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        request = marshal.dumps((arguments, dict(os.environ), os.getcwd()))  # noqa: PTH109  pathlib is slow to import
        connection.sendall(len(request).to_bytes(4, sys.byteorder))
        socket.send_fds(connection, [request[:1]], [0, 1, 2])
        connection.sendall(request[1:])
        for number in PASSED:
            signal.signal(number, lambda got, _: connection.sendall(bytes([got])))
        nothing = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):  # the server alone has its pipes
            os.dup2(nothing, fd)
        status = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), sys.byteorder, signed=True)
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == "__main__":
    main(*sys.argv[1:])
