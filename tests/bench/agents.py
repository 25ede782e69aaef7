"""What sub-agents cost by themselves: a model in this process answers at once, so all that is measured is Deputy."""

import asyncio
import gc
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from deputy_agents.domain.message import Reply, Text
from deputy_agents.domain.settings import AgentSettings, Settings
from deputy_agents.domain.turn import Turn
from deputy_agents.model.scripted import ScriptedModel, call, say
from deputy_agents.ports.model import ModelRequest
from deputy_agents.session.runtime import Runtime
from deputy_agents.session.session import Session
from deputy_agents.store.memory import MemoryStore

ROUNDS = 7
BURST = 64
CROWD = 500


@dataclass
class Scene:
    """One parent that starts ``children``; they answer when ``gate`` opens. Times are of ``perf_counter``."""

    children: int
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    all_asked: asyncio.Event = field(default_factory=asyncio.Event)
    opened_at: float = 0.0
    asked_at: list[float] = field(default_factory=list[float])
    told_at: float = 0.0

    async def script(self, request: ModelRequest) -> Reply:
        now = time.perf_counter()
        if request.depth == 0 and len(request.messages) == 1:
            self.opened_at = now
            return call("spawn_agents", tasks=[{"task": f"task {index}"} for index in range(self.children)])
        if request.depth == 0:
            self.told_at = now
            return say("ok")
        self.asked_at.append(now)
        if len(self.asked_at) == self.children:
            self.all_asked.set()
        await self.gate.wait()
        return say("An answer of a few words, as a child would give it, with src/a.py:1 in it.")


@asynccontextmanager
async def playing(scene: Scene, at_once: int) -> AsyncGenerator[tuple[Session, Turn]]:
    """A session in which the scene has begun, watched by one subscriber."""
    limits = AgentSettings(max_parallel=at_once, max_parallel_per_parent=at_once, queue=scene.children)
    model = ScriptedModel(scene.script)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        settings = Settings(model="bench", agents=limits)
        async with Runtime(store=MemoryStore(), home=root) as runtime:
            client = runtime.clients.connect(settings, lambda name: model)
            session = await runtime.new_session(client, cwd=root, roots=[root])
            watching = asyncio.create_task(_watch(session))
            yield session, session.turns.accept([Text("go")])
            watching.cancel()


async def _watch(session: Session) -> None:
    async for _ in session.log.subscribe(0):
        pass


async def first_requests(children: int) -> float:
    """Seconds per child from the delegation call to the last child's first request."""
    scene = Scene(children)
    scene.gate.set()
    async with playing(scene, children) as (_, turn):
        await turn.result()
    return (max(scene.asked_at) - scene.opened_at) / children


async def burst(children: int) -> float:
    """Seconds from the moment when all children end to the parent's next request."""
    scene = Scene(children)
    async with playing(scene, children) as (_, turn):
        await scene.all_asked.wait()
        began = time.perf_counter()
        scene.gate.set()
        await turn.result()
    return scene.told_at - began


async def memory(children: int) -> tuple[float, float]:
    """Bytes per child that waits for its model, and per child that has ended."""
    scene = Scene(children)
    async with playing(Scene(1, gate=_open()), 1) as (_, turn):
        await turn.result()  # what is made once is not the children's
    gc.collect()
    tracemalloc.start()
    try:
        async with playing(scene, children) as (session, turn):
            before = _traced()
            await scene.all_asked.wait()
            await session.log.flush()
            running = _traced() - before
            scene.gate.set()
            await turn.result()
            ended = _traced() - before
    finally:
        tracemalloc.stop()
    return running / children, ended / children


async def steps(children: int, at_once: int) -> Sequence[float]:
    """What each turn of the loop took, in seconds of processor time, while that many children ran: nobody else is
    served meanwhile. (Of a clock's time, a busy machine takes its share.)"""
    scene = Scene(children)
    scene.gate.set()
    taken: list[float] = []
    async with playing(scene, at_once) as (_, turn):
        gc.collect()
        gc.freeze()
        probe = asyncio.create_task(_probe(taken))
        await turn.result()
        probe.cancel()
    return taken


async def _probe(taken: list[float]) -> None:
    while True:
        before = time.thread_time()
        await asyncio.sleep(0)
        taken.append(time.thread_time() - before)


def _open() -> asyncio.Event:
    gate = asyncio.Event()
    gate.set()
    return gate


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def _median(measured: Callable[[int], Awaitable[float]], children: int) -> float:
    await measured(children)
    return statistics.median([await measured(children) for _ in range(ROUNDS)])


async def main() -> None:
    """Measures and prints."""
    gc.collect()
    gc.freeze()  # as the server does when it has started: what was imported is not looked at again and again
    print("Sub-agents, with a model that answers at once")
    for children in (1, 8, BURST):
        each = await _median(first_requests, children)
        print(f"  call to first request, {children:>3} children  {each * 1e6:>8.0f} us a child")
    told = await _median(burst, BURST)
    print(f"  burst of {BURST} completions             {told * 1e3:>8.1f} ms to the parent's request")
    running, ended = await memory(CROWD)
    print(f"  memory of a running child            {running / 1024:>8.1f} KiB")
    print(f"  memory of an ended child             {ended / 1024:>8.1f} KiB")
    taken = sorted(await steps(CROWD, 8))
    p99 = taken[int(0.99 * (len(taken) - 1))]
    print(
        f"  turns of the loop, {CROWD} children  {p99 * 1e3:>10.1f} ms p99, {taken[-1] * 1e3:.1f} ms at most",
        flush=True,
    )
