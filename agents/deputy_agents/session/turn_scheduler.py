"""The turns of a session: the one that runs, the prompts that wait for its end, and how each ends."""

from collections import deque
from collections.abc import Callable, Sequence

import anyio
from anyio.abc import TaskGroup

from deputy_agents.domain.errors import InvalidRequest, Overloaded, WrongState
from deputy_agents.domain.event import PromptQueue, QueuedPrompt, StatusChanged, TurnError, TurnFinished
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.message import Block, Image, Message, Text, Usage, text_of
from deputy_agents.domain.outcome import AgentStatus, CancelReason, LimitReached
from deputy_agents.domain.turn import Origin, Turn, TurnResult
from deputy_agents.run.agent import Host, say
from deputy_agents.run.driver import Driver
from deputy_agents.run.effect import FinishTurn, UserCancel, UserPrompt
from deputy_agents.run.hook_runner import SEND_BACK, HookRunner
from deputy_agents.run.state import Cancelling
from deputy_agents.text import cut, visible

MAX_SAID = 300
"""Characters of what a hook printed that the user is told."""


class TurnScheduler:
    """One turn at a time of ``primary``, which belongs to ``host``. ``begins`` is called when a turn does, before its
    prompt reaches the agent; ``rests`` when none follows the one that has ended."""

    def __init__(
        self, host: Host, primary: Driver, tasks: TaskGroup, begins: Callable[[Turn], None], rests: Callable[[], None]
    ) -> None:
        self.running: Turn | None = None
        self.closed = False
        """No more prompts are taken."""
        self._host = host
        self._primary = primary
        self._tasks = tasks
        self._begins = begins
        self._rests = rests
        self._queue: deque[Turn] = deque()
        self._hooking: dict[str, tuple[Turn, anyio.CancelScope]] = {}
        """Turns that have ended but for the hooks at their end, by id."""

    @property
    def hooking(self) -> bool:
        """Hooks run at the end of a turn."""
        return bool(self._hooking)

    def waiting(self) -> tuple[QueuedPrompt, ...]:
        """The prompts that wait for the running turn, in order."""
        return tuple(QueuedPrompt(turn.turn_id, turn.text, turn.pictures) for turn in self._queue)

    @staticmethod
    def check(blocks: Sequence[Block]) -> tuple[Block, ...]:
        """What counts of a prompt.

        Raises:
            InvalidRequest: there is nothing in it.
        """
        kept = tuple(block for block in blocks if not isinstance(block, Text) or block.text.strip())
        if not any(isinstance(block, Text | Image) for block in kept):
            raise InvalidRequest("The prompt is empty.", "prompt")
        return kept

    def take(
        self, blocks: Sequence[Block], shown: str | None, origin: Origin, *, queue: bool, cancelled: bool = False
    ) -> Turn:
        """Accepts a prompt as the model reads it; ``shown`` is how people see it. While a turn runs, it waits for its
        end if ``queue`` is set, or if the end of a background agent started that turn. One that the user has
        ``cancelled`` meanwhile ends as such before the model is asked.

        Raises:
            InvalidRequest: there is nothing in it.
            WrongState: a turn runs, and ``queue`` is not set; or the session is closed.
            Overloaded: too many prompts wait already.
        """
        kept = self.check(blocks)
        turn = Turn(new_id(), kept, origin, text_of(kept) if shown is None else shown, cancelled)
        if cancelled and (self.closed or self.running is not None):
            turn.settle(TurnResult("cancelled", Usage()))
        elif self.closed:
            raise WrongState("This session is closed.")
        elif self.running is None:
            self._begin(turn)
            if cancelled:
                self._primary.feed(UserCancel(CancelReason.USER))
        elif not queue and self.running.origin != "task_end":
            raise WrongState("A turn is running in this session: wait, cancel it, or send the prompt with queue: true.")
        elif len(self._queue) >= self._host.settings.limits.prompt_queue:
            raise Overloaded(f"{len(self._queue)} prompts wait already; take one back or wait.")
        else:
            self._queue.append(turn)
            self._tell_queue()
        return turn

    def wake(self, text: str = "") -> Turn | None:
        """Begins a turn that no person asked for, unless one runs or the session is closed."""
        if self.running is not None or self.closed:
            return None
        turn = Turn(new_id(), (Text(text),) if text else (), "task_end", text)
        self._begin(turn)
        return turn

    def take_back(self, turn_id: str) -> bool:
        """Takes a waiting prompt back: it ends as cancelled. ``False`` when it does not wait."""
        turn = next((turn for turn in self._queue if turn.turn_id == turn_id), None)
        if turn is None:
            return False
        self._queue.remove(turn)
        self._tell_queue()
        turn.settle(TurnResult("cancelled", Usage()))
        return True

    async def cancel(self, reason: CancelReason, limit: LimitReached | None = None) -> bool:
        """Ends the running turn with the children that it waits for, and hooks at the end of one; returns when they
        have stopped. ``False`` when there is none."""
        hooking = await self._end_hooking()
        turn = self.running
        if turn is None:
            return hooking
        if limit and not isinstance(self._primary.state.phase, Cancelling):
            say(self._host, self._primary.agent, StatusChanged(AgentStatus.RUNNING, detail=f"stopped: {limit}"))
        self._primary.feed(UserCancel(reason, limit))
        with anyio.move_on_after(self._host.settings.limits.cancel_grace):
            await turn.result()
        if self.running is turn:
            self._primary.force()
            await turn.result()
        return True

    def finished(self, finish: FinishTurn) -> None:
        """The primary has come to the end of the running turn."""
        turn, agent = self.running, self._primary.agent
        if turn is None:
            raise AssertionError("only a running turn can finish")
        error = None
        if (failed := finish.error) is not None:
            error = TurnError(failed.kind, failed.message, failed.retryable, failed.action)
        told = (str(finish.limit), finish.limit.setting) if finish.limit else ("", "")
        say(self._host, agent, TurnFinished(turn.turn_id, finish.stop_reason, error, finish.interrupted, *told))
        say(self._host, agent, StatusChanged(AgentStatus.IDLE))
        self.running = None
        self._tasks.start_soon(self._settle, turn, TurnResult(finish.stop_reason, turn.used(agent.usage), error))
        if self._queue:
            following = self._queue.popleft()
            self._tell_queue()
            self._begin(following)
        else:
            self._rests()

    def end(self, error: TurnError | None = None) -> None:
        """Nothing more happens, because of ``error`` if there was a fault: nobody may go on waiting."""
        self.closed = True
        left = [*([self.running] if self.running else []), *self._queue]
        self.running = None
        self._queue.clear()
        for turn in left:
            turn.settle(TurnResult("error" if error else "cancelled", Usage(), error))

    # -- inside ----------------------------------------------------------------------------------------------------

    def _begin(self, turn: Turn) -> None:
        self.running = turn
        turn.usage_before = self._primary.agent.usage
        self._begins(turn)
        self._primary.feed(UserPrompt(Message("user", turn.blocks), turn.text))

    async def _settle(self, turn: Turn, outcome: TurnResult) -> None:
        try:
            await self._host.log.flush()
            if outcome.stop_reason != "cancelled":
                with anyio.CancelScope() as scope:
                    self._hooking[turn.turn_id] = turn, scope
                    await self._end_hooks(turn, outcome)
        finally:
            self._hooking.pop(turn.turn_id, None)
            turn.settle(outcome)

    async def _end_hooking(self) -> bool:
        hooking = tuple(self._hooking.values())
        for _, scope in hooking:
            scope.cancel()
        with anyio.move_on_after(self._host.settings.limits.cancel_grace):
            for turn, _ in hooking:
                await turn.result()
        return bool(hooking)

    async def _end_hooks(self, turn: Turn, outcome: TurnResult) -> None:
        """Runs the hooks at the end of a turn. One that says so sends the agent back to work, once for each prompt."""
        agent = self._primary.agent
        failed = await HookRunner(agent, self._host).turn_end(outcome.stop_reason, self._primary.state.last_text)
        words = "\n\n".join(f"The hook {one.name} says:\n{one.said}" for one in failed if one.code == SEND_BACK)
        if words and turn.origin == "user" and self.running is None and not self.closed:
            turn.sent_back = self.wake(words)
            failed = [one for one in failed if one.code != SEND_BACK]
        for one in failed:
            status = AgentStatus.RUNNING if self.running else AgentStatus.IDLE
            why = f": {cut(visible(one.said), MAX_SAID)}" if one.said else ""
            say(self._host, agent, StatusChanged(status, detail=f"the hook {one.name} failed{why}"))

    def _tell_queue(self) -> None:
        self._host.log.emit(PromptQueue(self.waiting()))
