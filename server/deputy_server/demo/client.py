"""A small LSP client that owns its server: it starts the process, speaks JSON-RPC over its pipes, and ends it.

Errors::

    ClientError             fit for the user
    ├── RequestFailed       the server answered with an error; ``code`` is its JSON-RPC code
    └── ServerGone          the server ended; the text has the end of its log
"""

import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from subprocess import PIPE
from typing import TypeAlias, cast

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.text import TextReceiveStream

JsonObject: TypeAlias = Mapping[str, object]
Handler: TypeAlias = Callable[[JsonObject], Awaitable[object]]
Listener: TypeAlias = Callable[[str, JsonObject], None]

MAX_HEADER = 4 * 1024
MAX_BODY = 64 * 1024 * 1024
MAX_OUTGOING = 256
LOG_LINES = 12
LOG_KEPT = 4000
"""Of the end of the server's log, what is kept, in characters; an error shows the last lines."""
ANSWER_TIMEOUT = 30.0
"""Seconds to wait for an answer that no person and no model has a part in."""
STOP_TIMEOUT = 5.0
"""Seconds for each step of the server's end: a polite one, then a signal, then a kill."""

METHOD_NOT_FOUND = -32601
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800


class ClientError(Exception):
    """Base of this module's errors."""


class RequestFailed(ClientError):
    """The server answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class ServerGone(ClientError):
    """The server ended while it was still needed."""


@dataclass(slots=True)
class _Pending:
    done: anyio.Event = field(default_factory=anyio.Event)
    answer: JsonObject | None = None


class Client:
    """One connection. Made by :func:`connect`.

    ``handlers`` answer the server's requests, each in a task of its own that ends when the server withdraws the
    request. ``listen`` hears its notifications, in order; it must not block.
    """

    def __init__(self, process: Process, handlers: Mapping[str, Handler], listen: Listener) -> None:
        self._process = process
        self._handlers = handlers
        self._listen = listen
        self._ids = count(1)
        self._pending: dict[int, _Pending] = {}
        self._answering: dict[object, anyio.CancelScope] = {}
        self._log = ""
        self._log_ended = anyio.Event()
        self._gone = anyio.Event()
        self._outbox, self._outgoing = anyio.create_memory_object_stream[bytes](MAX_OUTGOING)

    async def request(self, method: str, params: object, *, timeout: float | None = ANSWER_TIMEOUT) -> JsonObject:
        """The server's answer. ``timeout`` is in seconds; ``None`` where a model or a person takes part.

        A caller that is cancelled, or waits no longer, takes its request back.

        Raises:
            RequestFailed: the answer is an error.
            ServerGone: no answer will come.
            TimeoutError: none came in time.
        """
        id = next(self._ids)
        pending = self._pending[id] = _Pending()
        try:
            await self._send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
            with anyio.fail_after(timeout):
                await pending.done.wait()
        except BaseException:
            with anyio.CancelScope(shield=True, deadline=anyio.current_time() + 1), suppress(ServerGone):
                await self.notify("$/cancelRequest", {"id": id})
            raise
        finally:
            del self._pending[id]
        return self._result(method, pending.answer)

    async def notify(self, method: str, params: object = None) -> None:
        """Sends a notification.

        Raises:
            ServerGone: nobody is there to hear it.
        """
        await self._send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    @property
    def log(self) -> str:
        """The last lines of the server's log, indented."""
        return "\n".join(f"  {line}" for line in self._log.splitlines()[-LOG_LINES:])

    def kill(self) -> None:
        """Ends the server at once, for a user who will not wait."""
        with suppress(ProcessLookupError):
            self._process.kill()

    # -- inside --------------------------------------------------------------------------------------------------

    def _result(self, method: str, answer: JsonObject | None) -> JsonObject:
        if answer is None:
            raise self._farewell()
        error = answer.get("error")
        if isinstance(error, dict):
            details = cast("JsonObject", error)
            code = details.get("code")
            raise RequestFailed(code if isinstance(code, int) else 0, _told(details, method))
        return _object(answer.get("result"))

    def _farewell(self) -> ServerGone:
        code = self._process.returncode
        ended = "the server ended" if code is None else f"the server ended with code {code}"
        return ServerGone(f"{ended}:\n{self.log}" if self.log else ended)

    async def _send(self, message: JsonObject) -> None:
        if self._gone.is_set():
            raise self._farewell()
        try:
            await self._outbox.send(json.dumps(message).encode())
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise self._farewell() from None

    def run(self, tasks: TaskGroup) -> None:
        """Starts reading and writing in ``tasks``."""
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        tasks.start_soon(self._write, stdin)
        tasks.start_soon(self._keep_log, stderr)
        tasks.start_soon(self._read, stdout, tasks)

    async def _write(self, stdin: ByteSendStream) -> None:
        async with self._outgoing, stdin:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                async for body in self._outgoing:
                    await stdin.send(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    async def _keep_log(self, stderr: ByteReceiveStream) -> None:
        try:
            async for text in TextReceiveStream(stderr, errors="replace"):
                self._log = (self._log + text)[-LOG_KEPT:]
        except anyio.ClosedResourceError:
            pass
        finally:
            self._log_ended.set()

    async def _read(self, stdout: ByteReceiveStream, tasks: TaskGroup) -> None:
        buffered = BufferedByteReceiveStream(stdout)
        try:
            while True:
                self._receive(await _read_message(buffered), tasks)
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass
        except (anyio.DelimiterNotFound, ValueError) as error:
            self._log += f"\n(the server sent what is no message: {error})"
        finally:
            # The reason is in the log, which may come a moment later.
            with anyio.move_on_after(1):
                await self._log_ended.wait()
                await self._process.wait()
            self._gone.set()
            for pending in self._pending.values():
                pending.done.set()
            for scope in self._answering.values():
                scope.cancel()

    def _receive(self, message: JsonObject, tasks: TaskGroup) -> None:
        method, id = message.get("method"), message.get("id")
        if isinstance(method, str) and "id" in message:
            scope = self._answering[id] = anyio.CancelScope()
            tasks.start_soon(self._answer, id, method, _object(message.get("params")), scope)
        elif method == "$/cancelRequest":
            withdrawn = self._answering.get(_object(message.get("params")).get("id"))
            if withdrawn is not None:
                withdrawn.cancel()
        elif isinstance(method, str):
            self._listen(method, _object(message.get("params")))
        elif isinstance(id, int) and (pending := self._pending.get(id)) is not None:
            pending.answer = message
            pending.done.set()

    async def _answer(self, id: object, method: str, params: JsonObject, scope: anyio.CancelScope) -> None:
        answer: JsonObject = {"error": {"code": REQUEST_CANCELLED, "message": "withdrawn"}}
        try:
            with scope:
                answer = await self._handle(method, params)
        finally:
            del self._answering[id]
        with suppress(ServerGone):
            await self._send({"jsonrpc": "2.0", "id": id, **answer})

    async def _handle(self, method: str, params: JsonObject) -> JsonObject:
        handler = self._handlers.get(method)
        if handler is None:
            return {"error": {"code": METHOD_NOT_FOUND, "message": f"this client has no {method}"}}
        try:
            return {"result": await handler(params)}
        except ValueError as error:
            return {"error": {"code": INTERNAL_ERROR, "message": str(error)}}

    async def stop(self) -> None:
        """Ends the server: politely, else by a signal, else by a kill. Returns when the process is gone."""
        with suppress(ClientError, TimeoutError):
            await self.request("shutdown", None, timeout=STOP_TIMEOUT)
            await self.notify("exit")
        self._outbox.close()
        for insist in (self._process.terminate, self._process.kill, None):
            with anyio.move_on_after(STOP_TIMEOUT if insist else None):
                await self._process.wait()
                return
            if insist is not None:
                with suppress(ProcessLookupError):
                    insist()


async def _read_message(stream: BufferedByteReceiveStream) -> JsonObject:
    header = await stream.receive_until(b"\r\n\r\n", MAX_HEADER)
    fields = dict(line.lower().split(b":", 1) for line in header.split(b"\r\n") if b":" in line)
    length = int(fields[b"content-length"]) if b"content-length" in fields else -1
    if not 0 <= length <= MAX_BODY:
        raise ValueError("a header without a sensible Content-Length")
    return _object(json.loads(await stream.receive_exactly(length)))


def _told(error: JsonObject, method: str) -> str:
    """What went wrong, and what to do about it where the server says that."""
    message, data = str(error.get("message") or f"{method} failed"), error.get("data")
    action = cast("JsonObject", data).get("action") if isinstance(data, dict) else None
    if not isinstance(action, str) or action in message:
        return message
    return f"{message.rstrip('.')}. {action}"


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


@asynccontextmanager
async def connect(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    handlers: Mapping[str, Handler],
    listen: Listener,
) -> AsyncGenerator[Client]:
    """Starts ``command`` as a server and gives a :class:`Client` for it. On the way out the process is gone,
    whatever happened inside."""
    process = await anyio.open_process(
        command,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        cwd=cwd,
        env=env,
        # Ctrl-C in the terminal is for this program to act on; the server is told in its own way.
        start_new_session=os.name == "posix",
    )
    client = Client(process, handlers, listen)
    failure: Exception | None = None
    try:
        async with anyio.create_task_group() as tasks:
            client.run(tasks)
            try:
                yield client
            except Exception as error:  # noqa: BLE001 - handed on as it is, not wrapped in the group's
                failure = error
            finally:
                with anyio.CancelScope(shield=True):
                    await client.stop()
            tasks.cancel_scope.cancel()
    finally:
        client.kill()
        with anyio.CancelScope(shield=True):
            await process.aclose()
    if failure is not None:
        raise failure
