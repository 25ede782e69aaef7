"""One conversation: a primary agent, its children, their events and questions.

Front ends talk to :class:`Session` and to ``runtime.Runtime``, which holds the sessions of a process, and to nothing
below them. Call their methods from tasks, not from loop callbacks: they start tasks of their own.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
from anyio.abc import TaskGroup, TaskStatus

from deputy_agents.definition.catalogue import Catalogue
from deputy_agents.definition.loader import PRIMARY
from deputy_agents.domain.errors import InvalidRequest, UnknownAgent, WrongState, check_length
from deputy_agents.domain.event import (
    AgentStarted,
    DefinitionsChanged,
    PermissionRequest,
    QueuedPrompt,
    SessionChanged,
    StatusChanged,
    TurnError,
    TurnStarted,
)
from deputy_agents.domain.file_change import FileChange
from deputy_agents.domain.hook import Hook
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.message import Block
from deputy_agents.domain.metrics import Metrics
from deputy_agents.domain.outcome import AgentStatus, CancelReason, Ending, LimitReached
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.problem import Problem
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.domain.settings import Budget, Settings
from deputy_agents.domain.turn import Origin, Turn
from deputy_agents.editor.completion import Completions
from deputy_agents.events.event_log import EventLog
from deputy_agents.events.subscription import Subscription
from deputy_agents.events.view import AgentNode, Entry, View
from deputy_agents.files.workspace import Workspace
from deputy_agents.guidance.items import SlashCommand
from deputy_agents.guidance.library import Library
from deputy_agents.guidance.mcp_entry import Source
from deputy_agents.guidance.workspace_settings import Written
from deputy_agents.mcp.approvals import Approvals
from deputy_agents.permission.decide import Policy, child_policy
from deputy_agents.permission.inbox import Inbox
from deputy_agents.ports.clock import Clock
from deputy_agents.ports.editor import Editors
from deputy_agents.ports.model import Model, ModelFactory
from deputy_agents.ports.permission import PermissionAnswer, PermissionClient
from deputy_agents.ports.store import SessionRecord, Store
from deputy_agents.run.agent import Agent, say
from deputy_agents.run.driver import Driver
from deputy_agents.run.effect import FinishTurn, Notice
from deputy_agents.run.slots import Slots
from deputy_agents.session.builder import Builder
from deputy_agents.session.change_tracker import ChangeTracker, Reverted
from deputy_agents.session.mcp_servers import McpServers, sources, unknown
from deputy_agents.session.prompt_acceptor import PromptAcceptor
from deputy_agents.session.restore import Past
from deputy_agents.session.session_view import LiveSessionView
from deputy_agents.session.supervisor import Supervisor
from deputy_agents.session.title import renamed, title_of
from deputy_agents.session.turn_scheduler import TurnScheduler
from deputy_agents.shell.background import BackgroundProcesses
from deputy_agents.text import clean, visible
from deputy_agents.tool.base import Tool
from deputy_agents.tool.delegate import Accepted, SpawnSpec

logger = logging.getLogger(__name__)

MAX_NAME = 200
"""Characters of a model's name."""


@dataclass(slots=True)
class Shared:
    """What all sessions of a process share. ``grace`` is how long a question waits for a client that can ask it, in
    seconds; 0 where no client can come back."""

    settings: Settings
    store: Store
    models: ModelFactory
    clock: Clock
    grace: float
    slots: Slots
    metrics: Metrics
    approvals: Approvals = field(default_factory=Approvals)


