"""The tree of agents of one session: builds them, starts them, and ends them.

Sub-agents run as tasks of the session, never of the request or the parent that asked for them. One task here owns each
run: its slot, its deadline and the duty to report its one result.
"""

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from deputy_agents.domain.errors import Overloaded, StoreError, ToolError, WrongState
from deputy_agents.domain.event import AgentFinished, AgentStarted, Location, StatusChanged
from deputy_agents.domain.metrics import Metrics
from deputy_agents.domain.outcome import (
    AgentStatus,
    CancelReason,
    Completed,
    Ending,
    Failed,
    FailureReason,
    LimitReached,
    Outcome,
)
from deputy_agents.domain.settings import Budget
from deputy_agents.events.view import AgentNode
from deputy_agents.ports.store import SessionRecord
from deputy_agents.run.agent import Agent
from deputy_agents.run.answer_check import check_references
from deputy_agents.run.deadline import Deadline
from deputy_agents.run.driver import Driver
from deputy_agents.run.effect import Notice, Steered, SubAgentResult, UserCancel, UserPrompt
from deputy_agents.run.hook_runner import HookRunner
from deputy_agents.run.host import Host, emit
from deputy_agents.run.result import background_text, bounded_ending, result_texts
from deputy_agents.run.slots import Slot, Slots
from deputy_agents.run.state import Idle
from deputy_agents.session.builder import Builder
from deputy_agents.session.child_run import ChildRun
from deputy_agents.session.histories import Histories
from deputy_agents.session.mcp_servers import McpServers
from deputy_agents.session.queue_positions import QueuePositions
from deputy_agents.session.restore import Past
from deputy_agents.session.roster import Roster
from deputy_agents.shell.background import EndedBy
from deputy_agents.tool.delegate import Accepted, SpawnSpec

logger = logging.getLogger(__name__)

CANCELS_PER_STEP = 32
"""Agents that are cancelled before the event loop runs other tasks."""


