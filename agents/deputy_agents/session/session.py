"""A session: one conversation of the user with a primary agent and its sub-agents.

Front ends use :class:`Session`, its parts, and ``runtime.Runtime``, which holds the sessions of a process. Call their
methods from tasks, not from event loop callbacks: they start tasks of their own.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import TaskGroup, TaskStatus

from deputy_agents.domain.errors import InvalidRequest, UnknownAgent, WrongState, check_length
from deputy_agents.domain.event import AgentStarted, PermissionRequest, QueuedPrompt, TurnError
from deputy_agents.domain.outcome import AgentStatus, CancelReason
from deputy_agents.domain.problem import Problem
from deputy_agents.editor.completion import Completions
from deputy_agents.events.entries import TranscriptPage, read_entries, read_page
from deputy_agents.events.event_log import EventLog
from deputy_agents.events.transcript_index import EntryRef
from deputy_agents.events.view import AgentNode, Entry, View
from deputy_agents.files.workspace import Workspace
from deputy_agents.permission.inbox import Inbox
from deputy_agents.ports.store import SessionRecord
from deputy_agents.run.driver import Driver
from deputy_agents.run.effect import Notice
from deputy_agents.run.host import emit
from deputy_agents.session.clients import SessionSettings
from deputy_agents.session.customizations import Customizations
from deputy_agents.session.host import SessionHost
from deputy_agents.session.mcp_servers import McpServers
from deputy_agents.session.model_choice import ModelChoice
from deputy_agents.session.permissions import SessionPermissions
from deputy_agents.session.prompt_acceptor import PromptAcceptor
from deputy_agents.session.record_keeper import RecordKeeper
from deputy_agents.session.review import Reverted, Review
from deputy_agents.session.rewind import Rewind
from deputy_agents.session.roster import Roster
from deputy_agents.session.supervisor import Supervisor
from deputy_agents.session.turn_scheduler import TurnScheduler
from deputy_agents.shell.background import BackgroundProcesses
from deputy_agents.text import visible

PREPARE_AFTER = 0.05
"""Seconds after which an open session prepares its model."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a session is made of, in the order of construction; ``session.assembly`` makes it."""

    settings: SessionSettings
    keeper: RecordKeeper
    permissions: SessionPermissions
    review: Review
    roster: Roster
    host: SessionHost
    mcp_servers: McpServers
    customizations: Customizations
    supervisor: Supervisor
    model_choice: ModelChoice
    primary: Driver
    turns: TurnScheduler
    prompts: PromptAcceptor
    tasks: TaskGroup
    rewind: Rewind
    is_new: bool


