"""What the fuzzer feeds: a connection from its bytes to its answers, with nothing behind it that takes long."""

import asyncio
import json
from collections import Counter
from typing import cast

import anyio

from deputy_server.lazy_app import Host
from deputy_server.lsp.connection_loop import messages_end
from deputy_server.lsp.framing import Frames, new_reader
from deputy_server.lsp.server import DeputyServer
from deputy_server.rpc.writer import Outlet

_GRACE = 20


class _Answers(Outlet):
    """Takes what is written and counts the answers by their ids."""

    def __init__(self) -> None:
        super().__init__()
        self.counted: Counter[str] = Counter()

    def write(self, data: bytes) -> bool:
        message = json.loads(data)
        if "method" not in message and message["id"] is not None:
            self.counted[repr(message["id"])] += 1
        return True

    def _stir(self) -> None:
        pass


class _NoApp(Host):
    """There is never anything behind the connection: requests wait until they are cancelled."""

    async def app(self) -> object:  # type: ignore[override]
        return await anyio.sleep_forever()


async def feed(data: bytes) -> None:
    """Has a connection take ``data`` and end. Whatever it is, each request is answered once, and nothing is raised.

    Behind a ``!`` each line is the body of a message: what is changed in it keeps its proper length.
    """
    reader = new_reader()
    reader.feed_data(b"".join(map(_framed, data[1:].split(b"\n"))) if data[:1] == b"!" else data)
    reader.feed_eof()
    async with anyio.create_task_group() as tasks:
        protocol = DeputyServer(cast(Host, _NoApp())).rpc
        asked: Counter[str] = Counter()
        receive = protocol.receive

        def counting(body: bytes) -> None:
            asked.update(_request_in(body))
            receive(body)

        protocol.receive = counting  # type: ignore[method-assign]
        protocol.connect(out := _Answers(), tasks, framed=False)
        await messages_end(protocol, Frames(reader))
        await protocol.settle(grace=_GRACE)
        tasks.cancel_scope.cancel()
    assert out.counted == asked, (out.counted - asked, asked - out.counted)


def _framed(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def _request_in(body: bytes) -> list[str]:
    """The id of the request that ``body`` is, or would like to be."""
    try:
        message = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return []
    if not isinstance(message, dict) or "method" not in message:
        return []
    number = message.get("id")
    return [repr(number)] if isinstance(number, str | int) and not isinstance(number, bool) else []


def _no_number(name: str) -> object:
    raise ValueError(name)


class Runner:
    """Runs :func:`feed` for callers that have no event loop, on one of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.Runner()

    def __call__(self, data: bytes) -> None:
        self._loop.run(feed(data))
