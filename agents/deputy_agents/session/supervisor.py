"""The tree of agents of one session: builds them, starts them, and ends them.

Children run as tasks of the session, never of the request or the parent that asked for them. Each run is owned by one
task here, which holds its slot, its deadline and the duty to report its one result.
"""

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from deputy_agents.domain.errors import Overloaded, ToolError, UnknownAgent, WrongState
from deputy_agents.domain.event import AgentFinished, AgentStarted, Location, StatusChanged
from deputy_agents.domain.message import Message, Text, Usage
from deputy_agents.domain.metrics import Metrics
from deputy_agents.domain.outcome import (
    AgentStatus,
    Cancelled,
    CancelReason,
    Completed,
    Ending,
    Failed,
    FailureReason,
    LimitReached,
    Outcome,
)
from deputy_agents.editor import references
from deputy_agents.events.view import AgentNode
from deputy_agents.run.agent import Agent, Host, say
from deputy_agents.run.deadline import Deadline
from deputy_agents.run.driver import Driver
from deputy_agents.run.effect import Notice, Steered, SubAgentResult, UserCancel, UserPrompt
from deputy_agents.run.result import background_text, told
from deputy_agents.run.slots import Slot, Slots
from deputy_agents.run.state import Idle
from deputy_agents.session.builder import Builder
from deputy_agents.session.restore import Past
from deputy_agents.text import bounded, clean
from deputy_agents.tool.delegate import Accepted, SpawnSpec

logger = logging.getLogger(__name__)

PLACES_EVERY = 0.1
"""Seconds between two tellings of places in the queue: each start moves everyone behind it."""

PLACES_A_SECOND = 500
"""A longer queue is told of more rarely."""

CANCELLED_AT_ONCE = 32
"""Agents that are told to stop before the loop has its turn."""


@dataclass(slots=True)
class _Child:
    """One run of one child. Without a slot it was refused a place, and only reports so."""

    agent: Agent
    driver: Driver
    slot: Slot | None
    deadline: Deadline
    late: CancelReason
    """What it means when the deadline passes."""
    spec: SpawnSpec
    parent: Driver
    door: anyio.Event
    """Set when its whole call is accepted: before, its parent does not wait for it yet."""
    accepted_at: float
    place: int | None
    """In the queue, as it was last told."""
    done: anyio.Event = field(default_factory=anyio.Event)
    cancelling: bool = False
    ending: Ending | None = None


