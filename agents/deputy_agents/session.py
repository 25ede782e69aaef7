"""The face of the package: a :class:`Runtime` holds the sessions of a process, a :class:`Session` one conversation with
its agents. Front ends talk to these two and to nothing below them."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Self

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus

from deputy_agents.definition import Definition, PermissionMode
from deputy_agents.definition.loader import built_in
from deputy_agents.errors import InvalidRequest, Overloaded, UnknownAgent, UnknownSession, WrongState
from deputy_agents.event import (
    AgentStarted,
    PromptQueue,
    Question,
    SessionChanged,
    StatusChanged,
    TurnError,
    TurnFinished,
    TurnStarted,
)
from deputy_agents.ids import new_id
from deputy_agents.inbox import Inbox
from deputy_agents.log import EventLog, Subscription
from deputy_agents.message import Block, Image, Message, Text, Usage
from deputy_agents.outcome import AgentStatus, CancelReason, Ending
from deputy_agents.permission.decide import Policy, Rule, meet
from deputy_agents.ports import Answer, Buffers, Clock, Model, ModelFactory, Questioner, SessionRecord, Store
from deputy_agents.run.agent import Agent, say
from deputy_agents.run.driver import Driver
from deputy_agents.run.effect import FinishTurn, UserCancel, UserPrompt
from deputy_agents.settings import Settings
from deputy_agents.slots import Slots
from deputy_agents.supervisor import Supervisor
from deputy_agents.text import clean, cut
from deputy_agents.tool.delegate import SpawnSpec
from deputy_agents.view import AgentNode, Entry, View
from deputy_agents.workspace import Workspace

logger = logging.getLogger(__name__)

Origin = Literal["user", "task_end", "command"]
TITLE_LENGTH = 60


class SystemClock:
    """The time of this machine."""

    def time(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class TurnResult:
    """How a turn ended. ``stop_reason`` is end_turn, max_tokens, max_turn_requests, refusal, cancelled, or error, then
    with ``error``; ``usage`` is what the primary used in this turn."""

    stop_reason: str
    usage: Usage
    error: TurnError | None = None


@dataclass(slots=True)
class Turn:
    """An accepted prompt: queued, running, or over."""

    turn_id: str
    blocks: tuple[Block, ...]
    origin: Origin
    usage_before: Usage = field(default_factory=Usage)
    outcome: TurnResult | None = None
    _done: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def text(self) -> str:
        return "\n".join(block.text for block in self.blocks if isinstance(block, Text))

    def settle(self, outcome: TurnResult) -> None:
        self.outcome = outcome
        self._done.set()

    async def result(self) -> TurnResult:
        """Waits until the turn is over and everything about it is published."""
        await self._done.wait()
        if self.outcome is None:
            raise AssertionError("a settled turn has an outcome")
        return self.outcome


class Session:
    """One conversation: a primary agent, its children, their events and questions. Made by :class:`Runtime`."""

    def __init__(
        self,
        runtime: "Runtime",
        record: SessionRecord,
        workspace: Workspace,
        definitions: Mapping[str, Definition],
        tasks: TaskGroup,
    ) -> None:
        self.record = record
        self.workspace = workspace
        self.permission_mode = runtime.settings.permission_mode
        self.view = View()
        self.log = EventLog(record.session_id, runtime.store, runtime.clock, self.view)
        self.inbox = Inbox(self.log, tasks, runtime.grace)
        self._runtime = runtime
        self._tasks = tasks
        self._rules: list[Rule] = []
        self._supervisor = Supervisor(self, runtime.slots, tasks, definitions)
        self._primary: Driver = self._supervisor.primary(record.agent_id, Path(record.cwd), record.model)
        self._turn: Turn | None = None
        self._queue: deque[Turn] = deque()
        self._closed = False

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
    def busy(self) -> bool:
        """A turn runs."""
        return self._turn is not None

    def start_turn(self, blocks: Sequence[Block], *, queue: bool = False, origin: Origin = "user") -> Turn:
        """Accepts a prompt. While a turn runs, it waits for its end if ``queue`` is set.

        Raises:
            InvalidRequest: there is nothing in it.
            WrongState: a turn runs, and ``queue`` is not set; or the session is closed.
            Overloaded: too many prompts wait already.
        """
        kept = tuple(block for block in blocks if not isinstance(block, Text) or block.text.strip())
        if not any(isinstance(block, Text | Image) for block in kept):
            raise InvalidRequest("The prompt is empty.", "prompt")
        if self._closed:
            raise WrongState("This session is closed.")
        turn = Turn(new_id(), kept, origin)
        if self._turn is None:
            self._begin(turn)
        elif not queue:
            raise WrongState("A turn is running in this session: wait, cancel it, or send the prompt with queue: true.")
        elif len(self._queue) >= self.settings.limits.prompt_queue:
            raise Overloaded(f"{len(self._queue)} prompts wait already; take one back or wait.")
        else:
            self._queue.append(turn)
            self._tell_queue()
        return turn

    def unqueue(self, prompt_id: str) -> bool:
        """Takes a waiting prompt back: it ends as cancelled. ``False`` when it does not wait."""
        turn = next((turn for turn in self._queue if turn.turn_id == prompt_id), None)
        if turn is None:
            return False
        self._queue.remove(turn)
        self._tell_queue()
        turn.settle(TurnResult("cancelled", Usage()))
        return True

    async def cancel_turn(self) -> bool:
        """Ends the running turn with the children that it waits for; returns when they have stopped."""
        return await self._cancel_turn(CancelReason.USER)

    async def cancel(self) -> bool:
        """Ends the turn, all agents and all waiting prompts; returns when everything has stopped."""
        cancelled = self.busy or bool(self._supervisor.below(self.primary_id))
        await self._cancel(CancelReason.USER)
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

    def agents(self) -> Sequence[AgentNode]:
        """All agents that ever were, ordered by start, then id."""
        return self.view.tree()

    def transcript(self, agent_id: str, after: int = 0, limit: int | None = None) -> tuple[Sequence[Entry], int]:
        """The entries of one agent numbered above ``after``, and the number of the last published event.

        Raises:
            UnknownAgent: no such agent here.
        """
        if agent_id not in self.view.agents:
            raise UnknownAgent(f"This session has no agent {agent_id}.")
        return self.view.transcript(agent_id, after, limit), self.last_seq

    def questions(self) -> Sequence[Question]:
        """What waits for the user, in the order of asking."""
        return self.inbox.questions()

    def answer(self, request_id: str, answer: Answer) -> bool:
        """Settles a question; ``False`` when it was settled before.

        Raises:
            InvalidRequest: no such question or option.
        """
        return self.inbox.answer(request_id, answer)

    def subscribe(self, after: int | None = None) -> Subscription:
        """Events numbered above ``after`` (default: from now on). Close the subscription when done."""
        return self.log.subscribe(after)

    def attach(self, questioner: Questioner) -> None:
        """``questioner`` is asked what is open and what follows."""
        self.inbox.attach(questioner)

    def detach(self, questioner: Questioner) -> None:
        self.inbox.detach(questioner)

    async def flush(self) -> None:
        """Returns when all that has happened is committed and published."""
        await self.log.flush()

    # -- what drivers use (the Host protocol) ----------------------------------------------------------------------

    @property
    def session_id(self) -> str:
        return self.id

    @property
    def clock(self) -> Clock:
        return self._runtime.clock

    @property
    def settings(self) -> Settings:
        return self._runtime.settings

    def model(self, agent: Agent) -> Model:
        return self._runtime.models(agent.info.model)

    def policy(self, agent: Agent) -> Policy:
        if agent.parent is None:
            mode = self.permission_mode if self.settings.trusted else PermissionMode.PLAN
            return Policy(mode, (*self.settings.permissions.rules, *self._rules))
        above = self.policy(agent.parent)
        return meet(Policy(agent.definition.permission_mode or above.mode), above)

    def remember(self, rules: Sequence[Rule]) -> None:
        self._rules.extend(rules)
        self.inbox.review()

    def spawn(self, parent: Agent, tool_use_id: str, specs: Sequence[SpawnSpec]) -> tuple[str, ...]:
        return self._supervisor.spawn(parent, tool_use_id, specs)

    def cancel_children(self, agent_ids: Sequence[str], reason: CancelReason) -> None:
        self._supervisor.begin_cancel(agent_ids, reason)

    def run_ended(self, agent: Agent, ending: Ending) -> None:
        self._supervisor.run_ended(agent, ending)

    def turn_finished(self, agent: Agent, finish: FinishTurn) -> None:
        turn = self._turn
        if turn is None:
            raise AssertionError("only a running turn can finish")
        error = None
        if (failed := finish.error) is not None:
            error = TurnError(failed.kind, failed.message, failed.retryable, failed.action)
        say(self, agent, TurnFinished(turn.turn_id, finish.stop_reason, error))
        say(self, agent, StatusChanged(AgentStatus.IDLE))
        self._turn = None
        self._tasks.start_soon(self._settle, turn, TurnResult(finish.stop_reason, _since(turn, agent), error))
        if self._queue:
            following = self._queue.popleft()
            self._tell_queue()
            self._begin(following)
        else:
            self._touch()

    # -- inside ----------------------------------------------------------------------------------------------------

    async def serve(self, *, task_status: TaskStatus[None]) -> None:
        """Runs until it is cancelled; ready when the session can take a prompt."""
        self._tasks.start_soon(self.log.run)
        self._tasks.start_soon(self._primary.run)
        say(self, self._primary.agent, AgentStarted(self._primary.agent.info, AgentStatus.IDLE))
        await self.flush()
        task_status.started()
        await anyio.sleep_forever()

    async def close(self) -> None:
        """Ends everything, agents first, in bounded time."""
        self._closed = True
        try:
            with anyio.move_on_after(3 * self.settings.limits.cancel_grace):
                await self._cancel(CancelReason.SHUTDOWN)
                await self.flush()
        finally:
            self._tasks.cancel_scope.cancel()
            self.ended()

    def ended(self, error: TurnError | None = None) -> None:
        """Nothing more happens here, because of ``error`` if there was a fault: nobody may go on waiting."""
        self._closed = True
        left = [*([self._turn] if self._turn else []), *self._queue]
        self._turn = None
        self._queue.clear()
        for turn in left:
            turn.settle(TurnResult("error" if error else "cancelled", Usage(), error))
        self.log.close()

    async def _cancel(self, reason: CancelReason) -> None:
        for turn in tuple(self._queue):
            self.unqueue(turn.turn_id)
        await self._cancel_turn(reason)
        below = CancelReason.PARENT if reason is CancelReason.USER else reason
        await self._supervisor.cancel_below(self.primary_id, below)

    async def _cancel_turn(self, reason: CancelReason) -> bool:
        turn = self._turn
        if turn is None:
            return False
        self._primary.feed(UserCancel(reason))
        with anyio.move_on_after(self.settings.limits.cancel_grace):
            await turn.result()
        if self._turn is turn:
            self._primary.force()
            await turn.result()
        return True

    def _begin(self, turn: Turn) -> None:
        agent = self._primary.agent
        self._turn = turn
        turn.usage_before = agent.usage
        self._touch(title=turn.text)
        say(self, agent, StatusChanged(AgentStatus.RUNNING))
        say(self, agent, TurnStarted(turn.turn_id, turn.origin))
        self._primary.feed(UserPrompt(Message("user", turn.blocks), turn.text))

    async def _settle(self, turn: Turn, outcome: TurnResult) -> None:
        try:
            await self.flush()
        finally:
            turn.settle(outcome)

    def _touch(self, title: str = "") -> None:
        """Keeps the record's time, and names a session after its first prompt."""
        record = replace(self.record, updated_at=self.clock.time())
        if title and not record.title:
            record = replace(record, title=cut(" ".join(clean(title).split()), TITLE_LENGTH))
            self.log.emit(SessionChanged())
        self.record = record
        self._tasks.start_soon(self._save)

    async def _save(self) -> None:
        try:
            await self._runtime.store.update(self.record)
        except Exception:
            logger.exception("the record of session %s was not stored", self.id)

    def _tell_queue(self) -> None:
        self.log.emit(PromptQueue(tuple((turn.turn_id, turn.text) for turn in self._queue)))


