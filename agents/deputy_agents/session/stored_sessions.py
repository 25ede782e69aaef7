"""Sessions in the store as this process takes and returns them: claimed, repaired, released."""

import logging
from collections.abc import Sequence

import anyio
from anyio import to_thread

from deputy_agents.domain.errors import StoreError, WrongState
from deputy_agents.domain.event import AgentFinished
from deputy_agents.domain.settings import Limits
from deputy_agents.events import saved_view
from deputy_agents.events.view import View
from deputy_agents.ports.store import Claim, SessionRecord, Store
from deputy_agents.session import restore
from deputy_agents.session.restore import Excerpt, Past
from deputy_agents.session.services import Services

logger = logging.getLogger(__name__)

_FOLDED_AT_ONCE = 2000
"""Events of a stored session that are in memory at the same time."""
_RELEASE_GRACE = 5
"""Seconds that releasing a session may take. If it fails, the next process takes the session over."""


class StoredSessions:
    """All methods raise StoreError when the store cannot be used, and UnknownSession for a session that it has not."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def claim(self, session_id: str) -> SessionRecord:
        """Makes this process the owner of a session. One whose last owner ended without releasing it is repaired.

        Raises:
            WrongState: another live process owns it.
        """
        store = self._services.store
        claim = await store.claim(session_id)
        if claim is Claim.FOREIGN:
            raise WrongState("This session is open in another Deputy process. Close it there first.")
        record = await store.get(session_id)
        if claim is Claim.TAKEN_OVER:
            await self.repair(record)
        return record

    async def release(self, session_id: str) -> None:
        """Gives up ownership, in bounded time. Never raises."""
        with anyio.move_on_after(_RELEASE_GRACE, shield=True):
            try:
                await self._services.store.release(session_id)
            except StoreError as error:
                logger.warning("session %s was not released: %s", session_id, error)

    async def repair(self, record: SessionRecord) -> Past:
        """The past of a session that this process owns, with everything in it ended. What that adds is stored in one
        step, so that it happens once however often it is tried."""
        services = self._services
        past = await past_of(services.store, record.session_id)
        agent_ids = restore.unfinished(past.view)
        excerpt = await excerpt_of(services.store, record.session_id, past.view, agent_ids)
        now = services.clock.time()
        repaired = await to_thread.run_sync(restore.repair, past, agent_ids, excerpt, now, Limits())
        if repaired.events or repaired.history:
            await services.store.append(record.session_id, repaired.events, repaired.history)
        ended = sum(isinstance(event.body, AgentFinished) for event in repaired.events)
        services.metrics.counters["reconciliations"] += ended
        history = excerpt.histories.get(record.agent_id)
        added = sum(line.agent_id == record.agent_id for line in repaired.history)
        past.primary_messages = added + (history.count if history else 0)
        return past


async def past_of(store: Store, session_id: str) -> Past:
    """What a session was until now: its view as it was saved, if it was, and the events since then."""
    state = await store.state(session_id)
    saved = await to_thread.run_sync(saved_view.restored, state.view)
    seq = saved.last_seq if saved else 0
    view = await _fold(store, session_id, saved)
    if view is None:
        seq = 0
        view = await _fold(store, session_id, None) or View()
    return restore.past_of(session_id, view, seq, state)


async def excerpt_of(store: Store, session_id: str, view: View, agent_ids: Sequence[str]) -> Excerpt:
    """What a repair of these agents needs."""
    notice = restore.NOTICE_OF_TASK if view.transcripts.tasks else ""
    histories = dict(await store.history_ends(session_id, agent_ids, notice))
    if more := [one for one in restore.reported(view, agent_ids, histories) if one not in histories]:
        histories |= await store.history_ends(session_id, more)
    numbers = restore.wanted(view, agent_ids, histories)
    events = await store.events_at(session_id, numbers) if numbers else ()
    return Excerpt(histories, {event.seq or 0: event for event in events})


async def _fold(store: Store, session_id: str, base: View | None) -> View | None:
    """``base`` with the events since; ``None`` if they do not continue it."""
    view = base or View()
    while events := await store.events(session_id, view.last_seq, _FOLDED_AT_ONCE):
        if base is not None and not saved_view.follows(base, events):
            return None
        base = None
        view = await to_thread.run_sync(saved_view.fold, events, view)
    return view
