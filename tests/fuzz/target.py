"""The target of the fuzzer: a connection from its bytes to its responses, with no agents behind it."""

import asyncio
import json
from collections import Counter
from typing import cast

import anyio

from deputy_server.lazy_app import LazyApp
from deputy_server.lsp.server import DeputyServer
from deputy_server.rpc.framing import Frames, frame_with_header, new_reader
from deputy_server.rpc.lifecycle import receive_messages
from deputy_server.rpc.writer import OutputQueue

_GRACE = 20


class _Responses(OutputQueue):
    """Counts the responses by id."""

    def __init__(self) -> None:
        super().__init__()
        self.counted: Counter[str] = Counter()

    def write(self, data: bytes) -> bool:
        message = json.loads(data)
        if "method" not in message and message["id"] is not None:
            self.counted[repr(message["id"])] += 1
        return True

    def _wake_sender(self) -> None:
        pass


class _NoApp(LazyApp):
    """Never has an App: requests wait until they are cancelled."""

    async def get(self) -> object:  # type: ignore[override]
        return await anyio.sleep_forever()


async def feed(data: bytes) -> None:
    """Have a connection receive ``data`` and end. Whatever the data, each request is answered once, and nothing raises.

    After a ``!`` each line is the body of a message: a mutation of the body keeps its header valid.
    """
    reader = new_reader()
    reader.feed_data(b"".join(map(frame_with_header, data[1:].split(b"\n"))) if data[:1] == b"!" else data)
    reader.feed_eof()
    async with anyio.create_task_group() as tasks:
        protocol = DeputyServer(cast(LazyApp, _NoApp())).rpc
        protocol.connect(out := _Responses(), tasks, framed=False)
        endpoint = protocol.endpoint
        receive = endpoint.receive
        requested: Counter[str] = Counter()

        def counting(body: bytes) -> None:
            requested.update(_request_in(body))
            receive(body)

        endpoint.receive = counting  # type: ignore[method-assign]
        await receive_messages(endpoint, Frames(reader))
        await endpoint.cancel_open_requests(grace=_GRACE)
        tasks.cancel_scope.cancel()
    assert out.counted == requested, (out.counted - requested, requested - out.counted)


def _request_in(body: bytes) -> list[str]:
    """The id of the request in ``body``, valid or not, if it has one."""
    try:
        message = json.loads(body, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        return []
    if not isinstance(message, dict) or "method" not in message:
        return []
    number = message.get("id")
    return [repr(number)] if isinstance(number, str | int) and not isinstance(number, bool) else []


def _reject_constant(name: str) -> object:
    raise ValueError(name)


class Runner:
    """Runs :func:`feed` on its own event loop, for callers that have none."""

    def __init__(self) -> None:
        self._loop = asyncio.Runner()

    def __call__(self, data: bytes) -> None:
        self._loop.run(feed(data))