class Session:
    """One conversation with its agents, events and permission requests. :class:`Runtime` makes it.

    Its parts are public where front ends need them: ``settings`` (those it runs with, and their client), ``prompts``
    (accept a prompt), ``turns`` (the running turn and the prompt queue), ``inbox`` (permission requests: attach a
    client, answer), ``review`` (unreviewed changes), ``rewind`` (checkpoints, and going back to one), ``permissions``
    (mode and rules), ``model_choice`` (model, effort, thinking), ``log`` (events: subscribe, flush), ``keeper`` (the
    stored record), ``roster`` (all agents), ``supervisor`` (their drivers), ``mcp_servers`` and
    ``background_processes``.
    """

    def __init__(self, parts: Parts) -> None:
        self.settings = parts.settings
        self.keeper = parts.keeper
        self.permissions = parts.permissions
        self.mcp_servers = parts.mcp_servers
        self.customizations = parts.customizations
        self.turns = parts.turns
        self.host = parts.host
        self.review = parts.review
        self.roster = parts.roster
        self.supervisor = parts.supervisor
        self.model_choice = parts.model_choice
        self.prompts = parts.prompts
        self.rewind = parts.rewind
        self._tasks = parts.tasks
        self._is_new = parts.is_new

    # -- what it is ------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self.keeper.record.session_id

    @property
    def primary_id(self) -> str:
        return self.roster.primary_id

    @property
    def record(self) -> SessionRecord:
        return self.keeper.record

    @property
    def log(self) -> EventLog:
        return self.host.log

    @property
    def view(self) -> View:
        return self.host.log.view

    @property
    def inbox(self) -> Inbox:
        return self.host.inbox

    @property
    def workspace(self) -> Workspace:
        return self.host.workspace

    @property
    def background_processes(self) -> BackgroundProcesses:
        return self.host.background_processes

    @property
    def problems(self) -> Sequence[Problem]:
        """What is wrong with the files that users write for agents."""
        return self.customizations.problems

    @property
    def works(self) -> bool:
        """Whether a turn, its hooks or a background task run, or a prompt is being prepared."""
        turn = self.turns.running is not None or self.turns.running_hooks or self.prompts.preparing
        return turn or bool(self.supervisor.below(self.primary_id))

    @property
    def idle(self) -> bool:
        """Whether nothing runs here and no client is subscribed."""
        return not self.works and not self.log.has_subscribers

    def agents(self) -> Sequence[AgentNode]:
        """All agents that the session ever had, ordered by start, then id."""
        return self.roster.nodes(self.view)

    async def transcript(
        self, agent_id: str, after: int = 0, before: int | None = None, limit: int | None = None
    ) -> TranscriptPage:
        return await read_page(self.view, self.log.read_at, agent_id, after, before, limit)

    async def entries(self, refs: Sequence[EntryRef]) -> Sequence[Entry]:
        return await read_entries(self.view, self.log.read_at, refs)

    def permission_requests(self) -> Sequence[PermissionRequest]:
        """The open permission requests, oldest first."""
        return self.inbox.permission_requests()

    def queued_prompts(self) -> tuple[QueuedPrompt, ...]:
        """The prompts that wait for the running turn to end, in order."""
        return self.turns.queued()

    # -- prompts ---------------------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Applies changes of definitions, instructions, skills, commands, rules and MCP servers on disk. Call it before
        a prompt and before listing them. Concurrent calls continue in the order of the calls."""
        async with self.prompts.order:
            await self.customizations.refresh()

    async def complete(self, text: str) -> Completions:
        """How ``text``, the beginning of a prompt, can continue."""
        return await self.supervisor.primary.complete(text, self.customizations.slash_commands)

    async def start_mcp_servers(self) -> None:
        """Asks the user about MCP servers that nothing has decided about, and returns when those that may run do, or do
        not within a bounded time. Without it a prompt does not wait for such answers."""
        await self.mcp_servers.equip(self.supervisor.primary.agent)

    def set_model(self, name: str) -> None:
        """Changes the primary's model, from its next request on.

        Raises:
            InvalidRequest: the name is blank or too long.
        """
        self.model_choice.change(name)

    def set_roots(self, roots: Sequence[Path]) -> None:
        """Replaces the workspace folders, the first of ``roots`` the main one (absolute, symlinks resolved). It applies
        at once to all that agents touch, and to what users write for agents from the next prompt on. The primary's
        model gets a notice."""
        self.workspace.roots = tuple(roots)
        self.customizations.set_roots(roots)
        names = ", ".join(visible(str(root)) for root in roots)
        self.supervisor.primary.feed(Notice(f"The user has changed the workspace folders. They are now: {names}"))

    # -- steering and ending ---------------------------------------------------------------------------------------

    def steer(self, agent_id: str, text: str) -> None:
        """Sends a message to a running agent, which reads it after its next tool results, or when its sub-agents end.

        Raises:
            UnknownAgent: the session has no such agent.
            WrongState: it has ended or is idle.
            InvalidRequest: the message is empty or too long.
        """
        if not text.strip():
            raise InvalidRequest("The message is empty.", "text")
        check_length(text, "text")
        self.supervisor.steer(agent_id, text)

    async def cancel(self, reason: CancelReason = CancelReason.USER) -> bool:
        """Ends the turn, all agents, background processes and queued prompts; returns when everything has stopped."""
        cancelled = self.works or any(process.code is None for process in self.background_processes.list())
        await self._cancel(reason)
        await self.log.flush()
        return cancelled

    async def cancel_agent(self, agent_id: str) -> bool:
        """Ends one agent and all below it; returns when they have stopped. The primary stands for the session.

        Raises:
            UnknownAgent: the session has no such agent.
        """
        if agent_id == self.primary_id:
            return await self.cancel()
        cancelled = await self.supervisor.cancel(agent_id)
        await self.log.flush()
        return cancelled

    async def revert(self, agent_id: str, *, include_children: bool = False) -> Reverted:
        """Reverts what an agent, or also all agents below it, changed in files, where the same lines have not changed
        since. The primary's model gets a notice.

        Raises:
            UnknownAgent: the session has no such agent.
            WrongState: one of them is running.
        """
        nodes = {node.info.agent_id: node for node in self.agents()}
        if agent_id not in nodes:
            raise UnknownAgent(f"This session has no agent {agent_id}.")
        agent_ids = [agent_id, *(self.view.descendants(agent_id) if include_children else ())]
        if any(nodes[one].status in (AgentStatus.RUNNING, AgentStatus.PENDING) for one in agent_ids):
            raise WrongState("The agent is running. Stop it, or wait until it ends, before you revert its edits.")
        return await self.review.revert(agent_ids, nodes[agent_id].info.label)

    # -- lifecycle, for the runtime --------------------------------------------------------------------------------

    async def serve(self, *, task_status: TaskStatus[None]) -> None:
        """Runs until it is cancelled; ready when the session can accept a prompt."""
        self._tasks.start_soon(self.log.run)
        self._tasks.start_soon(self.supervisor.primary.run)
        if self._is_new:
            agent = self.supervisor.primary.agent
            emit(self.host, agent, AgentStarted(agent.info, AgentStatus.IDLE))
        await self.log.flush()
        task_status.started()
        self._tasks.start_soon(self.prompts.hooks.start)
        # The first prompt must not wait for the model's libraries; the client that opens the session comes first.
        await anyio.sleep(PREPARE_AFTER)
        with suppress(Exception):  # the first request fails in the same way, and says why
            await self.host.model(self.supervisor.primary.agent).prepare()
        await anyio.sleep_forever()

    async def close(self) -> None:
        """Ends everything, agents first, in bounded time."""
        self.turns.closed = True
        try:
            grace = self.host.settings.limits.cancel_grace
            with anyio.move_on_after(2 * grace):
                await self._cancel(CancelReason.SHUTDOWN)
            await self.prompts.hooks.end()
            with anyio.move_on_after(grace):
                await self.log.flush()
                await self.log.retry_now()
                await self.log.save_view()
                await self.keeper.save()
        finally:
            self._tasks.cancel_scope.cancel()
            self.ended()

    def ended(self, error: TurnError | None = None) -> None:
        """Nothing happens here any longer, because of ``error`` if there was one: nothing may wait for it."""
        self.turns.close(error)
        self.log.close()

    async def _cancel(self, reason: CancelReason) -> None:
        with self.turns.without_wakes():
            await self.prompts.cancel()
            for prompt in self.turns.queued():
                self.turns.withdraw(prompt.prompt_id, keep_stored=reason is CancelReason.SHUTDOWN)
            await self.turns.cancel(reason)
            below = CancelReason.PARENT if reason is CancelReason.USER else reason
            await self.supervisor.cancel_below(self.primary_id, below)
            await self.background_processes.stop_all()
