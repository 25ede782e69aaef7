"""Sessions in the store as this process takes and returns them: claimed, repaired, released."""

import logging

import anyio
from anyio import to_thread

from deputy_agents.domain.errors import StoreError, WrongState
from deputy_agents.domain.event import AgentFinished
from deputy_agents.ports.store import Claim, SessionRecord
from deputy_agents.session import restore
from deputy_agents.session.restore import Past
from deputy_agents.session.services import Services

logger = logging.getLogger(__name__)

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

    async def past(self, session_id: str) -> Past:
        """What a session was until now, folded from the store."""
        store = self._services.store
        events, histories = await store.events(session_id), await store.histories(session_id)
        return await to_thread.run_sync(restore.fold, session_id, events, histories)

    async def repair(self, record: SessionRecord) -> Past:
        """The past of a session that this process owns, with everything in it ended. What that adds is stored in one
        step, so that it happens once however often it is tried."""
        services = self._services
        past = await self.past(record.session_id)
        repaired = await to_thread.run_sync(restore.repair, past, services.clock.time(), services.settings.limits)
        if repaired.events or repaired.history:
            await services.store.append(record.session_id, repaired.events, repaired.history)
        ended = sum(isinstance(event.body, AgentFinished) for event in repaired.events)
        services.metrics.counters["reconciliations"] += ended
        return past
