"""The turns of a session: the running one, the prompts queued behind it, and how each ends."""

import logging
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
from anyio.abc import TaskGroup

from deputy_agents.domain.errors import DeputyError, InvalidRequest, ModelError, Overloaded, WrongState
from deputy_agents.domain.event import (
    MessageAdded,
    PromptQueue,
    QueuedPrompt,
    StatusChanged,
    TurnError,
    TurnFinished,
    TurnStarted,
)
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.message import Block, Image, Message, Text, Usage, text_of
from deputy_agents.domain.outcome import AgentStatus, CancelReason, LimitReached
from deputy_agents.domain.turn import Origin, Turn, TurnResult, Work
from deputy_agents.ports.store import PendingPrompt, PromptsRecord
from deputy_agents.run.driver import Driver
from deputy_agents.run.effect import FinishTurn, ModelFailed, UserCancel, UserPrompt
from deputy_agents.run.hook_runner import HookRunner, send_back
from deputy_agents.run.host import Host, emit
from deputy_agents.run.state import Cancelling
from deputy_agents.session.checkpoints import Checkpoints
from deputy_agents.session.mcp_servers import McpServers
from deputy_agents.session.record_keeper import RecordKeeper
from deputy_agents.session.supervisor import Supervisor
from deputy_agents.text import clean, cut, visible

logger = logging.getLogger(__name__)

MAX_HOOK_OUTPUT = 300
"""Characters of a failed hook's output that the user sees."""


@dataclass(slots=True)
class _Working:
    """A running turn that is not for the model. ``missed_wake``: a background task or process has ended meanwhile."""

    scope: anyio.CancelScope
    missed_wake: bool = False


