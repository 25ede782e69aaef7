"""The tree of agents of one session: builds them, starts them, and ends them.

Children run as tasks of the session, never of the request or the parent that asked for them. Each is owned by one
task here, which holds its slot, its deadline and the duty to report its one result.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from deputy_agents.definition import Access, Definition
from deputy_agents.errors import Overloaded, ToolError, UnknownAgent
from deputy_agents.event import AgentFinished, AgentInfo, AgentRef, AgentStarted, StatusChanged
from deputy_agents.ids import new_id
from deputy_agents.message import Message, Text
from deputy_agents.outcome import (
    AgentStatus,
    Cancelled,
    CancelReason,
    Completed,
    Ending,
    Failed,
    FailureReason,
    Outcome,
    cancel_sentence,
)
from deputy_agents.run.agent import Agent, AnyTool, Host, say
from deputy_agents.run.deadline import Deadline
from deputy_agents.run.driver import Driver
from deputy_agents.run.effect import SubAgentResult, UserCancel, UserPrompt
from deputy_agents.run.prompt import system_prompt
from deputy_agents.run.state import Context
from deputy_agents.slots import Slot, Slots
from deputy_agents.text import bounded, clean
from deputy_agents.tool.delegate import SpawnAgent, SpawnSpec
from deputy_agents.tool.registry import READ_ONLY, Registry, file_tools
from deputy_agents.tool.report import SubmitError, SubmitResult

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Child:
    driver: Driver
    slot: Slot
    deadline: Deadline
    spec: SpawnSpec
    parent: Driver
    done: anyio.Event = field(default_factory=anyio.Event)
    cancelling: bool = False
    ending: Ending | None = None


class Supervisor:
    """Agents of one session. ``slots`` are shared by all sessions of the process."""

    def __init__(self, host: Host, slots: Slots, tasks: TaskGroup, definitions: Mapping[str, Definition]) -> None:
        self._host = host
        self._slots = slots
        self._tasks = tasks
        self._definitions = definitions
        self._files = Registry(file_tools())
        self._children: dict[str, _Child] = {}
        self._drivers: dict[str, Driver] = {}

    # -- building --------------------------------------------------------------------------------------------------

    def primary(self, agent_id: str, cwd: Path, model: str) -> Driver:
        """The session's own agent: built once, by the same code as its children."""
        definition = self._definitions["primary"]
        info = AgentInfo(agent_id, "primary", definition.name, model, Access.DEFAULT, depth=0)
        agent = self._build(info, definition, cwd, parent=None)
        return self._adopt(Driver(agent, self._host, self._tasks))

    def _build(self, info: AgentInfo, definition: Definition, cwd: Path, parent: Agent | None) -> Agent:
        tools = self._tools(info, definition)
        settings = self._host.settings
        return Agent(
            info=info,
            ref=_ref(info, parent),
            definition=definition,
            cwd=cwd,
            system=system_prompt(definition, cwd, self._host.workspace.roots, info.access, is_child=parent is not None),
            tools=tools,
            context=Context(
                is_child=parent is not None,
                doors=frozenset({"spawn_agent"} & tools.keys()),
                concurrent=READ_ONLY,
                max_iterations=definition.max_iterations if parent else settings.limits.turn_iterations,
                attempts=settings.retry.attempts,
                tools=frozenset(tools),
            ),
            parent=parent,
        )

    def _tools(self, info: AgentInfo, definition: Definition) -> dict[str, AnyTool]:
        """What this agent may call: by its definition, its access and its depth."""
        settings = self._host.settings.agents
        tools: dict[str, AnyTool] = dict(self._files.offered(info.access, definition.tools))
        if settings.enabled and info.depth < settings.max_depth and (info.depth == 0 or _lists_door(definition)):
            tools["spawn_agent"] = SpawnAgent()
        if info.depth > 0:
            tools |= {tool.name: tool for tool in (SubmitResult(), SubmitError())}
        return tools

    def _adopt(self, driver: Driver) -> Driver:
        self._drivers[driver.agent.id] = driver
        return driver

    # -- spawning --------------------------------------------------------------------------------------------------

    def spawn(self, parent: Agent, tool_use_id: str, specs: Sequence[SpawnSpec]) -> tuple[str, ...]:
        """Accepts all of ``specs`` or none; what was accepted starts by itself.

        Raises:
            ToolError: unknown definition, too deep, or no room in the queue.
        """
        children: list[_Child] = []
        try:
            for spec in specs:  # one by one, so that what was reserved is known when the next one fails
                children.append(self._reserve(parent, tool_use_id, spec))  # noqa: PERF401
        except (ToolError, Overloaded) as error:
            for child in children:
                child.slot.close()
            raise ToolError(f"No sub-agent was started: {error}") from None
        for child in children:
            self._launch(child)
        return tuple(child.driver.agent.id for child in children)

    def _reserve(self, parent: Agent, tool_use_id: str, spec: SpawnSpec) -> _Child:
        definition = self._definitions.get(spec.definition)
        if definition is None:
            raise ToolError(f"there is no agent definition {spec.definition!r}; {', '.join(self._definitions)} exist.")
        info = AgentInfo(
            agent_id=new_id(),
            label=spec.label,
            definition=definition.name,
            model=self._model(definition, parent),
            access=Access.READ_ONLY if parent.info.access is Access.READ_ONLY else spec.access,
            depth=parent.info.depth + 1,
            parent_id=parent.id,
            tool_call_id=tool_use_id,
        )
        agent = self._build(info, definition, spec.cwd, parent)
        slot = self._slots.reserve(
            parent.id, writer=info.access is not Access.READ_ONLY, moved=lambda slot: self._moved(agent, slot)
        )
        seconds = spec.timeout or definition.timeout or self._host.settings.agents.timeout
        deadline = Deadline(seconds)
        driver = self._adopt(Driver(agent, self._host, self._tasks, slot, deadline))
        return _Child(driver, slot, deadline, spec, self._drivers[parent.id])

    def _model(self, definition: Definition, parent: Agent) -> str:
        named = self._host.settings.small_model if definition.model == "small" else definition.model
        return named or parent.info.model

    def _launch(self, child: _Child) -> None:
        agent = child.driver.agent
        self._children[agent.id] = child
        status = AgentStatus.PENDING if child.slot.queued else AgentStatus.RUNNING
        say(self._host, agent, AgentStarted(agent.info, status, child.slot.position))
        self._tasks.start_soon(self._run, child)

    async def _run(self, child: _Child) -> None:
        agent = child.driver.agent
        first = UserPrompt(Message("user", (Text(child.spec.first_message),)), child.spec.first_message)
        try:
            async with anyio.create_task_group() as watching:
                watching.start_soon(self._watch_the_clock, child)
                with child.slot:
                    await child.driver.run(first)
                watching.cancel_scope.cancel()
            await self.cancel_below(agent.id)
            outcome = self._report(child)
        finally:
            del self._children[agent.id]
            child.done.set()
        child.parent.feed(SubAgentResult(outcome))

    def _report(self, child: _Child) -> Outcome:
        """Emits the run's one result, and makes of it what the parent is told."""
        agent = child.driver.agent
        if child.ending is None:
            raise AssertionError("a driver ends with an ending")
        limit = self._host.settings.limits.result_bytes
        how = f"get_agent(agent_id={agent.id!r}) has the rest"
        ending, truncated = _bounded(child.ending, limit, how)
        outcome = Outcome(
            agent.id, ending, child.spec.task, agent.usage, agent.tool_calls, child.driver.state.iterations
        )
        result, error, reason = _told(ending)
        say(
            self._host,
            agent,
            AgentFinished(
                status=outcome.status,
                result=result,
                usage=agent.usage,
                tool_call_count=agent.tool_calls,
                iterations=outcome.iterations,
                failure_reason=reason,
                error=error,
                truncated=truncated,
            ),
        )
        return outcome

    def run_ended(self, agent: Agent, ending: Ending) -> None:
        if (child := self._children.get(agent.id)) is not None:
            child.ending = ending

    def _moved(self, agent: Agent, slot: Slot) -> None:
        if agent.id in self._children:
            status = AgentStatus.PENDING if slot.queued else AgentStatus.RUNNING
            say(self._host, agent, StatusChanged(status, slot.position))

    # -- ending ----------------------------------------------------------------------------------------------------

    def knows(self, agent_id: str) -> bool:
        return agent_id in self._drivers

    def below(self, agent_id: str) -> list[str]:
        """The live children of an agent."""
        return [child_id for child_id, child in self._children.items() if child.parent.agent.id == agent_id]

    def begin_cancel(self, agent_ids: Sequence[str], reason: CancelReason) -> None:
        for agent_id in agent_ids:
            self._tasks.start_soon(self.cancel, agent_id, reason)

    async def cancel(self, agent_id: str, reason: CancelReason = CancelReason.USER, detail: str = "") -> bool:
        """Ends one child and all below it; returns when they have stopped. ``False`` when it had ended, or was being
        cancelled already.

        Raises:
            UnknownAgent: the session has no such agent.
        """
        child = self._children.get(agent_id)
        if child is None:
            if agent_id not in self._drivers:
                raise UnknownAgent(f"This session has no agent {agent_id}.")
            return False
        first = not child.cancelling and not child.driver.state.ended
        if first:
            child.cancelling = True
            child.driver.feed(UserCancel(reason, detail))
        with anyio.move_on_after(self._host.settings.limits.cancel_grace):
            await child.done.wait()
        if not child.done.is_set():
            child.driver.force()
            await child.done.wait()
        return first

    async def cancel_below(self, agent_id: str, reason: CancelReason = CancelReason.PARENT) -> None:
        """Ends every child of ``agent_id``; returns when they have stopped."""
        async with anyio.create_task_group() as tasks:
            for child_id in self.below(agent_id):
                tasks.start_soon(self.cancel, child_id, reason)

    async def _watch_the_clock(self, child: _Child) -> None:
        await child.deadline.passed()
        detail = f"it ran past its time limit of {child.deadline.seconds:g} s"
        await self.cancel(child.driver.agent.id, CancelReason.TIMEOUT, detail)


def _ref(info: AgentInfo, parent: Agent | None) -> AgentRef:
    ancestry = (*parent.ref.ancestry, (parent.id, parent.info.label)) if parent else ()
    return AgentRef(info.agent_id, info.label, info.definition, info.model, info.depth, ancestry)


def _lists_door(definition: Definition) -> bool:
    return definition.tools is not None and "spawn_agent" in definition.tools


def _bounded(ending: Ending, limit: int, how: str) -> tuple[Ending, bool]:
    match ending:
        case Completed(result):
            text, cut = bounded(clean(result), limit, how)
            return Completed(text), cut
        case Failed(reason, error, partial):
            text, cut = bounded(clean(partial), limit, how)
            return Failed(reason, bounded(clean(error), limit, how)[0], text), cut
        case Cancelled(by, partial):
            text, cut = bounded(clean(partial), limit, how)
            return Cancelled(by, text), cut


def _told(ending: Ending) -> tuple[str, str | None, FailureReason | None]:
    """Result, error and reason as the finishing event tells them."""
    match ending:
        case Completed(result):
            return result, None, None
        case Failed(reason, error, partial):
            return partial, error, reason
        case Cancelled(by, partial):
            return partial, cancel_sentence(by), None
