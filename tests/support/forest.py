"""A session whose model replies only when the test provides the reply, for tests with random agents.

The session runs on its own event loop, which runs only during calls of the methods of :class:`Forest`.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from anyio import to_thread

from deputy_agents.domain.event import AgentFinished, AgentStarted, Event, ToolCallStarted
from deputy_agents.domain.message import Message, Reply, Text
from deputy_agents.domain.outcome import AgentStatus
from deputy_agents.domain.settings import Settings
from deputy_agents.domain.turn import Turn
from deputy_agents.ports.model import ModelRequest
from deputy_agents.run.driver import Driver
from deputy_agents.run.effect import Stopped, SubAgentResult
from deputy_agents.run.state import Idle
from tests.support.core import Core, core
from tests.support.deadlines import ManualDeadline
from tests.support.delegation import define
from tests.support.fold import folded, shown
from tests.support.history_rules import broken_history_rules

T = TypeVar("T")

NESTING = "tools: [todo, spawn_agent, spawn_agents, task, judge]"
MANY = 1000
"""More requests than a test leaves unanswered."""
KINDS = ("lead", "general", "judge")


class Forest:
    """``waiting`` are the requests without a reply, ``deadlines`` those of all runs so far."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        define(folder, "general", [NESTING])
        define(folder, "lead", [NESTING, "maxIterations: 4"])
        define(
            folder,
            "judge",
            ["tools: [todo]", "inputSchema:", "  type: object", "  properties: {topic: {type: string}}"],
        )
        self.waiting: list[tuple[ModelRequest, asyncio.Future[Reply | Exception]]] = []
        self.deadlines: list[ManualDeadline] = []
        self.turns: list[Turn] = []
        self._drivers: dict[str, Driver] = {}
        """The drivers that :meth:`check_always` has met, also of runs that have ended since."""
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._leave = asyncio.Event()
        opened: asyncio.Future[Core] = self._loop.create_future()
        self._life = self._loop.create_task(self._live(folder, settings, opened))
        self.core = self._loop.run_until_complete(opened)

    # -- actions of a test -----------------------------------------------------------------------------------------

    def prompt(self) -> None:
        if self.core.session.turns.running is None:
            self._do(self._call(lambda: self.turns.append(self.core.start())))

    def answer(self, index: int, reply: Reply | Exception) -> None:
        """Answers one of the waiting requests."""
        _, future = self.waiting.pop(index % len(self.waiting))
        self._do(self._call(lambda: future.done() or future.set_result(reply)))

    def interrupt(self, index: int, reply: Reply | Exception, turns: int, victim: int) -> None:
        """Answers a request, and cancels an agent some iterations of the event loop later, while the effects of the
        reply are under way."""
        _, future = self.waiting.pop(index % len(self.waiting))

        async def interrupt() -> None:
            if not future.done():
                future.set_result(reply)
            for _ in range(turns):
                await asyncio.sleep(0)
            agents = self.core.session.agents()
            await self._start(self.core.session.cancel_agent(agents[victim % len(agents)].info.agent_id))

        self._do(interrupt())

    def cancel(self, index: int) -> None:
        """Cancels an agent in any state. The first one is the primary."""
        agents = self.core.session.agents()
        self._do(self._start(self.core.session.cancel_agent(agents[index % len(agents)].info.agent_id)))

    def cancel_turn(self) -> None:
        self._do(self._start(self.core.session.turns.cancel()))

    def steer(self, index: int) -> None:
        agents = [node for node in self.core.session.agents() if self._steerable(node.info.agent_id)]
        if agents:
            agent_id = agents[index % len(agents)].info.agent_id
            self._do(self._call(lambda: self.core.session.steer(agent_id, "Mind the gap.")))

    def expire(self, index: int) -> None:
        """Lets the deadline of a run pass."""
        passed = self.deadlines[index % len(self.deadlines)]
        self._do(self._call(passed.expire))

    def repeat(self, index: int) -> None:
        """An ended child reports again, and an ended effect is acknowledged again."""
        drivers = self._drivers
        ended = [driver for driver in drivers.values() if driver.agent.is_child and driver.state.ended]
        if ended:
            driver = ended[index % len(ended)]
            parent = drivers[driver.agent.parent.id if driver.agent.parent else ""]
            outcome = SubAgentResult(_outcome_of(driver.agent.id))
            self._do(self._call(lambda: (driver.feed(Stopped(0)), parent.feed(Stopped(0)), parent.feed(outcome))))

    def ended_children(self, parent_id: str) -> list[tuple[str, str]]:
        """Id and definition of each ended child of an agent."""
        nodes = [node.info for node in self.core.session.agents() if node.status.ended]
        return [(info.agent_id, info.definition) for info in nodes if info.parent_id == parent_id]

    def finish(self, reply: Reply) -> None:
        """Answers every request until all agents have ended, and prompts the primary so that it gets their notices."""
        self._answer_all(reply)
        self.prompt()
        self._answer_all(reply)

    def close(self) -> None:
        """Ends the session and its event loop."""
        try:
            self._leave.set()
            self._loop.run_until_complete(self._life)
        finally:
            self._runner.close()

    # -- invariants ------------------------------------------------------------------------------------------------

    def check_always(self) -> None:
        self._drivers |= self._supervisor.drivers
        slots, limits = self.core.runtime.slots, self.core.session.settings.current.agents
        assert 0 <= slots.running <= limits.max_parallel
        assert 0 <= slots.queued <= limits.queue
        parents = {node.info.agent_id: node.info.parent_id for node in self._nodes()}
        served = Counter(parents[request.agent_id] for request, _ in self.waiting if request.depth > 0)
        assert served.total() <= limits.max_parallel
        assert all(count <= limits.max_parallel_per_parent for count in served.values())
        running = sum(node.status is AgentStatus.RUNNING for node in self._nodes())
        assert self.core.session.view.status().running == running
        assert all(node.info.depth <= limits.max_depth for node in self._nodes())
        stored = self._stored()
        assert shown(folded(stored), stored) == shown(self.core.session.view, stored)

    def check_rest(self) -> None:
        """Nothing runs: every run has one start and one end, every slot is free, every history is valid."""
        self._do(self.core.caught_up())
        slots = self.core.runtime.slots
        assert (slots.running, slots.queued) == (0, 0)
        assert slots.idle
        assert not self._supervisor.running
        assert all(turn.outcome is not None for turn in self.turns)
        assert all(node.status.ended for node in self._nodes())
        self._check_runs()
        self._check_replay()
        self._check_notices()
        assert set(self._supervisor.drivers) == {self.core.session.primary_id}
        for driver in self._drivers.values():
            assert driver.state.ended or isinstance(driver.state.phase, Idle)
            if driver.agent.history:
                assert broken_history_rules(driver.agent.history) == []

    def _check_runs(self) -> None:
        events = self.core.durable()
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        runs: dict[tuple[str | None, int | None], list[Event]] = {}
        for event in events:
            runs.setdefault((event.agent_id, event.run), []).append(event)
        for (agent_id, _), run in runs.items():
            assert [event.agent_seq for event in run] == list(range(1, len(run) + 1))
            if agent_id != self.core.session.primary_id:
                assert [isinstance(event.body, AgentStarted) for event in run] == [True] + [False] * (len(run) - 1)
                assert [isinstance(event.body, AgentFinished) for event in run] == [False] * (len(run) - 1) + [True]
        self._check_children_end_first(events)
        for node in self._nodes():
            assert {run for agent_id, run in runs if agent_id == node.info.agent_id} == set(range(1, node.run + 1))

    def _check_replay(self) -> None:
        """Folding the same events again changes nothing, wherever the first fold ended."""
        events = self._stored()
        complete = shown(folded(events), events)
        for end in range(0, len(events) + 1, max(len(events) // 7, 1)):
            once = folded(events[:end])
            before = shown(once, events)
            assert shown(folded(events[:end], onto=once), events) == before
            assert shown(folded(events, onto=once), events) == complete
        assert complete == shown(self.core.session.view, events)

    def _check_children_end_first(self, events: list[Event]) -> None:
        live: dict[str | None, str | None] = {}
        for event in events:
            match event.body:
                case AgentStarted(info) if info.parent_id is not None:
                    live[info.agent_id] = info.parent_id
                case AgentFinished():
                    del live[event.agent_id]
                    assert event.agent_id not in live.values()
                case _:
                    pass

    def _check_notices(self) -> None:
        """The primary got exactly one notice for each end of a background child."""
        primary = self.core.session.primary_id
        tasks = {call.tool_call_id for call in self.core.bodies(ToolCallStarted, primary) if call.tool == "task"}
        ended = [
            start.info.agent_id
            for start in self.core.bodies(AgentStarted)
            if start.info.parent_id == primary and start.info.tool_call_id in tasks
        ]
        history = self._supervisor.drivers[primary].agent.history
        assert Counter(_noticed(history)) == Counter(ended)

    def _answer_all(self, reply: Reply) -> None:
        for _ in range(MANY):
            if not self.waiting:
                break
            self.answer(0, reply)
        assert not self.waiting, "the agents never end"
        assert self.core.session.turns.running is None, f"the agents are stuck: {self._stuck()}"

    # -- inside ----------------------------------------------------------------------------------------------------

    @property
    def _supervisor(self) -> Any:
        return self.core.session.supervisor

    def _stored(self) -> list[Event]:
        return list(self._loop.run_until_complete(self.core.store.events(self.core.session.id)))

    def _nodes(self) -> list[Any]:
        return [node for node in self.core.session.agents() if node.info.depth > 0]

    def _steerable(self, agent_id: str) -> bool:
        driver = self._supervisor.drivers.get(agent_id)
        return driver is not None and not (driver.state.ended or isinstance(driver.state.phase, Idle))

    def _stuck(self) -> str:
        return str([(d.agent.info.label, d.state.phase) for d in self._supervisor.drivers.values()])

    async def _live(self, folder: Path, settings: Settings, opened: "asyncio.Future[Core]") -> None:
        try:
            async with AsyncExitStack() as stack:
                stack.enter_context(patch("deputy_agents.session.supervisor.Deadline", self._deadline))
                stack.enter_context(patch("deputy_agents.session.queue_positions.POSITIONS_EVERY", 0))
                opened.set_result(await stack.enter_async_context(core(folder, self._model, settings=settings)))
                await self._leave.wait()
        except Exception as error:
            if opened.done():
                raise
            opened.set_exception(error)

    def _deadline(self, seconds: float) -> ManualDeadline:
        self.deadlines.append(ManualDeadline(seconds))
        return self.deadlines[-1]

    async def _model(self, request: ModelRequest) -> Reply:
        future: asyncio.Future[Reply | Exception] = asyncio.get_running_loop().create_future()
        entry = (request, future)
        self.waiting.append(entry)
        try:
            reply = await future
        finally:
            if entry in self.waiting:
                self.waiting.remove(entry)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs ``work``, and then the event loop until nothing is left to do, in threads neither."""
        return self._loop.run_until_complete(_until_quiet(work))

    async def _call(self, work: Any) -> None:
        work()

    async def _start(self, work: Coroutine[Any, Any, Any]) -> None:
        self._background = asyncio.ensure_future(work)


async def _until_quiet(work: Coroutine[Any, Any, T]) -> T:
    done = await work
    loop: Any = asyncio.get_running_loop()
    threads = to_thread.current_default_thread_limiter()
    quiet = 0
    while quiet < 3:
        await asyncio.sleep(0.001 if threads.borrowed_tokens else 0)
        quiet = 0 if loop._ready or threads.borrowed_tokens else quiet + 1
    return done


def _outcome_of(agent_id: str) -> Any:
    from deputy_agents.domain.outcome import Completed, Outcome

    return Outcome(agent_id, Completed("again"))


def _noticed(history: list[Message]) -> list[str]:
    texts = [block.text for message in history for block in message.content if isinstance(block, Text)]
    return [json.loads(text)["task_id"] for text in texts if text.startswith('{"task_id"')]
