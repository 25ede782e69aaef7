"""A fake Messages API server on loopback. A script determines its replies, including all failures of the real service.

In a test::

    async with messages_api(lambda body, n: say("hello")) as api:
        ...  # point a client at api.url, look at api.requests and api.violations

As a separate process, which prints its URL as the first line of stdout::

    python tests/support/messages_api.py --port 0 --script path/to/file.py:function

A script is called with the JSON of the request and its number (from 0), and returns or awaits a
:class:`tests.support.model_replies.Play`. A request that breaks the rules of the API is recorded and gets a 400, as
from the real service.
"""

import argparse
import asyncio
import importlib.util
import inspect
import json
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar
from urllib.parse import parse_qs

if __package__ in (None, ""):  # run as a script
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from deputy_agents.concurrency.signal import Signal
from tests.support.api_rules import blocks_of, broken_rules
from tests.support.model_infos import MODELS, model_page
from tests.support.model_replies import Failure, Json, Play, event, frames, full_message, say

MODELS_PATH = "/v1/models"

Script: TypeAlias = Callable[[Json, int], Play | Awaitable[Play]]


@dataclass
class Received:
    """A received request. Times are from ``time.monotonic``; header names are in lower case."""

    number: int
    path: str
    headers: Mapping[str, str]
    body: Json
    at: float
    ended_at: float | None = None
    left_early: bool = False
    """The client closed the connection before the reply was complete."""


