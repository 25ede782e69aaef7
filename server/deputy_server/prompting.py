"""Waiting for the end of a turn, as every front end does."""

from collections.abc import Callable
from dataclasses import replace

import anyio

from deputy_agents.domain.errors import ModelError, ModelErrorKind
from deputy_agents.domain.event import TurnError
from deputy_agents.domain.message import Usage
from deputy_agents.domain.outcome import CancelReason
from deputy_agents.domain.turn import Turn, TurnResult
from deputy_agents.session.session import Session

CANCEL_GRACE = 10
"""Seconds that a cancelled prompt waits for its turn to stop; the core forces it well before."""


async def outcome(
    session: Session, turn: Turn, *, why: Callable[[], CancelReason | None] = lambda: CancelReason.USER
) -> TurnResult:
    """How ``turn`` ended, with what went on from it when hooks had sent the agent back to work. A caller that is
    cancelled ends the turn, for the reason that ``why`` gives then, and still learns how that went; without a reason it
    leaves the turn alone.

    Raises:
        ModelError: the model failed, and the turn with it.
    """
    result = await _outcome(session, turn, why)
    while turn.sent_back is not None:
        turn = turn.sent_back
        following = await _outcome(session, turn, why)
        result = replace(following, usage=result.usage + following.usage)
    return result


async def _outcome(session: Session, turn: Turn, why: Callable[[], CancelReason | None]) -> TurnResult:
    try:
        result = await turn.result()
    except anyio.get_cancelled_exc_class():
        if (reason := why()) is None:
            raise
        result = TurnResult("cancelled", Usage())
        with anyio.move_on_after(CANCEL_GRACE, shield=True):
            await cancel_turn(session, turn, reason)
            result = await turn.result()
    if result.error is not None:
        raise _failure(result.error)
    return result


async def cancel_turn(session: Session, turn: Turn, reason: CancelReason = CancelReason.USER) -> None:
    """Ends ``turn`` and no other: takes it back while it waits, stops it while it runs."""
    if turn.outcome is None and not session.unqueue(turn.turn_id):
        await session.cancel_turn(reason)


def _failure(error: TurnError) -> ModelError:
    kind = ModelErrorKind(error.kind) if error.kind in list(ModelErrorKind) else ModelErrorKind.UNKNOWN
    return ModelError(error.message, kind, retryable=error.retryable, action=error.action)
