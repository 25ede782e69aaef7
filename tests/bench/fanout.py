"""Fan-out: a lead starts children that each make five tool calls, against a loopback Messages API in a process of
its own that takes 50 ms to the first byte.

What counts is the wall time over the critical path of the model's latencies, as a ratio to the floor: a bare loop on
the Anthropic SDK with no product around it. Contenders run in turns within one process, so that whatever else the
machine does meets all of them.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from tests.support import messages_api
from tests.support.model_replies import Json, Play, call, calls, say

FIRST_BYTE = 0.05
CALLS = 5
ROUNDS = 5
SIZES = (1, 8, 16)
LEVELS = 1 + (CALLS + 1) + 1
"""Requests on the critical path: the lead's, those of the slowest child, and the lead's last."""

FILE = "notes.txt"
_STARTUP = 30.0


@dataclass(frozen=True, slots=True)
class Fanout:
    """One run: the server, a folder with ``FILE`` in it, and how many children the lead is to start."""

    url: str
    folder: Path
    children: int

    @property
    def prompt(self) -> str:
        return f"children: {self.children}"


Contender: TypeAlias = Callable[[Fanout], Awaitable[None]]
"""Does one whole turn, of the lead and all children, and returns when the lead has its last answer."""


def script(body: Json, n: int) -> Play:
    """The model: with the tool that starts children it leads, without it is a child."""
    messages = body["messages"]
    spoken = sum(message["role"] == "assistant" for message in messages)
    if any(tool["name"] == "spawn_agent" for tool in body.get("tools", [])):
        if spoken:
            return say("All are done.", first_byte=FIRST_BYTE)
        many = int(json.dumps(messages[0]).partition("children: ")[2].partition('"')[0])
        spawns = [call("spawn_agent", instructions=f"Child {index}", mode="read_only") for index in range(many)]
        return calls(*spawns, first_byte=FIRST_BYTE)
    if spoken < CALLS:
        return calls(call("read_file", path=FILE), first_byte=FIRST_BYTE)
    return say("I have read it.", first_byte=FIRST_BYTE)


# -- the floor -----------------------------------------------------------------------------------------------------


@cache
def _client(url: str) -> Any:
    """One client for all runs, as a product would have it: building one takes as long as many requests."""
    import anthropic

    return anthropic.AsyncAnthropic(base_url=url, api_key="bench", max_retries=0)


async def bare_sdk(run: Fanout) -> None:
    """The least that can be done: the SDK's streaming helper and a while loop."""
    await _agent(_client(run.url), run, run.prompt, "spawn_agent")


async def _agent(client: Any, run: Fanout, task: str, tool: str) -> str:
    messages: list[Mapping[str, Any]] = [{"role": "user", "content": task}]
    tools = [{"name": tool, "description": tool, "input_schema": {"type": "object"}}]
    while True:
        async with client.messages.stream(
            model="bench", max_tokens=1024, system="Work.", messages=messages, tools=tools
        ) as stream:
            message = await stream.get_final_message()
        messages.append({"role": "assistant", "content": message.content})
        uses = [block for block in message.content if block.type == "tool_use"]
        if not uses:
            return str(message.content[0].text)
        results = await asyncio.gather(*(_tool(client, run, use) for use in uses))
        answers = [
            {"type": "tool_result", "tool_use_id": use.id, "content": result}
            for use, result in zip(uses, results, strict=True)
        ]
        messages.append({"role": "user", "content": answers})


async def _tool(client: Any, run: Fanout, use: Any) -> str:
    if use.name == "spawn_agent":
        return await _agent(client, run, use.input["instructions"], "read_file")
    return (run.folder / use.input["path"]).read_text()


CONTENDERS: dict[str, Contender] = {"bare loop on the SDK": bare_sdk}
"""The first is the floor."""


# -- measuring -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measure:
    """Medians, in seconds: wall time over the critical path, and processor time of this process."""

    over: float
    cpu: float


@asynccontextmanager
async def server() -> AsyncGenerator[str]:
    """The URL of a server in a process of its own, ended with the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, messages_api.__file__, "--script", f"{__file__}:script", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_STARTUP):
            url = (await process.stdout.readline()).decode().strip()
        yield url
    finally:
        process.terminate()
        await process.wait()


async def measure(contenders: Mapping[str, Contender], run: Fanout, rounds: int) -> dict[str, Measure]:
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            wall, cpu = time.perf_counter(), time.process_time()
            await contender(run)
            taken[name].append((time.perf_counter() - wall - LEVELS * FIRST_BYTE, time.process_time() - cpu))
    return {
        name: Measure(*(statistics.median(column) for column in zip(*runs, strict=True)))
        for name, runs in taken.items()
    }


def table(children: int, measured: Mapping[str, Measure]) -> str:
    floor = next(iter(measured.values()))
    lines = [f"{children:>2} children            over, ms    CPU, ms    times the floor"]
    for name, found in measured.items():
        ratio = found.over / floor.over if floor.over > 0 else float("nan")
        lines.append(f"  {name:<20} {found.over * 1000:>8.0f} {found.cpu * 1000:>10.0f} {ratio:>18.2f}")
    return "\n".join(lines)


async def main(contenders: Mapping[str, Contender], rounds: int = ROUNDS) -> None:
    """Measures and prints. The first run of each contender is not counted, as it imports and connects."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / FILE).write_text("A few words.\n" * 20)
        async with server() as url:
            for contender in contenders.values():
                await contender(Fanout(url, Path(folder), 1))
            for children in SIZES:
                run = Fanout(url, Path(folder), children)
                print(table(children, await measure(contenders, run, rounds)), flush=True)