class Supervisor:
    """Implements :class:`deputy_agents.run.host.AgentTree`. All sessions of the process share ``slots`` and
    ``metrics``."""

    def __init__(
        self,
        host: Host,
        builder: Builder,
        roster: Roster,
        mcp_servers: McpServers,
        histories: Histories,
        slots: Slots,
        metrics: Metrics,
        tasks: TaskGroup,
    ) -> None:
        self._host = host
        self._builder = builder
        self._roster = roster
        self._mcp_servers = mcp_servers
        self._histories = histories
        self._slots = slots
        self._metrics = metrics
        self._tasks = tasks
        self.running: dict[str, ChildRun] = {}
        """Running and queued sub-agents."""
        self.drivers: dict[str, Driver] = {}
        """The drivers of the primary and of running and queued sub-agents."""
        self._positions = QueuePositions(host, slots, tasks, self.running)
        mcp_servers.on_change(self.renew_primary)

    @property
    def primary(self) -> Driver:
        return self.drivers[self._roster.primary_id]

    def build_primary(self, cwd: Path, record: SessionRecord, definition: str) -> Driver:
        """The session's own agent, built by the same code as its sub-agents."""
        agent = self._builder.primary(cwd, record, definition)
        self._roster.add(agent)
        driver = self.drivers[agent.id] = Driver(agent, self._host, self, self._tasks)
        return driver

    def renew_primary(self) -> None:
        """Applies changed definitions, settings and MCP servers from the primary's next request on."""
        self._builder.renew(self._roster.primary)

    def restore(self, past: Past) -> None:
        """Adds the agents of a stored session with all that they know. None of them runs."""
        for node in sorted(past.view.tree(), key=lambda node: node.info.depth):
            if agent := self._roster.get(node.info.agent_id) or self._restored(node):
                self._builder.remember(agent, node, past)
                count = None if agent.is_child else past.primary_messages
                self._histories.leave_in_store(agent, past.contexts.get(agent.id), count)
        self.drivers[self._roster.primary_id].take_notes()

    def _restored(self, node: AgentNode) -> Agent | None:
        if (parent := self._roster.get(node.info.parent_id or "")) is None:
            return None
        agent = self._builder.restored(node.info, parent)
        self._roster.add(agent)
        return agent

    # -- spawning --------------------------------------------------------------------------------------------------

    async def spawn(self, parent: Agent, tool_use_id: str, specs: Sequence[SpawnSpec]) -> tuple[Accepted, ...]:
        """Accepts all of ``specs`` or none; what is accepted starts by itself. Of several, those that find no room in
        the queue are accepted too and fail at once, so that the others are not lost. The event loop runs other tasks
        between two of them; when the parent is cancelled meanwhile, no more are started.

        Raises:
            ToolError: unknown definition, too deep, nothing to resume, or no room in the queue.
        """
        limits = self._host.settings.agents
        agents: list[Agent] = []
        try:
            if not limits.enabled or parent.info.depth >= limits.max_depth:
                raise ToolError(f"agents at depth {parent.info.depth} may not start sub-agents.")
            for spec in specs:
                await _yield_to_loop(agents)
                agents.append(self._agent(parent, tool_use_id, spec))
            if (driver := self.drivers.get(parent.id)) is None:
                raise ToolError("this agent has ended.")
            accepted = await self._accept(driver, tool_use_id, agents, specs)
        except (ToolError, Overloaded) as error:
            raise ToolError(f"No sub-agent was started: {error}") from None
        if not accepted:
            await anyio.lowlevel.checkpoint()  # raises the cancel that kept all from starting
        return tuple(accepted)

    async def _accept(
        self, parent: Driver, tool_use_id: str, agents: Sequence[Agent], specs: Sequence[SpawnSpec]
    ) -> list[Accepted]:
        """Reserves a slot for each and launches it. A cancel stops the loop but is not raised: the parent's machine
        needs to know what was launched."""
        call_accepted = anyio.Event()
        accepted: list[Accepted] = []
        with anyio.CancelScope(shield=True):
            try:
                for agent, spec in zip(agents, specs, strict=True):
                    await _yield_to_loop(accepted)
                    if parent.stopping:
                        break
                    child = self._reserve(agent, parent, spec, call_accepted, must_fit=len(specs) == 1)
                    accepted.append(self._launch(child, tool_use_id))
            finally:
                call_accepted.set()
        return accepted

    def _agent(self, parent: Agent, tool_use_id: str, spec: SpawnSpec) -> Agent:
        """The agent to run: a new one, or the one to resume, which is unchanged until its run is launched."""
        if spec.resume is None:
            return self._builder.child(parent, tool_use_id, spec)
        agent = self._roster.get(spec.resume)
        if agent is None or agent.parent is not parent:
            raise ToolError(f"there is no task {spec.resume} to resume here; list_agents names those that exist.")
        if spec.resume in self.running:
            raise ToolError(f"the task {spec.resume} is still running; wait for the notice that it has ended.")
        if agent.definition.name != spec.definition:
            raise ToolError(f"the task {spec.resume} is a {agent.definition.name}, not a {spec.definition}.")
        return agent

    def _reserve(
        self, agent: Agent, parent: Driver, spec: SpawnSpec, call_accepted: anyio.Event, *, must_fit: bool
    ) -> ChildRun:
        slot: Slot | None = None
        rejection = ""
        try:
            slot = self._slots.reserve(
                parent.agent.id,
                writer=agent.writes,
                on_start=lambda: self._slot_started(agent.id),
                on_shift=self._positions.changed,
            )
        except Overloaded as error:
            if must_fit:
                raise
            rejection = str(error)
        settings = self._host.settings
        seconds = spec.timeout or agent.definition.timeout or settings.agents.timeout
        budget = settings.budgets.agent.seconds
        late = CancelReason.TIMEOUT if budget is None or seconds <= budget else CancelReason.BUDGET
        deadline = Deadline(seconds if budget is None else min(seconds, budget))
        driver = Driver(agent, self._host, self, self._tasks, slot, deadline)
        now = self._host.clock.monotonic()
        position = self._slots.queued if slot is not None and slot.queued else None
        return ChildRun(agent, driver, slot, deadline, late, spec, parent, call_accepted, now, position, rejection)

    def _launch(self, child: ChildRun, tool_use_id: str) -> Accepted:
        agent = child.agent
        if child.spec.resume is not None:
            self._builder.continue_run(agent, tool_use_id, child.spec)
            child.driver.take_notes()
        self._roster.add(agent)
        self.drivers[agent.id] = child.driver
        self.running[agent.id] = child
        self._metrics.counters["spawns"] += 1
        self._metrics.measure("queue.depth", self._slots.queued)
        waits = child.slot is None or child.slot.queued
        status = AgentStatus.PENDING if waits else AgentStatus.RUNNING
        emit(self._host, agent, AgentStarted(agent.info, status, child.queue_position))
        self._tasks.start_soon(self._run, child)
        return Accepted(agent.id, child.queue_position)

    async def _run(self, child: ChildRun) -> None:
        agent = child.agent
        try:
            # The slot is free before the end is published: clients never see more agents run than there are slots.
            with child.slot or nullcontext():
                if child.slot is None:
                    ending: Ending = Failed(FailureReason.RUNTIME_ERROR, child.rejection)
                else:
                    ending = await self._work(child, child.slot)
                await self.cancel_below(agent.id)
                await self._host.background_processes.stop_all(agent.id, EndedBy.RUN_END)
                outcome = await self._report(child, ending)
        finally:
            del self.running[agent.id], self.drivers[agent.id]
            agent.rest()
            child.done.set()
        await child.call_accepted.wait()
        if child.spec.background:
            child.parent.feed(Notice(background_text(outcome)))
            if child.parent.turns is not None:
                child.parent.turns.task_ended()
        else:
            child.parent.feed(SubAgentResult(outcome))
        await self._histories.release(agent)

    async def _work(self, child: ChildRun, slot: Slot) -> Ending:
        if not slot.queued:
            # No slot may become free for a later one of the call only because this one was fast.
            await child.call_accepted.wait()
        ending: Ending | None = None
        async with anyio.create_task_group() as watching:
            watching.start_soon(self._watch_deadline, child)
            with anyio.move_on_after(self._host.settings.limits.cancel_grace):  # a slow disk does not keep it from work
                await self._builder.add_instructions(child.agent)
            try:
                await child.agent.remember()
                ending = await child.driver.run(lambda: self._prepare(child))
            except StoreError as error:
                ending = Failed(FailureReason.RUNTIME_ERROR, str(error))
            watching.cancel_scope.cancel()
        if slot.queued:
            slot.close()  # it ended before it had a slot, and must not get one now
        if ending is None:
            raise AssertionError("a driver returns an ending")
        return ending

    async def _prepare(self, child: ChildRun) -> UserPrompt:
        """The first prompt of a run. Waits until the user has answered whether the MCP servers of the definition may
        start, and adds their tools; then runs the hooks at its start."""
        agent = child.agent
        if agent.definition.mcp_servers and agent.writes:
            await self._mcp_servers.equip(self._roster.primary, agent.definition.name)
            self._builder.renew(agent)
        context = await HookRunner(agent, self._host).subagent_start()
        return self._builder.first_prompt(agent, child.spec.first_message, context)

    async def _report(self, child: ChildRun, ending: Ending) -> Outcome:
        """Emits the one result of the run, and returns what the parent receives."""
        agent = child.agent
        places = await self._references(agent, ending)
        agent.result, error, reason = result_texts(ending)
        limit = self._host.settings.limits.result_bytes
        bounded, truncated = bounded_ending(ending, limit, f"get_agent(agent_id={agent.id!r}) has all of it")
        iterations = child.driver.state.iterations
        outcome = Outcome(agent.id, bounded, child.spec.task, agent.usage, agent.tool_calls, iterations)
        self._count(outcome, reason)
        finished = AgentFinished(
            status=outcome.status,
            result=result_texts(bounded)[0],
            usage=agent.usage,
            tool_call_count=agent.tool_calls,
            iterations=iterations,
            failure_reason=reason,
            error=error,
            references=places,
            truncated=truncated,
        )
        emit(self._host, agent, finished)
        return outcome

    async def _references(self, agent: Agent, ending: Ending) -> tuple[Location, ...]:
        """The places that an answer refers to. No slow or broken disk keeps a sub-agent from ending."""
        if isinstance(ending, Completed):
            with anyio.move_on_after(self._host.settings.limits.cancel_grace):
                try:
                    return (await check_references(ending.result, agent, self._host)).locations
                except Exception:
                    logger.exception("the references of agent %s cannot be checked", agent.id)
        return ()

    def _count(self, outcome: Outcome, reason: FailureReason | None) -> None:
        counters = self._metrics.counters
        if reason is None:
            counters[outcome.status.value] += 1
        else:
            counters["failures"] += 1
            counters[f"failures.{reason.value}"] += 1

    # -- the queue -------------------------------------------------------------------------------------------------

    def _slot_started(self, agent_id: str) -> None:
        child = self.running[agent_id]
        child.queue_position = None
        self._metrics.measure("queue.wait", self._host.clock.monotonic() - child.accepted_at)
        emit(self._host, child.agent, StatusChanged(AgentStatus.RUNNING))

    # -- steering and ending ---------------------------------------------------------------------------------------

    def steer(self, agent_id: str, text: str) -> None:
        """Sends a message to a running agent, which reads it at the next chance.

        Raises:
            UnknownAgent: the session has no such agent.
            WrongState: it has ended or is idle.
        """
        agent = self._roster.agent(agent_id)
        driver = self.drivers.get(agent_id)
        if driver is None or driver.state.ended or isinstance(driver.state.phase, Idle):
            raise WrongState(f"Agent {agent.info.label!r} is not running, so it cannot receive messages.")
        driver.feed(Steered(text))

    def below(self, agent_id: str) -> list[str]:
        """The running and queued children of an agent."""
        return [child_id for child_id, child in self.running.items() if child.parent.agent.id == agent_id]

    def over_budget(self, agent: Agent) -> bool:
        """Whether the budget of ``agent`` or of the session is used up. If so, what it bounds starts to end."""
        budget = self._host.settings.budgets.agent
        if over := budget.exceeded(agent.usage, agent.calls, agent.replies):
            limit = LimitReached(f"its budget of {over.description} is used up", f"budgets.agent.{over.setting}")
            self.end_at_limit(agent, limit)
        elif over := self.tree_limit():
            limit = LimitReached(
                f"the session's budget of {over.description} is used up", f"budgets.tree.{over.setting}"
            )
            self.end_at_limit(self._roster.primary, limit)
        return over is not None

    def tree_limit(self) -> LimitReached | None:
        """The limit that all agents together have reached, if any."""
        tree = self._host.settings.budgets.tree
        return None if tree == Budget() else tree.exceeded(*self._roster.spent())

    def end_at_limit(self, agent: Agent, limit: LimitReached) -> None:
        """Starts to end one agent; with the primary, its turn and everything below it."""
        reason = CancelReason.BUDGET
        if agent.is_child:
            self._tasks.start_soon(self._cancel_all, [agent.id], reason, limit)
            return
        self._tasks.start_soon(self._cancel_all, self.below(agent.id), reason, limit)
        if (turns := self.drivers[agent.id].turns) is not None:
            self._tasks.start_soon(turns.cancel, reason, limit)

    def cancel_children(self, agent_ids: Sequence[str], reason: CancelReason) -> None:
        self._tasks.start_soon(self._cancel_all, agent_ids, reason)

    async def _cancel_all(
        self, agent_ids: Sequence[str], reason: CancelReason, limit: LimitReached | None = None
    ) -> None:
        """Ends several; returns when they have stopped. The last are cancelled first: they wait in the queue and must
        not start because those before them end."""
        async with anyio.create_task_group() as tasks:
            for count, agent_id in enumerate(reversed(agent_ids), 1):
                tasks.start_soon(self.cancel, agent_id, reason, limit)
                if count % CANCELS_PER_STEP == 0:
                    await anyio.lowlevel.checkpoint()

    async def cancel(
        self, agent_id: str, reason: CancelReason = CancelReason.USER, limit: LimitReached | None = None
    ) -> bool:
        """Ends one sub-agent and all below it; returns when they have stopped. ``False`` when it had ended or was being
        cancelled already.

        Raises:
            UnknownAgent: the session has no such agent.
        """
        child = self.running.get(agent_id)
        if child is None:
            self._roster.agent(agent_id)
            return False
        ended = child.driver.state.ended or child.driver.ended or child.slot is None
        first = not child.cancelling and not ended
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

    async def _watch_deadline(self, child: ChildRun) -> None:
        await child.deadline.passed()
        time = f"{child.deadline.seconds:g} s"
        limit = LimitReached(f"it ran past its time limit of {time}")
        if child.late is CancelReason.BUDGET:
            limit = LimitReached(f"its budget of {time} is used up", "budgets.agent.seconds")
        await self.cancel(child.agent.id, child.late, limit)


async def _yield_to_loop(done: Sequence[object]) -> None:
    """Lets other tasks run between two pieces of a long job."""
    if done:
        await anyio.lowlevel.checkpoint()
