"""The one path of a prompt: from a client's request to the outcome of its turn."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Protocol

import anyio

from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.domain.event import TurnError
from deputy_agents.domain.message import Block, Usage
from deputy_agents.domain.outcome import CancelReason
from deputy_agents.domain.turn import Origin, Turn, TurnResult
from deputy_agents.session.session import Session

REFRESH_GRACE = 2
"""Seconds that a prompt waits for definitions and commands on a slow disk; after that the last known ones apply."""

CANCEL_GRACE = 10
"""Seconds that a cancelled prompt waits for its turn to stop; the core forces it well before."""


class FrontEnd(Protocol):
    """What differs between the front ends that send prompts to a session."""

    def report_problems(self) -> None:
        """Show the user the session's problems that were not shown before."""
        ...

    async def before_refresh(self) -> None:
        """Hook before the refresh, within the same grace."""
        ...

    async def before_prompt(self) -> None:
        """Hook after the refresh, right before the session gets the prompt."""
        ...

    def cancel_reason(self) -> CancelReason | None:
        """Why a prompt was cancelled; ``None`` leaves its turn running."""
        ...

    async def flush(self) -> None:
        """Return when the client has received the session's events."""
        ...

    def notice(self, text: str, occasion: str = "") -> None:
        """Show ``text`` to the user, once for each ``occasion``."""
        ...


class IncomingPrompt:
    """A prompt that a client has sent to ``session``. Create it before the first wait: a cancel of the session from
    then on also cancels this prompt."""

    def __init__(self, session: Session, front_end: FrontEnd) -> None:
        self._session = session
        self._front_end = front_end
        self._cancels = session.prompts.cancels

    async def accept(
        self,
        blocks: Sequence[Block],
        *,
        attached: Sequence[Block] = (),
        queue: bool = False,
        origin: Origin = "user",
    ) -> Turn:
        """Refresh the session, report problems, and start or queue a turn. Raises as :meth:`PromptAcceptor.accept`."""
        await refresh(self._session, self._front_end.before_refresh)
        self._front_end.report_problems()
        await self._front_end.before_prompt()
        turn = await self._session.prompts.accept(
            blocks, attached=attached, queue=queue, origin=origin, since=self._cancels
        )
        self._front_end.report_problems()  # of MCP servers that were started for this prompt
        return turn

    async def outcome(self, turn: Turn) -> TurnResult:
        """Wait for the end of ``turn`` and of the turns that hooks appended to it. The client receives all events of
        the turn before this returns or raises. Cancelling the caller cancels the turn and returns its result,
        unless the front end gives no reason.

        Raises:
            ModelError: the model failed, and the turn with it.
        """
        try:
            result = await self._outcome(turn)
            while turn.sent_back is not None:
                turn = turn.sent_back
                following = await self._outcome(turn)
                result = replace(following, usage=result.usage + following.usage)
            return result
        finally:
            with anyio.CancelScope(shield=True):
                await self._front_end.flush()
            if self._session.keeper.store_problem:
                self._front_end.notice(self._session.keeper.store_problem, self._session.keeper.outage)

    async def _outcome(self, turn: Turn) -> TurnResult:
        try:
            result = await turn.result()
        except anyio.get_cancelled_exc_class():
            if (reason := self._front_end.cancel_reason()) is None:
                raise
            result = TurnResult("cancelled", Usage())
            with anyio.move_on_after(CANCEL_GRACE, shield=True):
                await cancel_turn(self._session, turn, reason)
                result = await turn.result()
        if result.error is not None:
            raise _model_error(result.error)
        return result


async def refresh(session: Session, before: Callable[[], Awaitable[None]]) -> None:
    """Run ``before``, then reload the files that users write for agents, for at most ``REFRESH_GRACE`` seconds in
    total. Cancelling the caller does not interrupt it."""
    with anyio.move_on_after(REFRESH_GRACE, shield=True):
        await before()
        await session.refresh()


async def cancel_turn(session: Session, turn: Turn, reason: CancelReason = CancelReason.USER) -> None:
    """End ``turn`` and no other: remove it from the queue, or stop it when it runs. A queued prompt survives a
    shutdown: nobody wanted it to be lost."""
    keep_stored = reason is CancelReason.SHUTDOWN
    if turn.outcome is None and not session.turns.withdraw(turn.turn_id, keep_stored=keep_stored):
        await session.turns.cancel(reason)


def _model_error(error: TurnError) -> ModelError:
    kind = ModelErrorKind(error.kind) if error.kind in list(ModelErrorKind) else ModelErrorKind.UNKNOWN
    return ModelError(error.message, kind, retryable=error.retryable, action=error.action)
