"""Servers on this machine that fail in the ways in which connections fail."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import trustme

FULL, SILENT, REFUSED, UNTRUSTED, NO_TLS, NO_NAME = (
    "full",
    "silent",
    "refused",
    "untrusted",
    "no TLS",
    "no name",
)
CAUSES = {
    FULL: r"no connection within [\d.]+ s",
    SILENT: r"no connection within [\d.]+ s",
    REFUSED: "connection refused",
    UNTRUSTED: r"its certificate is not valid \(.*(self.signed|local issuer).*\)",
    NO_TLS: r"the TLS handshake failed \(.+\)",
    NO_NAME: "name not found",
}
"""What an error says about each fault of :func:`faulty`."""


@contextmanager
def faulty(fault: str) -> Iterator[str]:
    """The address of a server with ``fault``."""
    with ExitStack() as open_sockets:
        match fault:
            case "full":
                yield f"http://127.0.0.1:{_full_backlog(open_sockets)}"
            case "silent":
                yield f"https://127.0.0.1:{_listening(open_sockets).getsockname()[1]}"
            case "refused":
                yield "http://127.0.0.1:9"
            case "untrusted":
                yield f"https://127.0.0.1:{open_sockets.enter_context(serving(_handshake()))}"
            case "no TLS":
                yield f"https://127.0.0.1:{open_sockets.enter_context(serving(_plain))}"
            case _:
                yield "https://nowhere.invalid"


def _listening(open_sockets: ExitStack, backlog: int = 5) -> socket.socket:
    server = open_sockets.enter_context(socket.socket())
    server.bind(("127.0.0.1", 0))
    server.listen(backlog)
    return server


def _full_backlog(open_sockets: ExitStack) -> int:
    """A port that accepts no further connection and does not refuse it either."""
    server = _listening(open_sockets, 0)
    for _ in range(4):
        waiting = open_sockets.enter_context(socket.socket())
        waiting.setblocking(False)
        with suppress(BlockingIOError):
            waiting.connect(server.getsockname())
    return server.getsockname()[1]


def _plain(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n")


def _handshake() -> Callable[[socket.socket], None]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)

    def serve(connection: socket.socket) -> None:
        with suppress(OSError):
            context.wrap_socket(connection, server_side=True).close()

    return serve


@contextmanager
def serving(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Runs ``serve`` in a thread for each connection; the port."""
    connections: list[socket.socket] = []
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(20)

        def handle(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                serve(connection)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    connections.append(connection)
                    threading.Thread(target=handle, args=(connection,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join()
    for connection in connections:
        connection.close()