def _since(turn: Turn, agent: Agent) -> Usage:
    before, now = turn.usage_before, agent.usage
    cost = None if now.cost is None else now.cost - (before.cost or 0.0)
    return Usage(
        now.input_tokens - before.input_tokens,
        now.output_tokens - before.output_tokens,
        now.cache_read_tokens - before.cache_read_tokens,
        now.cache_write_tokens - before.cache_write_tokens,
        cost,
    )


class Runtime:
    """The sessions of one process. Use it as an async context manager: leaving it ends them all, agents first.

    ``grace`` is how long a question waits for a client that can ask it; 0 where no client can come back.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        store: Store,
        models: ModelFactory,
        clock: Clock | None = None,
        grace: float = 0,
    ) -> None:
        self.settings = settings
        self.store = store
        self.models = models
        self.clock: Clock = clock or SystemClock()
        self.grace = grace
        self.slots = Slots(settings.agents)
        self._sessions: dict[str, Session] = {}
        self._closed = False
        self._scope: TaskGroup

    async def __aenter__(self) -> Self:
        self._scope = anyio.create_task_group()
        await self._scope.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        with anyio.CancelScope(shield=True):
            await self.close()
        await self._scope.__aexit__(None, None, None)

    async def new_session(
        self,
        *,
        cwd: Path,
        roots: Sequence[Path],
        buffers: Buffers | None = None,
        title: str | None = None,
        model: str | None = None,
        permission_mode: PermissionMode | None = None,
    ) -> Session:
        """Opens a session whose agents work in ``cwd``, beneath ``roots``.

        Raises:
            WrongState: the runtime is closed.
            StoreError: the store cannot keep it.
        """
        now = self.clock.time()
        workspace = await Workspace.open(roots, buffers)
        definitions = await to_thread.run_sync(built_in)
        record = SessionRecord(
            new_id(), new_id(), title or "", str(cwd), now, now, model or self.settings.model, agent_count=1
        )
        await self.store.create(record)
        session: Session = await self._scope.start(self._host, record, workspace, definitions)
        if permission_mode is not None:
            session.permission_mode = permission_mode
        return session

    def session(self, session_id: str) -> Session:
        """Raises UnknownSession."""
        session = self._sessions.get(session_id)
        if session is None:
            raise UnknownSession(f"There is no session {session_id}.")
        return session

    async def sessions(self, cwd: str | None = None) -> Sequence[SessionRecord]:
        """All sessions, newest first."""
        return await self.store.sessions(cwd)

    def live(self) -> Sequence[Session]:
        """The sessions that are open in this process."""
        return list(self._sessions.values())

    def find_agent(self, agent_id: str) -> Session:
        """The session that an agent belongs to.

        Raises:
            UnknownAgent: no open session has it.
        """
        for session in self._sessions.values():
            if agent_id in session.view.agents:
                return session
        raise UnknownAgent(f"There is no agent {agent_id}.")

    def apply_settings(self, settings: Settings) -> None:
        """New settings hold from the next decision, request or spawn on; open questions are decided anew."""
        self.settings = settings
        self.slots.settings = settings.agents
        for session in self._sessions.values():
            session.inbox.review()

    async def close(self) -> None:
        """Ends all sessions at once; bounded by the grace of cancelling."""
        self._closed = True
        async with anyio.create_task_group() as closing:
            for session in self._sessions.values():
                closing.start_soon(session.close)
        self._sessions.clear()

    async def _host(
        self,
        record: SessionRecord,
        workspace: Workspace,
        definitions: Mapping[str, Definition],
        *,
        task_status: TaskStatus[Session],
    ) -> None:
        """Owns one session's tasks. A fault of the program ends that session and no other."""
        if self._closed:
            raise WrongState("Deputy is shutting down.")
        session: Session | None = None
        error: TurnError | None = None
        ready = False
        try:
            async with anyio.create_task_group() as tasks:
                # A cancel from around must not tear agents apart half-way: leaving the runtime ends them in order.
                tasks.cancel_scope.shield = True
                session = self._sessions[record.session_id] = Session(self, record, workspace, definitions, tasks)
                await tasks.start(session.serve)
                ready = True
                task_status.started(session)
        except Exception:
            if not ready:
                raise
            logger.exception("session %s broke down", record.session_id)
            error = TurnError("internal", "An internal error ended this session; the log has the details.")
        finally:
            self._sessions.pop(record.session_id, None)
            if session is not None:
                session.ended(error)