class Session:
    """One conversation: a primary agent, its children, their events and questions. Made by :class:`Runtime`."""

    def __init__(
        self,
        shared: Shared,
        record: SessionRecord,
        workspace: Workspace,
        catalogue: Catalogue,
        library: Library,
        tasks: TaskGroup,
        past: Past | None = None,
        kind: str = PRIMARY,
    ) -> None:
        self.record = record
        self.workspace = workspace
        self.catalogue = catalogue
        self.library = library
        self.view = past.view if past else View()
        numbering = past.numbering if past else None
        self.log = EventLog(record.session_id, shared.store, shared.clock, self.view, numbering)
        self.inbox = Inbox(self.log, tasks, shared.grace)
        self.changes = ChangeTracker(workspace, self.log, is_new=past is None)
        self.editors = Editors()
        """Whom agents can ask about the code."""
        self._shared = shared
        self._tasks = tasks
        self._is_new = past is None
        self._stored: SessionRecord | None = None
        self._permission_mode = record.permission_mode or shared.settings.permission_mode
        self._rules = list(record.rules)
        self._dropped: set[Rule] = set()
        """Rules of the settings that do not hold here."""
        self.background_processes = BackgroundProcesses(tasks, shared.clock, lambda: self.log.emit(SessionChanged()))
        self.editor_mcp_servers: Sequence[Source] = ()
        """MCP servers that the editor names for this session; they count from the next :meth:`refresh`."""
        self.servers = McpServers(
            self,
            tasks,
            workspace.roots,
            Path(record.cwd),
            shared.approvals,
            self._named_servers,
            self._servers_changed,
        )
        self._supervisor = Supervisor(self, Builder(self, catalogue, library), shared.slots, shared.metrics, tasks)
        if past is not None and (node := past.view.agents.get(record.agent_id)) is not None:
            kind = node.info.definition
        self._primary: Driver = self._supervisor.primary(record.agent_id, Path(record.cwd), record.model, kind)
        if past is not None:
            self._supervisor.restore(past)
        self._turns = TurnScheduler(self, self._primary, tasks, self._turn_begins, self._touch)
        self._intake = PromptAcceptor(self, self._primary, self._turns, self.servers, library)
        self._cancelling = False
        """The user stops everything: the ends of background agents wake nobody."""

    # -- what front ends use ---------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self.record.session_id

    @property
    def primary_id(self) -> str:
        return self.record.agent_id

    @property
    def last_seq(self) -> int:
        """The number of the last published event."""
        return self.log.last_seq

    @property
    def problems(self) -> Sequence[Problem]:
        """What the user has to know about files that are written for agents."""
        named, missing = self.servers.named, ()
        if named is not None and self.settings.trusted:  # what another workspace names is not looked at
            missing = unknown(self.catalogue.definitions.values(), named)
        servers = (*self.servers.problems, *self.servers.faults, *missing)
        return (*self.catalogue.problems, *self.library.problems, *servers)

    @property
    def busy(self) -> bool:
        """A turn runs."""
        return self._turns.running is not None

    @property
    def watched(self) -> bool:
        """Somebody is told what happens here."""
        return self.log.has_subscribers

    @property
    def idle(self) -> bool:
        """Nothing runs here, and nobody watches."""
        works = self.busy or self._intake.preparing or self._supervisor.below(self.primary_id)
        return not works and not self.watched

    @property
    def permission_mode(self) -> PermissionMode:
        """How much is allowed without asking. Setting it holds at once: open questions are decided anew."""
        return self._permission_mode if self.settings.trusted else PermissionMode.PLAN

    @permission_mode.setter
    def permission_mode(self, mode: PermissionMode) -> None:
        self._permission_mode = mode
        self._change(replace(self.record, permission_mode=mode))
        self.inbox.recheck()

    def set_model(self, name: str) -> None:
        """Gives the primary another model, from its next request on.

        Raises:
            InvalidRequest: the name is blank, or very long.
        """
        check_length(name, "model", MAX_NAME)
        name = clean(name).strip()
        if not name:
            raise InvalidRequest("model: a name is needed.", "model")
        agent = self._primary.agent
        agent.info, agent.ref = replace(agent.info, model=name), replace(agent.ref, model=name)
        self._change(replace(self.record, model=name))

    def rename(self, title: str) -> None:
        """Gives the session a title of the user's.

        Raises:
            InvalidRequest: it is blank.
        """
        self._change(renamed(self.record, title))

    def archive(self, archived: bool) -> None:
        """Puts the session away, or takes it out again."""
        self._change(replace(self.record, archived=archived))

    def rules(self) -> tuple[Rule, ...]:
        """The rules in force: those of the settings, of the user, of the workspace, then what answers have added."""
        trusted = self.settings.vouched
        of_workspace = (
            rule for rule in self.library.workspace.rules if trusted or rule.decision is not DecisionKind.ALLOW
        )
        given = (*self.settings.permissions.rules, *self.library.own.rules, *of_workspace)
        return (*(rule for rule in given if rule not in self._dropped), *self._rules)

    def forget(self, rule_id: str) -> None:
        """Drops a rule of this session; one of the settings goes on to hold in others. Open questions are decided anew.

        Raises:
            InvalidRequest: no such rule is in force.
        """
        rule = next((rule for rule in self.rules() if rule.rule_id == rule_id), None)
        if rule is None:
            raise InvalidRequest(f"There is no rule {rule_id}.", "ruleId")
        if rule in self._rules:
            self._rules.remove(rule)
            self._keep_rules()
        else:
            self._dropped.add(rule)
        self.inbox.recheck()

    async def refresh(self) -> None:
        """Looks whether agent definitions, instructions, skills, commands or the rules of the workspace have changed;
        call it before a turn and before listing them. Those who call at the same time go on in the order of their
        calls."""
        async with self._intake.order:
            self.catalogue.trusted = self.library.trusted = self.settings.trusted
            changed = [await self.catalogue.refresh(), await self.library.refresh()]
            await self.servers.refresh()
            if any(changed):
                self.log.emit(DefinitionsChanged())
                self.inbox.recheck()

    @property
    def slash_commands(self) -> Mapping[str, SlashCommand]:
        """What people can call as ``/name``: commands, and prompts of MCP servers, by name."""
        return {**self.servers.prompts(), **self.library.commands}

    @property
    def cancels(self) -> int:
        """How often everything was cancelled here."""
        return self._intake.cancels

    async def prompt(
        self,
        blocks: Sequence[Block],
        *,
        attached: Sequence[Block] = (),
        queue: bool = False,
        origin: Origin = "user",
        since: int | None = None,
    ) -> Turn:
        """Accepts a prompt as a person wrote it: see :meth:`PromptAcceptor.accept`."""
        return await self._intake.accept(blocks, attached, origin, queue=queue, since=since)

    async def ask_about_servers(self) -> None:
        """Asks about the MCP servers that nobody has decided about, and returns when the user has answered and those
        that may run do, or do not within a bounded time. Without it a prompt does not wait for such answers."""
        await self.servers.equip(self._primary.agent)

    async def complete(self, text: str) -> Completions:
        """How a prompt that is being written can go on after ``text``."""
        return await self._primary.complete(text, self.slash_commands)

    def start_turn(
        self, blocks: Sequence[Block], *, shown: str | None = None, queue: bool = False, origin: Origin = "user"
    ) -> Turn:
        """Accepts a prompt as the model reads it; ``shown`` is what users see. Raises as :meth:`TurnScheduler.take`."""
        return self._turns.take(blocks, shown, origin, queue=queue)

    def unqueue(self, prompt_id: str) -> bool:
        """Takes a waiting prompt back: it ends as cancelled. ``False`` when it does not wait."""
        return self._turns.take_back(prompt_id)

    async def cancel_turn(self, reason: CancelReason = CancelReason.USER) -> bool:
        """Ends the running turn with the children that it waits for; returns when they have stopped."""
        return await self._turns.cancel(reason)

    async def cancel(self, reason: CancelReason = CancelReason.USER) -> bool:
        """Ends the turn, all agents and all waiting prompts; returns when everything has stopped."""
        works = any(command.code is None for command in self.background_processes.list())
        works |= self._turns.hooking
        cancelled = self.busy or works or bool(self._intake.preparing or self._supervisor.below(self.primary_id))
        await self._cancel(reason)
        await self.flush()
        return cancelled

    async def cancel_agent(self, agent_id: str) -> bool:
        """Ends one agent and all below it; returns when they have stopped. The primary stands for the session.

        Raises:
            UnknownAgent: no such agent here.
        """
        if agent_id == self.primary_id:
            return await self.cancel()
        cancelled = await self._supervisor.cancel(agent_id)
        await self.flush()
        return cancelled

    async def revert(self, agent_id: str, *, include_children: bool = False) -> Reverted:
        """Takes back what an agent, or also all below it, has changed in files, as far as nobody has changed the same
        lines since. The primary's model is told.

        Raises:
            UnknownAgent: no such agent here.
            WrongState: one of them is at work.
        """
        nodes = {node.info.agent_id: node for node in self.agents()}
        if agent_id not in nodes:
            raise UnknownAgent(f"This session has no agent {agent_id}.")
        whose = [agent_id, *(self.view.descendants(agent_id) if include_children else ())]
        if any(nodes[one].status in (AgentStatus.RUNNING, AgentStatus.PENDING) for one in whose):
            raise WrongState("The agent is at work: stop it, or wait for its end, before its edits are taken back.")
        label = nodes[agent_id].info.label
        reverted = await self.changes.revert(whose, f"{label}: edits taken back")
        if reverted.files:
            names = ", ".join(visible(path) for path in reverted.files)
            self._primary.feed(Notice(f"The user has taken back the edits that [{label}] made to: {names}"))
        return reverted

    def move(self, roots: Sequence[Path]) -> None:
        """The workspace folders are others now, the first of ``roots`` the main one (absolute, symlinks resolved). It
        holds at once for all that agents touch; what is written for agents is looked for there from the next prompt on.
        The primary's model is told."""
        for place in (self.workspace, self.catalogue, self.library, self.servers):
            place.roots = tuple(roots)
        names = ", ".join(visible(str(root)) for root in roots)
        self._primary.feed(Notice(f"The user has changed the workspace folders. They are now: {names}"))

    def steer(self, agent_id: str, text: str) -> None:
        """Tells a running agent something; it reads it after its next tool results, or when its children end.

        Raises:
            UnknownAgent: no such agent here.
            WrongState: it has ended, or is idle.
            InvalidRequest: there is nothing in it, or more than a model can read.
        """
        if not text.strip():
            raise InvalidRequest("The message is empty.", "text")
        check_length(text, "text")
        self._supervisor.steer(agent_id, text)

    def waiting(self) -> tuple[QueuedPrompt, ...]:
        """The prompts that wait for the running turn, in order."""
        return self._turns.waiting()

    def agents(self) -> Sequence[AgentNode]:
        """All agents that ever were, ordered by start, then id."""
        # The primary starts once, so its event knows only the model of that time.
        primary = self._primary.agent.info
        return [
            replace(node, info=primary) if node.info.agent_id == self.primary_id else node for node in self.view.tree()
        ]

    def transcript(self, agent_id: str, after: int = 0, limit: int | None = None) -> tuple[Sequence[Entry], int]:
        """The entries of one agent numbered above ``after``, and the number of the last published event.

        Raises:
            UnknownAgent: no such agent here.
        """
        if agent_id not in self.view.agents:
            raise UnknownAgent(f"This session has no agent {agent_id}.")
        return self.view.transcript(agent_id, after, limit), self.last_seq

    def permission_requests(self) -> Sequence[PermissionRequest]:
        """What waits for the user, in the order of asking."""
        return self.inbox.permission_requests()

    def answer(self, request_id: str, answer: PermissionAnswer) -> bool:
        """Settles a question; ``False`` when it was settled before.

        Raises:
            InvalidRequest: no such question or option.
        """
        return self.inbox.answer(request_id, answer)

    def subscribe(self, after: int | None = None) -> Subscription:
        """Events numbered above ``after`` (default: from now on). Close the subscription when done."""
        return self.log.subscribe(after)

    def attach(self, client: PermissionClient) -> None:
        """``client`` is asked what is open and what follows."""
        self.inbox.attach(client)

    def detach(self, client: PermissionClient) -> None:
        self.inbox.detach(client)

    async def flush(self) -> None:
        """Returns when all that has happened is committed and published."""
        await self.log.flush()

    # -- what drivers use (the Host protocol) ----------------------------------------------------------------------

    @property
    def session_id(self) -> str:
        return self.id

    @property
    def clock(self) -> Clock:
        return self._shared.clock

    @property
    def settings(self) -> Settings:
        return self._shared.settings

    def hooks(self) -> Sequence[Hook]:
        of_workspace = self.library.workspace.hooks if self.settings.vouched else ()
        return (*self.settings.hooks, *self.library.own.hooks, *of_workspace)

    def mcp_tools(self, definition: str = "") -> Mapping[str, Tool]:
        return self.servers.tools(definition)

    def model(self, agent: Agent) -> Model:
        return self._shared.models(agent.info.model)

    def policy(self, agent: Agent) -> Policy:
        if agent.parent is None:
            return Policy(self.permission_mode, self.rules())
        above = self.policy(agent.parent)
        return child_policy(Policy(agent.definition.permission_mode or above.mode, agent.definition.rules), above)

    def remember(self, rules: Sequence[Rule]) -> None:
        for rule in rules:
            if all(replace(rule, rule_id=old.rule_id) != old for old in self._rules):
                self._rules.append(rule)
        self._keep_rules()
        self.inbox.recheck()

    def session_view(self, agent: Agent) -> LiveSessionView:
        return LiveSessionView(self, agent)

    def changing(
        self, agent: Agent, tool_use_id: str, path: Path, before: str | None, after: str
    ) -> AbstractAsyncContextManager[None]:
        now = self.clock.time()
        change = FileChange(new_id(), agent.id, agent.run, tool_use_id, str(path), before, after, now)
        return self.changes.making(change)

    def over_budget(self, agent: Agent) -> bool:
        if over := self.settings.budgets.agent.exceeded(agent.usage, len(agent.call_ids), agent.replies):
            limit = LimitReached(f"its budget of {over.words} is used up", f"budgets.agent.{over.setting}")
            self._end_over_budget(agent, limit)
        elif over := self._tree_limit():
            limit = LimitReached(f"the session's budget of {over.words} is used up", f"budgets.tree.{over.setting}")
            self._end_over_budget(self._primary.agent, limit)
        return over is not None

    def background_ended(self, parent: Agent) -> None:
        wanted = self.settings.agents.wake_on_task_end and not (self._cancelling or self._tree_limit())
        if parent.parent is None and wanted:
            self._turns.wake()

    async def equip(self, agent: Agent) -> None:
        if agent.definition.servers and agent.writes:
            await self.servers.equip(self._primary.agent, agent.definition.name)
            self._supervisor.renew(agent)

    async def spawn(self, parent: Agent, tool_use_id: str, specs: Sequence[SpawnSpec]) -> tuple[Accepted, ...]:
        return await self._supervisor.spawn(parent, tool_use_id, specs)

    def cancel_children(self, agent_ids: Sequence[str], reason: CancelReason) -> None:
        self._supervisor.begin_cancel(agent_ids, reason)

    def run_ended(self, agent: Agent, ending: Ending) -> None:
        self._supervisor.run_ended(agent, ending)

    def turn_finished(self, agent: Agent, finish: FinishTurn) -> None:
        self._turns.finished(finish)

    # -- inside ----------------------------------------------------------------------------------------------------

    def result_of(self, agent_id: str) -> str:
        """The whole result of an agent's last run."""
        return self._supervisor.agent(agent_id).result

    def _tree_limit(self) -> LimitReached | None:
        """The limit that all agents together have reached; ``None`` while there is something left."""
        tree = self.settings.budgets.tree
        return None if tree == Budget() else tree.exceeded(*self._supervisor.spent())

    def _end_over_budget(self, agent: Agent, limit: LimitReached) -> None:
        """Ends one agent; with the primary everything."""
        if agent.is_child:
            self._supervisor.begin_cancel([agent.id], CancelReason.BUDGET, limit)
        else:
            self._supervisor.begin_cancel(self._supervisor.below(agent.id), CancelReason.BUDGET, limit)
            self._tasks.start_soon(self._turns.cancel, CancelReason.BUDGET, limit)

    async def _limit_turn(self, turn: Turn, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await turn.result()
        if self._turns.running is turn:
            limit = LimitReached(f"the session's budget of {seconds:g} s per turn is used up", "budgets.tree.seconds")
            self._end_over_budget(self._primary.agent, limit)

    async def serve(self, *, task_status: TaskStatus[None]) -> None:
        """Runs until it is cancelled; ready when the session can take a prompt."""
        self._tasks.start_soon(self.log.run)
        self._tasks.start_soon(self._primary.run)
        if self._is_new:
            say(self, self._primary.agent, AgentStarted(self._primary.agent.info, AgentStatus.IDLE))
        await self.flush()
        task_status.started()
        await anyio.sleep_forever()

    async def close(self) -> None:
        """Ends everything, agents first, in bounded time."""
        self._turns.closed = True
        try:
            with anyio.move_on_after(3 * self.settings.limits.cancel_grace):
                await self._cancel(CancelReason.SHUTDOWN)
                await self.flush()
                await self.log.retry_now()
                await self.save()
        finally:
            self._tasks.cancel_scope.cancel()
            self.ended()

    def ended(self, error: TurnError | None = None) -> None:
        """Nothing more happens here, because of ``error`` if there was a fault: nobody may go on waiting."""
        self._turns.end(error)
        self.log.close()

    async def _cancel(self, reason: CancelReason) -> None:
        self._cancelling = True
        try:
            await self._intake.cancel()
            for prompt in self.waiting():
                self.unqueue(prompt.prompt_id)
            await self._turns.cancel(reason)
            below = CancelReason.PARENT if reason is CancelReason.USER else reason
            await self._supervisor.cancel_below(self.primary_id, below)
            await self.background_processes.stop_all()
        finally:
            self._cancelling = False

    def _turn_begins(self, turn: Turn) -> None:
        agent = self._primary.agent
        self._touch(title=turn.text)
        self._supervisor.renew(agent)
        if (seconds := self.settings.budgets.tree.seconds) is not None:
            self._tasks.start_soon(self._limit_turn, turn, seconds)
        say(self, agent, StatusChanged(AgentStatus.RUNNING))
        say(self, agent, TurnStarted(turn.turn_id, turn.origin))
        if not turn.cancelled:
            self.servers.ask(agent)

    def _named_servers(self) -> Sequence[Source]:
        of_workspace = self.library.workspace if self.settings.trusted else Written()
        definitions = self.catalogue.definitions.values()
        return sources(self.settings.mcp_servers, self.library.own, of_workspace, definitions, self.editor_mcp_servers)

    def _servers_changed(self) -> None:
        """Other tools are there now: the primary has them from its next request on."""
        self.log.emit(SessionChanged())
        self._supervisor.renew(self._primary.agent)

    def _touch(self, title: str = "") -> None:
        """Keeps the record's time, and names a session after its first prompt."""
        record = replace(self.record, updated_at=self.clock.time())
        if title and not record.title:
            record = replace(record, title=title_of(title))
            self.log.emit(SessionChanged())
        self.record = record
        self._tasks.start_soon(self.save)

    def _change(self, record: SessionRecord) -> None:
        """Keeps what the user has changed, and tells everyone."""
        self.record = record
        self.log.emit(SessionChanged())
        self._touch()

    def _keep_rules(self) -> None:
        self.record = replace(self.record, rules=tuple(self._rules))
        self._touch()

    async def save(self) -> None:
        """Returns when the record is stored as it is now, or cannot be."""
        record = self.record
        if record is self._stored or self.log.store_error is not None:
            return
        try:
            await self._shared.store.update(record)
            self._stored = record
        except Exception:
            logger.exception("the record of session %s was not stored", self.id)

    @property
    def store_problem(self) -> str | None:
        """Why this session is not stored now, for the user."""
        if self.log.store_error is None:
            return None
        return f"{self.log.store_error} The agents go on, and this session is kept in memory until it can be stored again."
