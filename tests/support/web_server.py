"""A small web site on this machine."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any


@dataclass(frozen=True)
class Page:
    body: bytes = b""
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass
class Site:
    """``requests`` has the path and headers of each request; ``never`` is set when a page that never responds must
    end."""

    port: int
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list[tuple[str, dict[str, str]]])
    never: Event = field(default_factory=Event)

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"


@contextmanager
def site(pages: Mapping[str, Page | Callable[[Site], Page]]) -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            open_site.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            page = pages.get(self.path, Page(b"nothing here", status=404))
            page = page(open_site) if callable(page) else page
            self.send_response(page.status)
            self.send_header("Content-Type", page.content_type)
            for name, value in page.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(page.body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    open_site = Site(server.server_port)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield open_site
    finally:
        open_site.never.set()
        server.shutdown()
        server.server_close()
        thread.join()
