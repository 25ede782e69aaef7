"""One session in which thousands of sub-agents run, one turn after the other; and what must stay as it is meanwhile."""

import asyncio
import random
import statistics
import time
import zlib
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from deputy_agents.domain.settings import AgentSettings
from deputy_agents.run.context_window import SUMMARY_REQUEST
from tests.support.api_rules import blocks_of
from tests.support.commands import marked, until
from tests.support.findings import Findings
from tests.support.messages_api import MessagesApi, messages_api
from tests.support.model_replies import Block, Json, Play, call, calls, say
from tests.support.pings import LIMIT, pinging
from tests.support.rpc import RpcClient, RpcFailure
from tests.support.sockets import listening

CHILDREN = 40
"""Sub-agents that one call starts; 8 of them run at once."""
TASKS = 3
"""Background tasks that a turn starts."""
TURN = 300.0
"""Seconds that a turn may take on a busy machine."""
_WINDOW = 60_000
"""Tokens of the context window, so that the conversation is compacted again and again."""
_MODELS = f"[m]\nwindow = {_WINDOW}\n"
KEPT = 10_000
"""Most bytes that a session may keep of a sub-agent that has ended: its place in the tree, a summary, its result in the
history of the primary agent, and what it takes to resume it. Together, that is about half as much."""
FLUCTUATION = 32 * 2**20
"""Bytes of caches, of what runs at the moment, and of what the allocator does not return."""
_WARM_UP = 0.3
"""The part of the time in which caches fill and modules load."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The server at one moment. ``rss`` is its resident memory in bytes."""

    ended: int
    rss: int
    files: int
    threads: int


