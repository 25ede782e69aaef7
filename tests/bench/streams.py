"""Streams: what a delta costs, from the socket of the model service to ``deputy/event`` at a client that reads.

One long stream: processor time per delta of the real server, less that of the SDK's raw parsing of the same stream in
a process of its own. Many streams at once: processor time per delta, and how long one takes until it is at the client;
the service writes the time of sending into the text.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support.messages_api import messages_api
from tests.support.model_replies import Json, Play, say
from tests.support.rpc import RpcClient, serving

DELTAS = 20_000
STREAMS = 16
RATE = 200
SECONDS = 5

_RAW = """
import anthropic, asyncio, json, sys, time
url, streams = sys.argv[1], int(sys.argv[2])
body = {"model": "m", "max_tokens": 1, "stream": True, "messages": [{"role": "user", "content": "go"}]}
delays = []
async def read(client):
    events = await client.post("/v1/messages", cast_to=object, body=body, stream=True,
                               stream_cls=anthropic.AsyncStream[object])
    async with events:
        async for sent in events.raw_events(events.response):
            if streams > 1 and sent.event == "content_block_delta":
                delays.append(time.time() - float(json.loads(sent.data)["delta"]["text"]))
async def main():
    client = anthropic.AsyncAnthropic(base_url=url, api_key="bench", max_retries=0)
    for together in (1, streams):
        delays.clear()
        before = time.process_time()
        await asyncio.gather(*(read(client) for _ in range(together)))
        spent = time.process_time() - before
    print(json.dumps([spent, delays]))
asyncio.run(main())
"""


@dataclass(frozen=True, slots=True)
class Spent:
    """Processor time for each delta and how late each came, in seconds."""

    cpu: float
    delays: Sequence[float]

    def __str__(self) -> str:
        p50, p99 = statistics.median(self.delays) * 1000, statistics.quantiles(self.delays, n=100)[98] * 1000
        return f"{self.cpu * 1e6:>6.1f} us of CPU, delay {p50:>5.1f} ms, p99 {p99:>5.1f}"


async def main() -> None:
    """Measures and prints."""
    async with messages_api(_long) as api:
        raw = (await _bare(api.url, 1, DELTAS)).cpu
    per_delta = await _one_stream()
    print(f"one stream of {DELTAS} deltas, microseconds of CPU per delta")
    print(f"  SDK, raw events       {raw * 1e6:>6.1f}")
    print(f"  Deputy                {per_delta * 1e6:>6.1f}   beyond the SDK {(per_delta - raw) * 1e6:.1f}")
    async with _ticking() as url:
        bare = await _bare(url, STREAMS, STREAMS * RATE * SECONDS)
    found = await _many_streams()
    print(f"{STREAMS} streams of {RATE} deltas/s, for each delta")
    print(f"  bare loop on the SDK  {bare}")
    print(f"  Deputy                {found}   beyond the SDK {(found.cpu - bare.cpu) * 1e6:.1f} us", flush=True)


def _long(body: Json, n: int) -> Play:
    return say("some words " * DELTAS, piece=11)


async def _bare(url: str, streams: int, deltas: int) -> Spent:
    """The least that can be done, in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _RAW, url, str(streams), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    cpu, delays = json.loads(out)
    return Spent(cpu / deltas, delays)


async def _one_stream() -> float:
    async with messages_api(_long) as api, _server(api.url) as client:
        session_id, _ = await client.session()
        await client.prompt(session_id, "warm up")
        client.received.clear()
        before = _cpu(client)
        await client.prompt(session_id, "go")
        return (_cpu(client) - before) / DELTAS


def _cpu(client: RpcClient) -> float:
    times = psutil.Process(client.process.pid).cpu_times()
    return times.user + times.system


@asynccontextmanager
async def _server(url: str) -> AsyncGenerator[RpcClient]:
    with tempfile.TemporaryDirectory() as folder:
        env = {"ANTHROPIC_API_KEY": "bench", "DEPUTY_STATE": str(Path(folder) / "state")}
        async with serving(env=env) as client:
            agents = {"maxParallel": STREAMS, "maxParallelPerParent": STREAMS}
            options = {"model": "m", "baseUrl": url, "agents": agents}
            await client.initialize(Path(folder), initializationOptions=options)
            yield client


@asynccontextmanager
async def _ticking() -> AsyncGenerator[str]:
    """The URL of a service in a process of its own, so that it takes no time from the client."""
    numbers = map(str, (STREAMS, RATE, SECONDS))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.ticking", *numbers, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.terminate()
        await process.wait()


async def _many_streams() -> Spent:
    delays: list[float] = []
    async with _ticking() as url, _server(url) as client:
        session_id, _ = await client.session()
        await client.prompt(session_id, "warm up")
        client.on_message = lambda message: delays.extend(_delays(message))
        before = _cpu(client)
        await client.prompt(session_id, "go")
        spent = _cpu(client) - before
    return Spent(spent / (STREAMS * RATE * SECONDS), delays)


def _delays(message: Json) -> Iterator[float]:
    if message.get("method") == "deputy/event" and message["params"]["type"] == "message_delta":
        now = time.time()
        yield from (now - float(sent) for sent in message["params"]["text"].split() if sent != "done")