class Supervisor:
    """Agents of one session. ``slots`` and ``metrics`` are shared by all sessions of the process."""

    def __init__(self, host: Host, builder: Builder, slots: Slots, metrics: Metrics, tasks: TaskGroup) -> None:
        self._host = host
        self._builder = builder
        self._slots = slots
        self._metrics = metrics
        self._tasks = tasks
        self._children: dict[str, _Child] = {}
        self._drivers: dict[str, Driver] = {}
        """The driver of the last run of every agent that ever was."""
        self._telling_places = False

    def primary(self, agent_id: str, cwd: Path, model: str, kind: str) -> Driver:
        """The session's own agent, of the definition ``kind``: built once, by the same code as its children."""
        driver = Driver(self._builder.primary(agent_id, cwd, model, kind), self._host, self._tasks)
        self._drivers[agent_id] = driver
        return driver

    def renew(self, agent: Agent) -> None:
        """Puts definitions, settings and servers as they are now in force for the next request of ``agent``."""
        self._builder.renew(agent)

    def agent(self, agent_id: str) -> Agent:
        """
        Raises:
            UnknownAgent: the session has no such agent.
        """
        driver = self._drivers.get(agent_id)
        if driver is None:
            raise UnknownAgent(f"This session has no agent {agent_id}.")
        return driver.agent

    def spent(self) -> tuple[Usage, int, int]:
        """What all agents have used together: tokens, tool calls, and replies of models."""
        agents = [driver.agent for driver in self._drivers.values()]
        usage = sum((agent.usage for agent in agents), Usage())
        return usage, sum(len(agent.call_ids) for agent in agents), sum(agent.replies for agent in agents)

    def restore(self, past: Past) -> None:
        """Takes in the agents of a stored session with all that they know; none of them runs."""
        for node in sorted(past.view.tree(), key=lambda node: node.info.depth):
            driver = self._drivers.get(node.info.agent_id) or self._restored(node)
            if driver is not None:
                self._builder.remember(driver.agent, node, past)

    def _restored(self, node: AgentNode) -> Driver | None:
        parent = self._drivers.get(node.info.parent_id or "")
        if parent is None:
            return None
        driver = Driver(self._builder.restored(node.info, parent.agent), self._host, self._tasks)
        self._drivers[node.info.agent_id] = driver
        return driver

    # -- spawning --------------------------------------------------------------------------------------------------

    async def spawn(self, parent: Agent, tool_use_id: str, specs: Sequence[SpawnSpec]) -> tuple[Accepted, ...]:
        """Accepts all of ``specs`` or none; what was accepted starts by itself. Of several, those that find no room in
        the queue are accepted too, and fail at once: the others are not lost for them. Hundreds hold up nobody, as the
        loop has its turn between two of them; when the parent is cancelled meanwhile, no more are started.

        Raises:
            ToolError: unknown definition, too deep, nothing to continue, or no room in the queue.
        """
        limits = self._host.settings.agents
        agents: list[Agent] = []
        try:
            if not limits.enabled or parent.info.depth >= limits.max_depth:
                raise ToolError(f"agents at depth {parent.info.depth} may not start sub-agents.")
            for spec in specs:
                await _breathe(agents)
                agents.append(self._agent(parent, tool_use_id, spec))
            accepted = await self._accept(self._drivers[parent.id], tool_use_id, agents, specs)
        except (ToolError, Overloaded) as error:
            raise ToolError(f"No sub-agent was started: {error}") from None
        if not accepted:
            await anyio.lowlevel.checkpoint()  # the cancel that kept all from starting
        return tuple(accepted)

    async def _accept(
        self, parent: Driver, tool_use_id: str, agents: Sequence[Agent], specs: Sequence[SpawnSpec]
    ) -> list[Accepted]:
        """Reserves a place for each and launches it. A cancel is seen and not thrown: the parent's machine must hear of
        what was launched."""
        door = anyio.Event()
        accepted: list[Accepted] = []
        with anyio.CancelScope(shield=True):
            try:
                for agent, spec in zip(agents, specs, strict=True):
                    await _breathe(accepted)
                    if parent.stopping:
                        break
                    child = self._reserve(agent, parent, spec, door, must_fit=len(specs) == 1)
                    accepted.append(self._launch(child, tool_use_id))
            finally:
                door.set()
        return accepted

    def _agent(self, parent: Agent, tool_use_id: str, spec: SpawnSpec) -> Agent:
        """The agent that is to run: a new one, or the one to continue, as it is until its run is launched."""
        if spec.resume is None:
            return self._builder.child(parent, tool_use_id, spec)
        driver = self._drivers.get(spec.resume)
        if driver is None or driver.agent.parent is not parent:
            raise ToolError(f"there is no task {spec.resume} here to continue; list_agents names those that exist.")
        if spec.resume in self._children:
            raise ToolError(f"the task {spec.resume} is still running; wait until you are told that it has ended.")
        if driver.agent.definition.name != spec.definition:
            raise ToolError(f"the task {spec.resume} is a {driver.agent.definition.name}, not a {spec.definition}.")
        return driver.agent

    def _reserve(self, agent: Agent, parent: Driver, spec: SpawnSpec, door: anyio.Event, *, must_fit: bool) -> _Child:
        slot: Slot | None = None
        ending: Ending | None = None
        try:
            slot = self._slots.reserve(
                parent.agent.id,
                writer=agent.writes,
                started=lambda: self._slot_started(agent.id),
                shifted=self._places_shifted,
            )
        except Overloaded as error:
            if must_fit:
                raise
            ending = Failed(FailureReason.RUNTIME_ERROR, str(error))
        settings = self._host.settings
        seconds = spec.timeout or agent.definition.timeout or settings.agents.timeout
        budget = settings.budgets.agent.seconds
        late = CancelReason.TIMEOUT if budget is None or seconds <= budget else CancelReason.BUDGET
        deadline = Deadline(seconds if budget is None else min(seconds, budget))
        driver = Driver(agent, self._host, self._tasks, slot, deadline)
        now = self._host.clock.monotonic()
        place = self._slots.queued if slot is not None and slot.queued else None
        return _Child(agent, driver, slot, deadline, late, spec, parent, door, now, place, ending=ending)

    def _launch(self, child: _Child, tool_use_id: str) -> Accepted:
        agent = child.agent
        if child.spec.resume is not None:
            self._builder.continue_run(agent, tool_use_id, child.spec)
        self._drivers[agent.id] = child.driver
        self._children[agent.id] = child
        self._metrics.counters["spawns"] += 1
        self._metrics.measure("queue.depth", self._slots.queued)
        waits = child.slot is None or child.slot.queued
        status = AgentStatus.PENDING if waits else AgentStatus.RUNNING
        say(self._host, agent, AgentStarted(agent.info, status, child.place))
        self._tasks.start_soon(self._run, child)
        return Accepted(agent.id, child.place)

    async def _run(self, child: _Child) -> None:
        agent = child.agent
        try:
            # The place is free when the end is told: nobody may see more agents run than there are places.
            with child.slot or nullcontext():
                if child.slot is not None:
                    await self._work(child, child.slot)
                await self.cancel_below(agent.id)
                await self._host.commands.stop_all(agent.id)
                outcome = await self._report(child)
        finally:
            del self._children[agent.id]
            child.done.set()
        await child.door.wait()
        if child.spec.background:
            child.parent.feed(Notice(background_text(outcome)))
            self._host.background_ended(child.parent.agent)
        else:
            child.parent.feed(SubAgentResult(outcome))

    async def _work(self, child: _Child, slot: Slot) -> None:
        if not slot.queued:
            # No place may be free for a later one of the call only because this one was fast.
            await child.door.wait()
        text = child.spec.first_message
        async with anyio.create_task_group() as watching:
            watching.start_soon(self._watch_the_clock, child)
            with anyio.move_on_after(self._host.settings.limits.cancel_grace):  # no disk keeps a child from its work
                await self._builder.settle(child.agent)
            await child.driver.run(UserPrompt(Message("user", (Text(text),)), text))
            watching.cancel_scope.cancel()
        if slot.queued:
            slot.close()  # it ended before it had a place, and must not be given one now

    async def _report(self, child: _Child) -> Outcome:
        """Emits the run's one result, and makes of it what the parent is told."""
        agent = child.agent
        if child.ending is None:
            raise AssertionError("a driver ends with an ending")
        places = await self._places(agent, child.ending)
        agent.result, error, reason = told(child.ending)
        limit = self._host.settings.limits.result_bytes
        ending, truncated = _bounded(child.ending, limit, f"get_agent(agent_id={agent.id!r}) has all of it")
        iterations = child.driver.state.iterations
        outcome = Outcome(agent.id, ending, child.spec.task, agent.usage, agent.tool_calls, iterations)
        self._count(outcome, reason)
        finished = AgentFinished(
            status=outcome.status,
            result=told(ending)[0],
            usage=agent.usage,
            tool_call_count=agent.tool_calls,
            iterations=iterations,
            failure_reason=reason,
            error=error,
            references=places,
            truncated=truncated,
        )
        say(self._host, agent, finished)
        return outcome

    async def _places(self, agent: Agent, ending: Ending) -> tuple[Location, ...]:
        """Where an answer points to. No disk, slow or broken, keeps a child from ending."""
        if isinstance(ending, Completed):
            with anyio.move_on_after(self._host.settings.limits.cancel_grace):
                try:
                    return (await references.check(ending.result, self._host.workspace, agent.cwd)).locations
                except Exception:
                    logger.exception("the references of agent %s cannot be looked up", agent.id)
        return ()

    def _count(self, outcome: Outcome, reason: FailureReason | None) -> None:
        counters = self._metrics.counters
        if reason is None:
            counters[outcome.status.value] += 1
        else:
            counters["failures"] += 1
            counters[f"failures.{reason.value}"] += 1

    def run_ended(self, agent: Agent, ending: Ending) -> None:
        if (child := self._children.get(agent.id)) is not None:
            child.ending = ending

    # -- the queue -------------------------------------------------------------------------------------------------

    def _slot_started(self, agent_id: str) -> None:
        child = self._children[agent_id]
        child.place = None
        self._metrics.measure("queue.wait", self._host.clock.monotonic() - child.accepted_at)
        say(self._host, child.agent, StatusChanged(AgentStatus.RUNNING))

    def _places_shifted(self) -> None:
        """A start is told at once, new places in the queue soon: only the last ones count."""
        if not self._telling_places:
            self._telling_places = True
            self._tasks.start_soon(self._tell_places)

    async def _tell_places(self) -> None:
        await anyio.sleep(max(PLACES_EVERY, self._slots.queued / PLACES_A_SECOND))
        self._telling_places = False
        places = self._slots.places()
        for child in self._children.values():
            place = places.get(child.slot) if child.slot is not None else None
            if place not in (None, child.place):
                child.place = place
                say(self._host, child.agent, StatusChanged(AgentStatus.PENDING, place))

    # -- steering and ending ---------------------------------------------------------------------------------------

    def steer(self, agent_id: str, text: str) -> None:
        """Tells a running agent something, at the next chance.

        Raises:
            UnknownAgent: the session has no such agent.
            WrongState: it has ended, or does nothing that could be steered.
        """
        agent = self.agent(agent_id)
        driver = self._drivers[agent_id]
        if driver.state.ended or isinstance(driver.state.phase, Idle):
            raise WrongState(f"The agent {agent.info.label!r} is not running, so it cannot be told anything.")
        driver.feed(Steered(text))

    def below(self, agent_id: str) -> list[str]:
        """The live children of an agent."""
        return [child_id for child_id, child in self._children.items() if child.parent.agent.id == agent_id]

    def begin_cancel(self, agent_ids: Sequence[str], reason: CancelReason, limit: LimitReached | None = None) -> None:
        self._tasks.start_soon(self._cancel_all, agent_ids, reason, limit)

    async def _cancel_all(
        self, agent_ids: Sequence[str], reason: CancelReason, limit: LimitReached | None = None
    ) -> None:
        """Ends several; returns when they have stopped. The last go first: they wait in the queue, and must not start
        because those before them end. Hundreds hold up nobody."""
        async with anyio.create_task_group() as tasks:
            for count, agent_id in enumerate(reversed(agent_ids), 1):
                tasks.start_soon(self.cancel, agent_id, reason, limit)
                if count % CANCELLED_AT_ONCE == 0:
                    await anyio.lowlevel.checkpoint()

    async def cancel(
        self, agent_id: str, reason: CancelReason = CancelReason.USER, limit: LimitReached | None = None
    ) -> bool:
        """Ends one child and all below it; returns when they have stopped. ``False`` when it had ended, or was being
        cancelled already.

        Raises:
            UnknownAgent: the session has no such agent.
        """
        child = self._children.get(agent_id)
        if child is None:
            self.agent(agent_id)
            return False
        first = not child.cancelling and not child.driver.state.ended and child.ending is None
        if first:
            child.cancelling = True
            child.driver.feed(UserCancel(reason, limit))
        with anyio.move_on_after(self._host.settings.limits.cancel_grace):
            await child.done.wait()
        if not child.done.is_set():
            child.driver.force()
            await child.done.wait()
        return first

    async def cancel_below(self, agent_id: str, reason: CancelReason = CancelReason.PARENT) -> None:
        """Ends every child of ``agent_id``; returns when they have stopped."""
        await self._cancel_all(self.below(agent_id), reason)

    async def _watch_the_clock(self, child: _Child) -> None:
        await child.deadline.passed()
        time = f"{child.deadline.seconds:g} s"
        limit = LimitReached(f"it ran past its time limit of {time}")
        if child.late is CancelReason.BUDGET:
            limit = LimitReached(f"its budget of {time} is used up", "budgets.agent.seconds")
        await self.cancel(child.agent.id, child.late, limit)


async def _breathe(behind: Sequence[object]) -> None:
    """Lets the loop have its turn after each piece of a long work."""
    if behind:
        await anyio.lowlevel.checkpoint()


def _bounded(ending: Ending, limit: int, how: str) -> tuple[Ending, bool]:
    match ending:
        case Completed(result):
            text, cut = bounded(clean(result), limit, how)
            return Completed(text), cut
        case Failed(_, error, partial):
            text, cut = bounded(clean(partial), limit, how)
            return replace(ending, error=bounded(clean(error), limit, how)[0], partial=text), cut
        case Cancelled(_, partial):
            text, cut = bounded(clean(partial), limit, how)
            return replace(ending, partial=text), cut