class Scale:
    """Turns until ``seconds`` have passed; all choices come from ``seed``."""

    def __init__(self, seed: int, seconds: float, folder: Path, workspace: Path) -> None:
        self.findings = Findings()
        self.samples: list[Sample] = []
        self._random = random.Random(seed)
        self._seconds = seconds
        self._folder = folder
        self._workspace = workspace
        self._ended = 0
        """Sub-agents that have ended."""
        self._turns = 0
        self._compactions = 0
        self._awaited: set[str] = set()
        """Acknowledged inputs that the model has not received yet."""

    async def run(self) -> None:
        for number in range(20):
            (self._workspace / f"part-{number}.txt").write_text(f"line of part {number}\n" * 50)
        models = self._folder / "models.toml"
        models.write_text(_MODELS)
        env = {"ANTHROPIC_API_KEY": "test-key", "DEPUTY_MODELS": str(models)}
        async with AsyncExitStack() as stack:
            api = await stack.enter_async_context(messages_api(self._script))
            # A cold process: its memory is its own, and has no modules that only the tests need.
            server = await stack.enter_async_context(listening("--tcp", "0", env=env, python=("-X", "utf8")))
            options: Json = {"model": "m", "baseUrl": api.url}
            client = await stack.enter_async_context(server.opened(self._workspace, options=options))
            session_id, agent_id = await client.session()
            await client.prompt(session_id, "the first prompt")  # loads the rest of the server
            pings = await stack.enter_async_context(pinging(server))
            sampling = asyncio.create_task(self._sample(psutil.Process(server.process.pid)))
            await self._work(client, api, session_id, agent_id)
            sampling.cancel()
            gauges = (await client.request("deputy/metrics", {}))["gauges"]
            assert gauges == {"running": 0, "queue.depth": 0}
            self.findings.invalid += api.violations
        with suppress(TimeoutError):
            await until(lambda: not marked(self._workspace))
        self.findings.orphans += map(str, marked(self._workspace))
        self.findings.tries = self._ended
        self.findings.lost += sorted(self._awaited)
        pings.add_to(self.findings)
        self.findings.notes.append(
            f"{self._ended:,} sub-agents in {self._turns:,} turns and {self._seconds / 60:g} minutes; "
            f"{self._compactions} compactions; {self.memory}; at most {pings.running} sub-agents at once and "
            f"{pings.queued} in the queue; {pings.late} of {pings.count:,} pings took more than {LIMIT * 1000:.0f} ms "
            f"of the processor, after {pings.late_after} s"
        )
        limits = AgentSettings()
        assert pings.running <= limits.max_parallel
        assert pings.queued <= limits.queue

    @property
    def _steady(self) -> list[Sample]:
        return self.samples[int(len(self.samples) * _WARM_UP) :]

    @property
    def is_flat(self) -> bool:
        """Whether memory has grown by no more than what ended sub-agents may keep, and some fluctuation."""
        first, last = self._steady[0], self._steady[-1]
        return last.rss - first.rss < FLUCTUATION + KEPT * (last.ended - first.ended)

    @property
    def growth(self) -> float:
        """Bytes of memory for each further sub-agent, after the warm-up."""
        steady = self._steady
        return statistics.linear_regression([s.ended for s in steady], [s.rss for s in steady]).slope

    @property
    def memory(self) -> str:
        steady = self._steady
        files, threads = ([getattr(s, name) for s in steady] for name in ("files", "threads"))
        return (
            f"memory {steady[0].rss / 2**20:.0f} MiB after the warm-up, {steady[-1].rss / 2**20:.0f} MiB at the end, "
            f"{self.growth:,.0f} bytes per sub-agent; {min(files)} to {max(files)} open files, {min(threads)} to "
            f"{max(threads)} threads"
        )

    # -- the work ------------------------------------------------------------------------------------------------------

    async def _work(self, client: RpcClient, api: MessagesApi, session_id: str, agent_id: str) -> None:
        def look(message: Json) -> None:
            params = message.get("params")
            if message.get("method") == "deputy/event":
                self._ended += params["type"] == "agent_finished"

        client.on_message = look
        client.handlers["deputy/permission/request"] = lambda _: {
            "outcome": {"outcome": "selected", "optionId": "allow_once"}
        }
        end = time.monotonic() + self._seconds
        while time.monotonic() < end:
            await self._turn(client, session_id, agent_id)
            client.received.clear()
            api.requests.clear()
        await self._result(client, client.start_prompt(session_id, "the last prompt", queue=True))
        while (await client.request("deputy/metrics", {}))["gauges"]["running"]:  # noqa: ASYNC110 - it sends no events
            await asyncio.sleep(0.1)

    async def _turn(self, client: RpcClient, session_id: str, agent_id: str) -> None:
        """A turn; in most of them, another prompt waits in the queue and a message is sent to the agent."""
        self._turns += 1
        requests = [client.start_prompt(session_id, f"round {self._turns}", queue=True)]
        await asyncio.sleep(self._random.random())  # a random moment: nothing is waited for
        if self._random.random() < 0.7:
            self._awaited.add(text := f"queued prompt {self._turns}.")
            requests.append(client.start_prompt(session_id, text, queue=True))
        if self._random.random() < 0.7:
            text = f"message {self._turns}."
            with suppress(RpcFailure):  # the turn has ended
                await client.request(
                    "deputy/agent/message", {"sessionId": session_id, "agentId": agent_id, "text": text}
                )
                self._awaited.add(text)
        for request in requests:
            assert (await self._result(client, request))["stopReason"] == "end_turn"

    async def _result(self, client: RpcClient, request: int) -> Json:
        end = time.monotonic() + TURN
        while True:
            try:
                return await client.result(request)
            except TimeoutError:
                if time.monotonic() > end:
                    raise

    async def _sample(self, process: psutil.Process) -> None:
        while True:
            with process.oneshot():
                sample = Sample(self._ended, process.memory_info().rss, process.num_fds(), process.num_threads())
            self.samples.append(sample)
            await asyncio.sleep(1)

    # -- the model -----------------------------------------------------------------------------------------------------

    def _script(self, body: Json, _: int) -> Play:
        messages = body["messages"]
        last = blocks_of(messages[-1])
        if not any(tool["name"] == "spawn_agents" for tool in body.get("tools", ())):
            return self._child(str(blocks_of(messages[0])[0].get("text")), len(messages) // 2)
        for text in [awaited for awaited in self._awaited if awaited in str(messages)]:
            self._awaited.remove(text)
        usage = {"input_tokens": len(str(messages)) // 4, "output_tokens": 1}
        said = str(last[-1].get("text"))
        if SUMMARY_REQUEST in said:
            self._compactions += 1
            return say("Many parts were looked at, and all is well.", usage=usage)
        if said.startswith("round "):
            return calls(*self._delegation(said), usage=usage)
        return say("All of it is done.", piece=6, usage=usage)

    def _delegation(self, said: str) -> list[Block]:
        tasks = [
            {"task": f"look at part {number} of {said}", "mode": "default" if number % 10 == 0 else "read_only"}
            for number in range(CHILDREN)
        ]
        background = [
            call("task", description="look again", prompt=f"look at task {number} of {said}", subagent_type="general")
            for number in range(TASKS)
        ]
        return [*background, call("spawn_agents", tasks=tasks)]

    def _child(self, task: str, step: int) -> Play:
        chance = random.Random(zlib.crc32(f"{task} {step}".encode()))
        part = f"part-{chance.randrange(20)}.txt"
        if step < zlib.crc32(task.encode()) % 4:
            choices = (
                call("read_file", path=part),
                call("list_dir", path="."),
                call("grep", pattern="line of"),
                call("shell", command=f"echo {part}; cat {part}"),
            )
            return calls(*chance.sample(choices, chance.randrange(1, 3)))
        return say(f"There is nothing odd in {part}. " * chance.randrange(1, 20), piece=40)
