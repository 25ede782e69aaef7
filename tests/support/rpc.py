"""A plain JSON-RPC client that owns a real ``deputy serve --stdio``: no editor, no library, every byte its own.

All waits are bounded. What the server asks is answered by ``handlers`` (a function of the params, or a coroutine
function); a method without one is answered with "method not found", as a client that does not know it would.
"""

import asyncio
import inspect
import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias, TypeVar, cast

from tests.support.warm import Process, started

Json: TypeAlias = dict[str, Any]
Handler: TypeAlias = Callable[[Json], object]

SERVE = ("-m", "deputy_server", "serve", "--stdio")
PATIENCE = 30
"""Seconds that anything may take on a busy machine."""

EVERYTHING = {
    "window": {"workDoneProgress": True},
    "workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}},
    "experimental": {"deputy": {"protocolVersion": 1, "events": True, "permissions": True, "diffPreview": True}},
}
PLAIN = {"window": {"workDoneProgress": True}}


C = TypeVar("C", bound="RpcClient")


class RpcFailure(Exception):
    """The server answered with an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Any = error.get("data")


class Unanswered:
    """What a handler returns to leave the server without an answer."""


class RpcClient:
    """A client of ``process``; one that is not its only one talks over ``reader`` and ``writer``."""

    def __init__(
        self,
        process: Process,
        reader: asyncio.StreamReader | None = None,
        writer: asyncio.StreamWriter | None = None,
    ) -> None:
        self.process = process
        self._input, self._output = reader or process.stdout, writer or process.stdin
        self.received: list[Json] = []
        """Everything that came, in order."""
        self.handlers: dict[str, Handler] = {}
        self.stderr = ""
        self.on_message: Callable[[Json], None] = lambda _: None
        """Told of each message as it comes."""
        self.ended = False
        """The server has closed its output."""
        self._ids = 0
        self._reading = asyncio.Event()
        self._reading.set()
        self._news = asyncio.Condition()
        self._silent = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()
        self.forget()

    # -- sending ----------------------------------------------------------------------------------------------------

    @property
    def transport(self) -> asyncio.WriteTransport:
        """What carries the connection."""
        assert self._output is not None
        return self._output.transport

    def send_bytes(self, data: bytes) -> None:
        assert self._output is not None
        self._output.write(data)

    def send(self, message: object) -> None:
        body = json.dumps(message).encode()
        self.send_bytes(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def notify(self, method: str, params: object = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def start(self, method: str, params: object = None) -> int:
        """Sends a request; its id."""
        self._ids += 1
        message: Json = {"jsonrpc": "2.0", "id": self._ids, "method": method}
        self.send(message if params is None else message | {"params": params})
        return self._ids

    async def drain(self) -> None:
        """Waits until most of what was sent is on its way to the server."""
        assert self._output is not None
        async with asyncio.timeout(PATIENCE):
            await self._output.drain()

    async def request(self, method: str, params: object = None) -> Any:
        return await self.result(self.start(method, params))

    async def command(self, name: str, *arguments: object) -> Any:
        return await self.request("workspace/executeCommand", {"command": name, "arguments": list(arguments)})

    # -- what came --------------------------------------------------------------------------------------------------

    async def answer(self, request_id: object) -> Json:
        return await self.until(lambda m: "method" not in m and m.get("id") == request_id)

    async def result(self, request_id: object) -> Any:
        answer = await self.answer(request_id)
        if "error" in answer:
            raise RpcFailure(answer["error"])
        return answer["result"]

    async def until(self, wanted: Callable[[Json], bool]) -> Json:
        """The first message, of those that came and those to come, that is ``wanted``."""
        seen = 0
        async with asyncio.timeout(PATIENCE), self._news:
            while True:
                for message in self.received[seen:]:
                    if wanted(message):
                        return message
                seen = len(self.received)
                assert not self.ended, f"the server ended first: {self.stderr}"
                await self._news.wait()

    async def at_end(self) -> None:
        """Waits until the server has closed its output."""
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: self.ended)

    async def event(self, kind: str, where: Callable[[Json], bool] = lambda _: True) -> Json:
        message = await self.until(lambda m: _is_event(m, kind) and where(m["params"]))
        return message["params"]

    def events(self, kind: str | None = None) -> list[Json]:
        return [m["params"] for m in self.received if _is_event(m, kind)]

    def progress(self, token: object = None) -> list[Json]:
        """Values of work-done progress so far, of one token or of all."""
        sent = [m["params"] for m in self.received if m.get("method") == "$/progress"]
        return [p["value"] for p in sent if token in (None, p["token"])]

    def stop_reading(self) -> None:
        self._reading.clear()

    def go_on_reading(self) -> None:
        self._reading.set()

    def forget(self) -> None:
        """As if nothing had come yet, and with no handlers but the usual ones."""
        self.received.clear()
        self.handlers = {"window/workDoneProgress/create": lambda _: None}

    # -- life -------------------------------------------------------------------------------------------------------

    async def initialize(self, folder: Path | None = None, capabilities: Json = EVERYTHING, **params: object) -> Json:
        root = None if folder is None else folder.as_uri()
        given: Json = {"processId": os.getpid(), "rootUri": root, "capabilities": capabilities, **params}
        result = await self.request("initialize", given)
        self.notify("initialized", {})
        return result

    async def session(self, **params: object) -> tuple[str, str]:
        opened = await self.request("deputy/session/new", params)
        return opened["sessionId"], opened["agentId"]

    async def prompt(self, session_id: str, text: str, **params: object) -> Json:
        return await self.result(self.start_prompt(session_id, text, **params))

    def start_prompt(self, session_id: str, text: str, **params: object) -> int:
        blocks = [{"type": "text", "text": text}]
        return self.start("deputy/session/prompt", {"sessionId": session_id, "prompt": blocks, **params})

    def close_input(self) -> None:
        assert self._output is not None
        self._output.close()

    async def exit_code(self) -> int:
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()

    async def gone(self) -> None:
        """Waits for the end of the process, its output read or not."""
        async with asyncio.timeout(PATIENCE):
            await self._silent.wait()

    async def shut_down(self) -> int:
        await self.request("shutdown")
        self.notify("exit")
        return await self.exit_code()

    # -- inside -----------------------------------------------------------------------------------------------------

    async def read(self) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionResetError):
            while True:
                await self._reading.wait()
                await self._take(json.loads(await self.read_body()))
        self.ended = True
        async with self._news:
            self._news.notify_all()

    async def read_body(self) -> bytes:
        """The next message; raises IncompleteReadError at the end."""
        assert self._input is not None
        header = await self._input.readuntil(b"\r\n\r\n")
        length = int(header.split(b":")[1].split()[0])  # pygls sends a content type behind it
        return await self._input.readexactly(length)

    async def read_errors(self) -> None:
        assert self.process.stderr is not None
        while data := await self.process.stderr.read(4096):
            self.stderr += data.decode("utf-8", "replace")
        self._silent.set()

    async def _take(self, message: Json) -> None:
        self.on_message(message)
        self.received.append(message)
        async with self._news:
            self._news.notify_all()
        if "method" in message and "id" in message:
            task = asyncio.create_task(self._serve(message))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _serve(self, message: Json) -> None:
        reply: Json = {"jsonrpc": "2.0", "id": message["id"]}
        handler = self.handlers.get(message["method"])
        if handler is None:
            self.send(reply | {"error": {"code": -32601, "message": "method not found"}})
            return
        answer = handler(message["params"])
        if inspect.isawaitable(answer):
            answer = await answer
        if answer is not Unanswered:
            whole = isinstance(answer, Mapping) and "jsonrpc" in answer
            self.send(cast("object", answer) if whole else {**reply, "result": cast("object", answer)})

    async def abandon(self) -> None:
        """Ends what is left of the process and of this client."""
        for task in self.tasks:
            task.cancel()
        if self.process.returncode is None:
            self.process.kill()
        self.go_on_reading()
        await self.process.wait()


def _is_event(message: Json, kind: str | None) -> bool:
    return message.get("method") == "deputy/event" and kind in (None, message["params"]["type"])


@asynccontextmanager
async def serving(
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    python: Sequence[str] = (),
    options: Sequence[str] = (),
) -> AsyncGenerator[RpcClient]:
    """A fresh server and its client. ``env`` is added to the environment of the test, ``python`` are options of the
    interpreter, ``options`` those of ``deputy serve``. Its user has an empty home folder, unless ``env`` names another
    one."""
    with TemporaryDirectory(prefix="deputy-home-") as home:
        user = {"HOME": home, "USERPROFILE": home}
        async with running([*python, *SERVE, *options], os.environ | user | dict(env or {}), cwd) as client:
            yield client


@asynccontextmanager
async def running(
    arguments: Sequence[str],
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    *,
    connect: "Callable[[Process], C]" = RpcClient,
    limit: int = 2**16,
) -> AsyncGenerator[C]:
    """A Python process of ``arguments`` and the client that ``connect`` makes of it, which reads lines of ``limit``
    bytes. It starts warm, unless there are options for the interpreter."""
    async with attached(connect(await started(arguments, env, cwd, limit))) as client:
        yield client


@asynccontextmanager
async def attached(client: C) -> AsyncGenerator[C]:
    """``client`` while it reads what its process writes. The process ends with it."""
    readers = [asyncio.create_task(client.read()), asyncio.create_task(client.read_errors())]
    try:
        yield client
    finally:
        await client.abandon()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*readers)
