"""Regular work on the store: repairs sessions of processes that crashed, and deletes old sessions."""

import logging
from collections.abc import Sequence
from typing import Protocol

import anyio

from deputy_agents.domain.errors import StoreError, UnknownSession, WrongState
from deputy_agents.ports.clock import Clock
from deputy_agents.ports.store import SessionQuery, SessionRecord, Store

logger = logging.getLogger(__name__)

DAY = 24 * 3600
KEPT_AFTER_DELETION = 7 * DAY
"""Seconds for which the data of a session that was deleted for its age is kept. A clock that was wrong, and is right
again within that time, deletes nothing."""
_MAX_ABSENCE = 366 * DAY
"""If no session was used for longer than this, the clock is wrong rather than the user away."""


class Retention(Protocol):
    """How long sessions are kept. It may change at any time."""

    @property
    def keep_days(self) -> int | None: ...


class Sessions(Protocol):
    """The sessions of this process and of the store."""

    def is_live(self, session_id: str) -> bool: ...
    async def reconcile(self, session_id: str) -> None: ...
    async def delete(self, session_id: str, purge_after: float = 0) -> None: ...
    async def compact_snapshots(self) -> None: ...


class Upkeep:
    """Runs at the start and once a day. Sessions that are open somewhere are left alone; a store that fails does not
    stop it."""

    def __init__(self, sessions: Sessions, store: Store, clock: Clock, retention: Retention) -> None:
        self._sessions = sessions
        self._store = store
        self._clock = clock
        self._retention = retention
        self._changed = anyio.Event()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        with anyio.CancelScope(shield=True):  # a repair that has started is completed
            await self._repair_abandoned()
        while True:
            self._changed = anyio.Event()
            await self._prune()
            await self._sessions.compact_snapshots()
            with anyio.move_on_after(DAY):
                await self._changed.wait()

    def settings_changed(self) -> None:
        """Checks again whether there is something to delete."""
        self._changed.set()

    async def _repair_abandoned(self) -> None:
        """Ends the runs that processes which are gone have left."""
        try:
            abandoned = await self._store.abandoned()
        except StoreError as error:
            logger.warning("abandoned sessions were not repaired: %s", error)
            return
        for session_id in abandoned:
            try:
                await self._sessions.reconcile(session_id)
            except (WrongState, UnknownSession):
                pass  # another process was faster
            except StoreError as error:
                logger.warning("session %s was not repaired: %s", session_id, error)

    async def _prune(self) -> None:
        """Deletes sessions that were last used longer ago than the setting ``keep_days``, and restores those that a
        clock far ahead has deleted."""
        now = self._clock.time()
        try:
            await self._store.undelete(now + KEPT_AFTER_DELETION)
            old = await self._old(now)
        except StoreError as error:
            logger.warning("old sessions were not listed: %s", error)
            return
        for record in old:
            if self._sessions.is_live(record.session_id):
                continue
            try:
                await self._sessions.delete(record.session_id, now + KEPT_AFTER_DELETION)
            except (WrongState, UnknownSession):
                pass  # it is in use, or another process was faster
            except StoreError as error:
                logger.warning("session %s was not deleted: %s", record.session_id, error)

    async def _old(self, now: float) -> Sequence[SessionRecord]:
        days = self._retention.keep_days
        if days is None:
            return ()
        newest = (await self._store.sessions(SessionQuery(limit=1))).records
        if newest and newest[0].updated_at < now - max(_MAX_ABSENCE, days * DAY):
            logger.warning("no old session was deleted, because the clock seems to be wrong")
            return ()
        return (await self._store.sessions(SessionQuery(before=now - days * DAY))).records
