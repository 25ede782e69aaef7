"""The wire: requests in, events out, and what a client costs that does not read."""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import anyio
import psutil

from deputy_agents.domain.event import Event, MessageAdded
from deputy_protocol.methods import EVENT
from deputy_server.convert.event import event_to_wire
from deputy_server.lazy_app import LazyApp
from deputy_server.lsp.server import DeputyServer
from deputy_server.rpc.writer import OutputQueue
from tests.support.messages_api import messages_api
from tests.support.model_replies import say
from tests.support.rpc import SERVE, running, serving

REQUESTS = 4000
TOGETHER = 500
EVENTS = 50_000
DELTAS = 40_000

_BARE = """
from pygls.lsp.server import LanguageServer
server = LanguageServer("bare", "1")
@server.feature("deputy/metrics")
def metrics(params):
    return {"counters": {}, "gauges": {}, "percentiles": {}}
server.start_io()
"""


async def _requests_in(command: Sequence[str], folder: Path) -> float:
    """Requests that are answered in a second, with so many open at once."""
    async with running(command, cwd=folder) as client:
        await client.initialize(folder)
        await client.request("deputy/metrics", {})
        client.received.clear()
        last = asyncio.Event()
        client.on_message = lambda message: last.set() if message.get("id") == number else None
        began = time.perf_counter()
        for _ in range(REQUESTS // TOGETHER):
            last.clear()
            for _ in range(TOGETHER):
                number = client.start("deputy/metrics", {})
            await last.wait()
            client.received.clear()
        return REQUESTS / (time.perf_counter() - began)


class _Nowhere(OutputQueue):
    def write(self, data: bytes) -> bool:
        return True

    def _wake_sender(self) -> None:
        pass


async def _events_out() -> float:
    """Events that one core makes ready to be written in a second."""
    async with anyio.create_task_group() as tasks:
        protocol = DeputyServer(cast(LazyApp, None)).rpc
        protocol.connect(_Nowhere(), tasks)
        happened = Event("session", time.time(), MessageAdded("message", "assistant", "word " * 40), "agent", 1, 7, 7)
        began = time.perf_counter()
        for _ in range(EVENTS):
            protocol.notify(EVENT.name, event_to_wire(happened))
        return EVENTS / (time.perf_counter() - began)


async def _stalled(folder: Path) -> tuple[float, float]:
    """MiB by which a server grows while a client that does not read is owed a long answer, and how much that is."""
    words = "a few more words of an answer that nobody reads " * DELTAS
    async with (
        messages_api(lambda _body, n: say(words, piece=48) if n else say("hello")) as api,
        serving(env={"ANTHROPIC_API_KEY": "bench"}) as client,
    ):
        await client.initialize(folder, initializationOptions={"model": "m", "baseUrl": api.url})
        session_id, _ = await client.session()
        await client.prompt(session_id, "all that is for later is loaded now")
        process = psutil.Process(client.process.pid)
        before = process.memory_info().rss
        client.stop_reading()
        client.start_prompt(session_id, "go")
        await api.until(lambda: len(api.requests) == 2 and api.requests[1].ended_at is not None)
        grown = process.memory_info().rss - before
        client.go_on_reading()
        await client.until(lambda m: m.get("method") == "deputy/event" and m["params"].get("text") == words)
        return grown / 2**20, len(words) / 2**20


async def main() -> None:
    """Measures and prints."""
    with tempfile.TemporaryDirectory() as folder:
        bare = await _requests_in(("-c", _BARE), Path(folder))
        ours = await _requests_in(SERVE, Path(folder))
        print(
            f"requests in, /s               bare pygls {bare:.0f}, Deputy {ours:.0f}: {ours / bare:.2f} times",
            flush=True,
        )
        print(f"events out, /s                {await _events_out():.0f}", flush=True)
        grown, owed = await _stalled(Path(folder))
        print(f"a client that does not read   {grown:.0f} MiB for an answer of {owed:.0f} MiB", flush=True)