class MessagesApi:
    """The running server. ``url`` is the base URL for clients, ``violations`` are the rules broken so far."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.url = ""
        self.needs_key = True
        self.requests: list[Received] = []
        self.violations: list[str] = []
        self.connections: set[Connection] = set()
        self.models = tuple(MODELS.values())
        """What ``GET /v1/models`` lists; empty for a service without it."""
        self.lists = 0
        """Requests for the list of models, which are not in ``requests``."""
        self._thoughts: dict[tuple[str, str], set[str]] = {}
        """The models that have sent a thinking block, by signature and text."""
        self.streams = 0
        self.peak = 0
        self._changed = Signal()

    @property
    def bodies(self) -> list[Json]:
        return [received.body for received in self.requests]

    stream_type = "text/event-stream"

    def frames(self, play: Play, model: str) -> Iterator[bytes]:
        """The complete event stream of ``play``; each delta is one frame."""
        return frames(play, model)

    def is_delta(self, frame: bytes) -> bool:
        return b"_delta" in frame

    def error_frame(self) -> bytes:
        return event("error", error={"type": "overloaded_error", "message": "Overloaded"})

    def ping_frame(self) -> bytes:
        return event("ping")

    def error_body(self, status: int, kind: str, message: str) -> Json:
        del status
        return {"type": "error", "error": {"type": kind, "message": message}}

    def changed(self) -> None:
        """Wakes all waits in :meth:`until`."""
        self._changed.notify()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Waits until ``holds()``, which is checked after every event of the server."""
        while not holds():
            await self._changed.wait()

    async def answer(self, connection: "Connection", received: Received) -> None:
        if received.path.startswith("/_"):
            connection.send_json(200, {"violations": self.violations, "requests": self.bodies})
            return
        if self.needs_key and not _has_key(received.headers):
            connection.send_error(401, "authentication_error", "a key is required")
            return
        path, _, query = received.path.partition("?")
        if path == MODELS_PATH:
            self.list_models(connection, query)
            return
        if received.path.startswith("/v1/messages/count_tokens"):
            connection.send_json(200, {"input_tokens": max(1, len(json.dumps(received.body)) // 4)})
            return
        broken = [*broken_rules(received.headers, received.body), *self._foreign_thinking(received.body)]
        self.violations += broken
        if broken:
            connection.send_error(400, "invalid_request_error", broken[0])
            return
        play = self.script(received.body, received.number)
        play = await play if inspect.isawaitable(play) else play
        for block in play.blocks:
            if block["type"] == "thinking":
                self._thoughts.setdefault((block["signature"], block["thinking"]), set()).add(received.body["model"])
        await connection.play(play, received.body)

    def _foreign_thinking(self, body: Json) -> Iterator[str]:
        """Thinking comes back as it was sent, and to the model that has sent it."""
        signatures = {signature for signature, _ in self._thoughts}
        for index, message in enumerate(body.get("messages") or ()):
            for place, block in enumerate(blocks_of(message)):
                signature = block.get("signature")
                if block.get("type") != "thinking" or signature not in signatures:
                    continue
                if body["model"] not in self._thoughts.get((signature, block["thinking"]), ()):
                    yield f"messages.{index}.content.{place}: Invalid `signature` in `thinking` block"

    def list_models(self, connection: "Connection", query: str) -> None:
        self.lists += 1
        asked = parse_qs(query)
        if not self.models:
            connection.send_error(404, "not_found_error", "Not found")
            return
        after = asked.get("after_id", [None])[0]
        connection.send_json(200, model_page(self.models, after, int(asked.get("limit", ["20"])[0])))


def _decoded(body: bytes) -> Json:
    """The JSON of a body; nothing for a form."""
    return json.loads(body) if body.startswith(b"{") else {}


def _has_key(headers: Mapping[str, str]) -> bool:
    return bool(headers.get("x-api-key") or headers.get("authorization"))


class Connection(asyncio.Protocol):
    """One connection. Each request is handled in a task, which is cancelled when the client disconnects."""

    transport: asyncio.Transport

    def __init__(self, api: MessagesApi) -> None:
        self.api = api
        self.buffer = bytearray()
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.api.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.api.connections.discard(self)
        if self.task is not None:
            self.task.cancel()
        self.api.changed()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, blank, rest = bytes(self.buffer).partition(b"\r\n\r\n")
        if not blank or (self.task is not None and not self.task.done()):
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", 0))
        if len(rest) < length:
            return
        del self.buffer[: len(head) + len(blank) + length]
        received = Received(
            number=len(self.api.requests),
            path=first.split()[1],
            headers=headers,
            body=_decoded(rest[:length]),
            at=time.monotonic(),
        )
        if not received.path.startswith(("/_", MODELS_PATH)):
            self.api.requests.append(received)
            self.api.changed()
        self.task = asyncio.create_task(self._serve(received))

    async def _serve(self, received: Received) -> None:
        try:
            await self.api.answer(self, received)
        except asyncio.CancelledError:
            received.left_early = True
        except Exception as error:  # noqa: BLE001 - a script error must not block the client
            self.api.violations.append(f"script: {error!r}")
            self.send_error(500, "api_error", "The script failed.")
        finally:
            received.ended_at = time.monotonic()
            self.api.changed()

    def send_error(self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        self.send_json(status, self.api.error_body(status, kind, message), headers)

    def send_json(self, status: int, body: Json, headers: Mapping[str, str] | None = None) -> None:
        self.send_body(status, json.dumps(body).encode(), {"content-type": "application/json", **(headers or {})})

    def send_body(self, status: int, data: bytes, headers: Mapping[str, str]) -> None:
        lines = [
            f"HTTP/1.1 {status} Answer",
            "request-id: req_test",
            f"content-length: {len(data)}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self.transport.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)

    async def play(self, play: Play, body: Json) -> None:
        if play.gate is not None:
            await play.gate.wait()
        if play.first_byte:
            await asyncio.sleep(play.first_byte)
        if play.failure is Failure.CLOSE_BEFORE_HEADERS:
            self.transport.abort()
            return
        if play.failure is Failure.STALL_BEFORE_HEADERS:
            await asyncio.Event().wait()
        if play.body is not None:
            self.send_body(play.status, play.body, play.headers)
        elif play.status != 200:
            self.send_error(play.status, *play.error, play.headers)
        elif not body.get("stream"):
            self.send_json(200, full_message(play, body["model"]), play.headers)
        else:
            await self.stream(play, body["model"])

    async def stream(self, play: Play, model: str) -> None:
        self.api.streams += 1
        self.api.peak = max(self.api.peak, self.api.streams)
        try:
            headers = {"content-type": self.api.stream_type, **play.headers}
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            self.transport.write(
                f"HTTP/1.1 200 OK\r\n{lines}request-id: req_test\r\ntransfer-encoding: chunked\r\n\r\n".encode()
            )
            if await self._events(play, model):
                if play.failure is Failure.LINGER:
                    await asyncio.Event().wait()
                self.transport.write(b"0\r\n\r\n")
        finally:
            self.api.streams -= 1

    async def _events(self, play: Play, model: str) -> bool:
        """Sends the body; returns False if the connection was closed instead."""
        if play.raw is not None:
            await self._write(play.raw, play.chunk)
            return True
        waiting: list[bytes] = []
        deltas = 0
        for frame in self.api.frames(play, model):
            waiting.append(frame)
            if not self.api.is_delta(frame):
                continue
            deltas += 1
            if deltas == play.after and (play.hold or play.failure not in (None, Failure.LINGER)):
                await self._write(b"".join(waiting), play.chunk)
                waiting.clear()
                if play.hold is not None:
                    await play.hold.wait()
                if play.failure not in (None, Failure.LINGER):
                    return await self._fail(play.failure)
            elif play.gap:
                await self._write(b"".join(waiting), play.chunk)
                waiting.clear()
                await asyncio.sleep(play.gap)
        await self._write(b"".join(waiting), play.chunk)
        return True

    async def _fail(self, failure: Failure) -> bool:
        match failure:
            case Failure.NO_STOP:
                return True
            case Failure.ERROR_EVENT:
                await self._write(self.api.error_frame(), 0)
                return True
            case Failure.PINGS:
                while True:
                    await self._write(self.api.ping_frame(), 0)
                    await asyncio.sleep(0.02)
            case Failure.STALL:
                await asyncio.Event().wait()
            case Failure.RESET:
                self.transport.abort()
            case _:
                self.transport.close()
        return False

    async def _write(self, data: bytes, chunk: int) -> None:
        size = chunk or len(data) or 1
        for at in range(0, len(data), size):
            part = data[at : at + size]
            self.transport.write(b"%x\r\n%s\r\n" % (len(part), part))
            if chunk:
                await asyncio.sleep(0)


@asynccontextmanager
async def messages_api(script: Script, port: int = 0) -> AsyncGenerator[MessagesApi]:
    """Runs the server on loopback for the duration of the block."""
    async with serving(MessagesApi(script), port) as api:
        yield api


A = TypeVar("A", bound=MessagesApi)


@asynccontextmanager
async def serving(api: A, port: int = 0) -> AsyncGenerator[A]:
    """Runs ``api`` on loopback for the duration of the block."""
    server = await asyncio.get_running_loop().create_server(lambda: Connection(api), "127.0.0.1", port)
    api.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield api
    finally:
        server.close()
        for connection in (remaining := list(api.connections)):
            connection.transport.abort()
        await asyncio.gather(*(c.task for c in remaining if c.task is not None), return_exceptions=True)
        await server.wait_closed()


# -- command line -------------------------------------------------------------------------------------------------


def _load(where: str) -> Script:
    path, _, name = where.rpartition(":")
    spec = importlib.util.spec_from_file_location("script", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def _numbered(body: Json, n: int) -> Play:
    return say(f"Answer {n}.")


async def _run(port: int, script: Script) -> None:
    async with messages_api(script, port) as api:
        print(api.url, flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="A fake Messages API server on loopback.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", help="FILE.py:FUNCTION. Default: every reply is one sentence")
    options = parser.parse_args()
    script = _load(options.script) if options.script else _numbered
    try:
        asyncio.run(_run(options.port, script))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