class TurnScheduler:
    """Runs one turn at a time of ``primary``. Implements :class:`deputy_agents.run.host.PrimaryTurns`."""

    def __init__(
        self,
        host: Host,
        primary: Driver,
        supervisor: Supervisor,
        keeper: RecordKeeper,
        mcp_servers: McpServers,
        checkpoints: Checkpoints,
        tasks: TaskGroup,
    ) -> None:
        self.running: Turn | None = None
        self.closed = False
        """No more prompts are accepted."""
        self.holds_queue = False
        """Queued prompts stay queued when a turn ends."""
        self._host = host
        self._primary = primary
        self._supervisor = supervisor
        self._keeper = keeper
        self._mcp_servers = mcp_servers
        self._checkpoints = checkpoints
        self._tasks = tasks
        self._queue: deque[Turn] = deque()
        self._end_hooks: dict[str, tuple[Turn, anyio.CancelScope]] = {}
        """Turns whose end hooks run, by id."""
        self._wakes = True
        self._working: _Working | None = None
        primary.turns = self

    @property
    def running_hooks(self) -> bool:
        """Whether hooks at the end of a turn run."""
        return bool(self._end_hooks)

    def restore(self, prompts: Sequence[PendingPrompt]) -> None:
        """Queues the prompts that were queued before a restart. They wait for the end of the user's next prompt."""
        for prompt in prompts:
            origin: Origin = "command" if prompt.origin == "command" else "user"
            self._queue.append(Turn(prompt.prompt_id, prompt.message.content, origin, prompt.shown))

    @property
    def queue_notice(self) -> str | None:
        """What the user should know about prompts that are queued although no turn runs."""
        if not self._queue or self.running is not None:
            return None
        many = len(self._queue) > 1
        prompts, are, they = ("prompts", "are", "they") if many else ("prompt", "is", "it")
        return (
            f"{len(self._queue)} {prompts} from before the restart {are} still queued. After your next prompt, {they} "
            f"will run, unless you remove {'them' if many else 'it'}."
        )

    def queued(self) -> tuple[QueuedPrompt, ...]:
        """The prompts that wait for the running turn to end, in order."""
        return tuple(QueuedPrompt(turn.turn_id, turn.text, turn.pictures) for turn in self._queue)

    @staticmethod
    def check(blocks: Sequence[Block]) -> tuple[Block, ...]:
        """``blocks`` without empty texts.

        Raises:
            InvalidRequest: nothing is left.
        """
        kept = tuple(block for block in blocks if not isinstance(block, Text) or block.text.strip())
        if not any(isinstance(block, Text | Image) for block in kept):
            raise InvalidRequest("The prompt is empty.", "prompt")
        return kept

    def accept(
        self,
        blocks: Sequence[Block],
        shown: str | None = None,
        origin: Origin = "user",
        *,
        queue: bool = False,
        cancelled: bool = False,
        written: Sequence[Block] = (),
        work: Work | None = None,
    ) -> Turn:
        """Accepts a prompt as the model reads it; ``shown`` is what users see of it, and ``written`` what the user
        wrote. With ``work``, the turn does that, and the model does not get the prompt. While a turn runs, it is queued
        if ``queue`` is set, or if the end of a background task started that turn. A turn that the user has
        ``cancelled`` before ends before the model is asked.

        Raises:
            InvalidRequest: it is empty.
            WrongState: a turn runs and ``queue`` is not set, or the session is closed.
            Overloaded: the queue is full.
        """
        kept = self.check(blocks)
        text = text_of(kept) if shown is None else shown
        turn = Turn(new_id(), kept, origin, text, tuple(written), cancelled, work)
        if cancelled and (self.closed or self.running is not None):
            turn.finish(TurnResult("cancelled", Usage()))
        elif self.closed:
            raise WrongState("This session is closed.")
        elif self.running is None:
            self._begin(turn)
            if cancelled:
                self._primary.feed(UserCancel(CancelReason.USER))
        elif not queue and self.running.origin != "task_end":
            raise WrongState("A turn is running in this session: wait, cancel it, or send the prompt with queue: true.")
        elif len(self._queue) >= self._host.settings.limits.prompt_queue:
            raise Overloaded(f"{len(self._queue)} prompts are queued already. Withdraw one or wait.")
        else:
            self._queue.append(turn)
            self._publish_queue()
        return turn

    def withdraw(self, turn_id: str, *, keep_stored: bool = False) -> bool:
        """Removes a queued prompt, which ends as cancelled. ``False`` when it is not queued. With ``keep_stored``, it
        is queued again after a restart."""
        turn = next((turn for turn in self._queue if turn.turn_id == turn_id), None)
        if turn is None:
            return False
        self._queue.remove(turn)
        if not keep_stored:
            self._publish_queue()
        turn.finish(TurnResult("cancelled", Usage()))
        return True

    def task_ended(self) -> None:
        """Starts a turn for the notice of a background task or process, if the settings ask for that and the budget
        allows it."""
        wakes = self._wakes and self._host.settings.agents.wake_on_task_end
        if wakes and self._supervisor.tree_limit() is None:
            self._wake()

    @contextmanager
    def without_wakes(self) -> Generator[None]:
        """While everything is being cancelled, the end of a background task or process starts no turn."""
        self._wakes = False
        try:
            yield
        finally:
            self._wakes = True

    async def cancel(self, reason: CancelReason = CancelReason.USER, limit: LimitReached | None = None) -> bool:
        """Ends the running turn with the sub-agents that it waits for, and end hooks; returns when they have stopped.
        ``False`` when there is nothing to end."""
        had_hooks = await self._cancel_end_hooks()
        turn = self.running
        if turn is None:
            return had_hooks
        if self._working is not None:
            self._working.scope.cancel()
        elif limit and not isinstance(self._primary.state.phase, Cancelling):
            emit(self._host, self._primary.agent, StatusChanged(AgentStatus.RUNNING, detail=f"stopped: {limit}"))
        if self._working is None:
            self._primary.feed(UserCancel(reason, limit))
        with anyio.move_on_after(self._host.settings.limits.cancel_grace):
            await turn.result()
        if self.running is turn:
            self._primary.force()
            await turn.result()
        return True

    def finished(self, finish: FinishTurn) -> None:
        turn, agent = self.running, self._primary.agent
        if turn is None:
            raise AssertionError("only a running turn can finish")
        error = None
        if (failed := finish.error) is not None:
            error = TurnError(failed.kind, failed.message, failed.retryable, failed.action)
        limit = (str(finish.limit), finish.limit.setting) if finish.limit else ("", "")
        emit(self._host, agent, TurnFinished(turn.turn_id, finish.stop_reason, error, finish.interrupted, *limit))
        emit(self._host, agent, StatusChanged(AgentStatus.IDLE))
        self.running = None
        self._host.inbox.end_turn()
        self._tasks.start_soon(self._complete, turn, TurnResult(finish.stop_reason, turn.used(agent.usage), error))
        if self._queue and not self.holds_queue:
            following = self._queue.popleft()
            self._publish_queue()
            self._begin(following)
        else:
            self._keeper.touch()

    def close(self, error: TurnError | None = None) -> None:
        """Ends all turns at once, because of ``error`` if there was one: nothing may wait for them any longer."""
        self.closed = True
        left = [*([self.running] if self.running else []), *self._queue]
        self.running = None
        self._queue.clear()
        for turn in left:
            turn.finish(TurnResult("error" if error else "cancelled", Usage(), error))

    # -- inside ----------------------------------------------------------------------------------------------------

    def _begin(self, turn: Turn) -> None:
        agent = self._primary.agent
        self.running = turn
        turn.usage_before = agent.usage
        if turn.work is not None:
            self._working = _Working(anyio.CancelScope())
            emit(self._host, agent, StatusChanged(AgentStatus.RUNNING))
            emit(self._host, agent, TurnStarted(turn.turn_id, turn.origin))
            self._tasks.start_soon(self._run_work, turn, turn.work, self._working)
            return
        self._keeper.touch(title=turn.text)
        agent.fallback = None
        self._supervisor.renew_primary()
        if (seconds := self._host.settings.budgets.tree.seconds) is not None:
            self._tasks.start_soon(self._limit_time, turn, seconds)
        self._checkpoints.begin(turn, idle=not self._supervisor.below(agent.id))
        emit(self._host, agent, StatusChanged(AgentStatus.RUNNING))
        emit(self._host, agent, TurnStarted(turn.turn_id, turn.origin))
        if not turn.cancelled:
            self._mcp_servers.ask(agent)
        self._primary.feed(UserPrompt(Message("user", turn.blocks), turn.text))

    async def _run_work(self, turn: Turn, work: Work, working: "_Working") -> None:
        """Runs a turn that is not for the model."""
        agent, finish, answer = self._primary.agent, FinishTurn("end_turn"), ""
        emit(self._host, agent, MessageAdded(new_id(), "user", turn.text))
        with working.scope:
            if turn.cancelled:
                working.scope.cancel()
            try:
                answer = await work()
            except ModelError as error:
                failed = ModelFailed(0, error.kind.value, str(error), error.retryable, action=error.action)
                finish = FinishTurn("error", failed)
            except DeputyError as error:
                answer = str(error)
            except Exception:
                logger.exception("the command %s failed with an internal error", cut(turn.text, 20))
                answer = "An internal error ended this command."
        if answer:
            emit(self._host, agent, MessageAdded(new_id(), "assistant", clean(answer)))
        self._working = None
        if self.running is turn:
            self.finished(FinishTurn("cancelled") if working.scope.cancelled_caught else finish)
            if working.missed_wake:
                self.task_ended()

    def _wake(self, text: str = "") -> Turn | None:
        """Starts a turn that no user asked for, unless one runs or the session is closed."""
        if self._working is not None:
            self._working.missed_wake = True
        if self.running is not None or self.closed:
            return None
        turn = Turn(new_id(), (Text(text),) if text else (), "task_end", text)
        self._begin(turn)
        return turn

    async def _limit_time(self, turn: Turn, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await turn.result()
        if self.running is turn:
            words = f"the session's budget of {seconds:g} s per turn is used up"
            self._supervisor.end_at_limit(self._primary.agent, LimitReached(words, "budgets.tree.seconds"))

    async def _complete(self, turn: Turn, result: TurnResult) -> None:
        """Publishes everything of a turn and runs its end hooks before those who wait for it continue."""
        try:
            await self._host.log.flush()
            await self._checkpoints.coverage.turn_ends()
            if result.stop_reason != "cancelled" and turn.work is None:
                with anyio.CancelScope() as scope:
                    self._end_hooks[turn.turn_id] = turn, scope
                    await self._run_end_hooks(turn, result)
        finally:
            self._end_hooks.pop(turn.turn_id, None)
            turn.finish(result)

    async def _run_end_hooks(self, turn: Turn, result: TurnResult) -> None:
        """A hook can send the agent back to work, once for each prompt."""
        agent = self._primary.agent
        hooks, answer = HookRunner(agent, self._host), self._primary.state.last_text
        done = await hooks.turn_end(result.stop_reason, answer, continued=turn.origin != "user")
        stopped = any(one.answer.stop is not None for one in done)
        words = "" if stopped else send_back(done)
        if words and turn.origin == "user" and self.running is None and not self.closed:
            turn.sent_back = self._wake(words)
            return
        for one in (one for one in done if one.answer.blocks and not stopped):
            status = AgentStatus.RUNNING if self.running else AgentStatus.IDLE
            why = f": {cut(visible(one.answer.reason), MAX_HOOK_OUTPUT)}" if one.answer.reason else ""
            emit(self._host, agent, StatusChanged(status, detail=f"the hook {one.name} failed{why}"))

    async def _cancel_end_hooks(self) -> bool:
        running = tuple(self._end_hooks.values())
        for _, scope in running:
            scope.cancel()
        with anyio.move_on_after(self._host.settings.limits.cancel_grace):
            for turn, _ in running:
                await turn.result()
        return bool(running)

    def _publish_queue(self) -> None:
        """Stores the queue, in the same commit as what is emitted next, and publishes it."""
        pending = (
            PendingPrompt(turn.turn_id, Message("user", turn.blocks), turn.text, turn.origin)
            for turn in self._queue
            if turn.work is None
        )
        self._host.log.add_record(PromptsRecord(tuple(pending)))
        self._host.log.emit(PromptQueue(self.queued()))
