"""A small LSP client that owns its server: it starts the process, sends JSON-RPC over its pipes, and stops it.

Errors::

    ClientError             the text is for the user
    ├── RequestFailed       the server returned an error; ``code`` is its JSON-RPC code
    └── ServerEnded         the server ended; the text has the end of its log
"""

import json
import os
import signal
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

from deputy_agents.concurrency.owned_process import kill, release, start_process

JsonObject: TypeAlias = Mapping[str, object]
Handler: TypeAlias = Callable[[JsonObject], Awaitable[object]]
NotificationHandler: TypeAlias = Callable[[str, JsonObject], None]

MAX_HEADER = 4 * 1024
MAX_BODY = 64 * 1024 * 1024
MAX_OUTGOING = 256
LOG_LINES = 12
"""Number of log lines in an error."""
MAX_LOG = 4000
"""Number of characters kept from the end of the server's log."""
RESPONSE_TIMEOUT = 30.0
"""Seconds to wait for a response that depends neither on a user nor on a model."""
STOP_TIMEOUT = 5.0
"""Seconds for each step of stopping the server: `shutdown` and `exit`, then SIGTERM, then SIGKILL."""

METHOD_NOT_FOUND = -32601
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800


class ClientError(Exception):
    """Base of this module's errors."""


class RequestFailed(ClientError):
    """The server returned an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class ServerEnded(ClientError):
    """The server ended unexpectedly."""


@dataclass(slots=True)
class _Pending:
    done: anyio.Event = field(default_factory=anyio.Event)
    response: JsonObject | None = None


class Client:
    """One connection. Created by :func:`connect`.

    ``handlers`` answer the server's requests. Each runs in its own task, which ends when the server withdraws the
    request. ``on_notification`` receives the server's notifications in order; it must not block.
    """

    def __init__(self, process: Process, handlers: Mapping[str, Handler], on_notification: NotificationHandler) -> None:
        self._process = process
        self._handlers = handlers
        self._on_notification = on_notification
        self._ids = count(1)
        self._pending: dict[int, _Pending] = {}
        self._running_handlers: dict[object, anyio.CancelScope] = {}
        self._log = ""
        self._log_ended = anyio.Event()
        self._server_ended = anyio.Event()
        self._outbox, self._outgoing = anyio.create_memory_object_stream[bytes](MAX_OUTGOING)

    async def request(self, method: str, params: object, *, timeout: float | None = RESPONSE_TIMEOUT) -> JsonObject:
        """The result of a request. ``timeout`` is in seconds; use ``None`` if the result depends on a model or a user.

        If the caller is cancelled, or the timeout expires, the request is cancelled too.

        Raises:
            RequestFailed: the server returned an error.
            ServerEnded: the server ended.
            TimeoutError: the timeout expired.
        """
        id = next(self._ids)
        pending = self._pending[id] = _Pending()
        try:
            await self._send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
            with anyio.fail_after(timeout):
                await pending.done.wait()
        except BaseException:
            with anyio.CancelScope(shield=True, deadline=anyio.current_time() + 1), suppress(ServerEnded):
                await self.notify("$/cancelRequest", {"id": id})
            raise
        finally:
            del self._pending[id]
        return self._result(method, pending.response)

    async def notify(self, method: str, params: object = None) -> None:
        """Send a notification.

        Raises:
            ServerEnded: the server ended.
        """
        await self._send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    @property
    def log(self) -> str:
        """The last lines of the server's log, indented."""
        return "\n".join(f"  {line}" for line in self._log.splitlines()[-LOG_LINES:])

    def kill(self) -> None:
        """Kill the server immediately."""
        kill(self._process)

    # -- inside --------------------------------------------------------------------------------------------------

    def _result(self, method: str, response: JsonObject | None) -> JsonObject:
        if response is None:
            raise self._ended_error()
        error = response.get("error")
        if isinstance(error, dict):
            details = cast("JsonObject", error)
            code = details.get("code")
            raise RequestFailed(code if isinstance(code, int) else 0, _error_text(details, method))
        return _object(response.get("result"))

    def _ended_error(self) -> ServerEnded:
        code = self._process.returncode
        ended = "the server ended" if code is None else f"the server ended with code {code}"
        return ServerEnded(f"{ended}:\n{self.log}" if self.log else ended)

    async def _send(self, message: JsonObject) -> None:
        if self._server_ended.is_set():
            raise self._ended_error()
        try:
            await self._outbox.send(json.dumps(message).encode())
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise self._ended_error() from None

    def run(self, tasks: TaskGroup) -> None:
        """Start reading and writing in ``tasks``."""
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        tasks.start_soon(self._write, stdin)
        tasks.start_soon(self._read_log, stderr)
        tasks.start_soon(self._read, stdout, tasks)

    async def _write(self, stdin: ByteSendStream) -> None:
        async with self._outgoing, stdin:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                async for body in self._outgoing:
                    await stdin.send(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    async def _read_log(self, stderr: ByteReceiveStream) -> None:
        try:
            async for text in TextReceiveStream(stderr, errors="replace"):
                self._log = (self._log + text)[-MAX_LOG:]
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
            self._log += f"\n(the server sent an invalid message: {error})"
        finally:
            # The log has the reason and may arrive a moment later.
            with anyio.move_on_after(1):
                await self._log_ended.wait()
                await self._process.wait()
            self._server_ended.set()
            for pending in self._pending.values():
                pending.done.set()
            for scope in self._running_handlers.values():
                scope.cancel()

    def _receive(self, message: JsonObject, tasks: TaskGroup) -> None:
        method, id = message.get("method"), message.get("id")
        if isinstance(method, str) and "id" in message:
            scope = self._running_handlers[id] = anyio.CancelScope()
            tasks.start_soon(self._answer, id, method, _object(message.get("params")), scope)
        elif method == "$/cancelRequest":
            withdrawn = self._running_handlers.get(_object(message.get("params")).get("id"))
            if withdrawn is not None:
                withdrawn.cancel()
        elif isinstance(method, str):
            self._on_notification(method, _object(message.get("params")))
        elif isinstance(id, int) and (pending := self._pending.get(id)) is not None:
            pending.response = message
            pending.done.set()

    async def _answer(self, id: object, method: str, params: JsonObject, scope: anyio.CancelScope) -> None:
        response: JsonObject = {"error": {"code": REQUEST_CANCELLED, "message": "the server cancelled the request"}}
        try:
            with scope:
                response = await self._handle(method, params)
        finally:
            del self._running_handlers[id]
        with suppress(ServerEnded):
            await self._send({"jsonrpc": "2.0", "id": id, **response})

    async def _handle(self, method: str, params: JsonObject) -> JsonObject:
        handler = self._handlers.get(method)
        if handler is None:
            return {"error": {"code": METHOD_NOT_FOUND, "message": f"this client does not support {method}"}}
        try:
            return {"result": await handler(params)}
        except ValueError as error:
            return {"error": {"code": INTERNAL_ERROR, "message": str(error)}}

    async def stop(self) -> None:
        """Stop the server: with `shutdown` and `exit`, else with SIGTERM, else with SIGKILL. Returns when the process
        has ended."""
        with suppress(ClientError, TimeoutError):
            await self.request("shutdown", None, timeout=STOP_TIMEOUT)
            await self.notify("exit")
        self._outbox.close()
        for number in (signal.SIGTERM, signal.SIGKILL, None):
            with anyio.move_on_after(STOP_TIMEOUT if number else None):
                await self._process.wait()
                return
            if number is not None:
                kill(self._process, number)


async def _read_message(stream: BufferedByteReceiveStream) -> JsonObject:
    header = await stream.receive_until(b"\r\n\r\n", MAX_HEADER)
    fields = dict(line.lower().split(b":", 1) for line in header.split(b"\r\n") if b":" in line)
    length = int(fields[b"content-length"]) if b"content-length" in fields else -1
    if not 0 <= length <= MAX_BODY:
        raise ValueError("missing or invalid Content-Length")
    return _object(json.loads(await stream.receive_exactly(length)))


def _error_text(error: JsonObject, method: str) -> str:
    """The message of an error and, if the server sent one, the suggested action."""
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
    on_notification: NotificationHandler,
) -> AsyncGenerator[Client]:
    """Start ``command`` as a server and connect to it. When the block ends, for whatever reason, the process has
    ended."""
    process = await start_process(
        command,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        cwd=str(cwd),
        env=env,
        # Ctrl-C at the terminal must reach only this program, which then stops the server.
        start_new_session=os.name == "posix",
    )
    client = Client(process, handlers, on_notification)
    failure: Exception | None = None
    try:
        async with anyio.create_task_group() as tasks:
            client.run(tasks)
            try:
                yield client
            except Exception as error:  # noqa: BLE001 - raised below without the task group's wrapper
                failure = error
            finally:
                with anyio.CancelScope(shield=True):
                    await client.stop()
            tasks.cancel_scope.cancel()
    finally:
        client.kill()
        with anyio.CancelScope(shield=True):
            await release(process)
    if failure is not None:
        raise failure
