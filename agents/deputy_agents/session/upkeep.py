"""What the store needs from time to time: ends of what others left open, and the deletion of old sessions."""

import logging
from collections.abc import Sequence
from typing import Protocol

import anyio

from deputy_agents.domain.errors import StoreError, UnknownSession, WrongState
from deputy_agents.domain.settings import Settings
from deputy_agents.ports.clock import Clock
from deputy_agents.ports.store import SessionQuery, SessionRecord, Store

logger = logging.getLogger(__name__)

DAY = 24 * 3600


class Shared(Protocol):
    """What it goes by: as it is at the moment of use."""

    @property
    def settings(self) -> Settings: ...
    @property
    def store(self) -> Store: ...
    @property
    def clock(self) -> Clock: ...


class Sessions(Protocol):
    """The sessions of this process, and what can be done with all of the store."""

    def is_live(self, session_id: str) -> bool: ...
    async def reconcile(self, session_id: str) -> None: ...
    async def delete(self, session_id: str) -> None: ...


class Upkeep:
    """Looks after the sessions of the store, when it starts and once a day. Sessions that live somewhere are left
    alone, and a store that cannot be used is no reason to stop."""

    def __init__(self, sessions: Sessions, shared: Shared) -> None:
        self._sessions = sessions
        self._shared = shared
        self._changed = anyio.Event()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        with anyio.CancelScope(shield=True):  # a session that was taken over is mended to its end
            await self._mend_abandoned()
        while True:
            self._changed = anyio.Event()
            await self._prune()
            with anyio.move_on_after(DAY):
                await self._changed.wait()

    def settings_changed(self) -> None:
        """There may be something to delete now."""
        self._changed.set()

    async def _mend_abandoned(self) -> None:
        """Ends the runs of processes that are gone."""
        try:
            abandoned = await self._shared.store.abandoned()
        except StoreError as error:
            logger.warning("nobody looked after sessions that were left open: %s", error)
            return
        for session_id in abandoned:
            try:
                await self._sessions.reconcile(session_id)
            except (WrongState, UnknownSession):
                pass  # someone else was faster
            except StoreError as error:
                logger.warning("session %s is left as it is: %s", session_id, error)

    async def _prune(self) -> None:
        """Deletes the sessions that were not used for longer than the user wants to keep them."""
        for record in await self._old():
            if self._sessions.is_live(record.session_id):
                continue
            try:
                await self._sessions.delete(record.session_id)
            except (WrongState, UnknownSession):
                pass  # someone uses it, or was faster
            except StoreError as error:
                logger.warning("session %s is not deleted: %s", record.session_id, error)

    async def _old(self) -> Sequence[SessionRecord]:
        days = self._shared.settings.keep_days
        if days is None:
            return ()
        try:
            query = SessionQuery(before=self._shared.clock.time() - days * DAY)
            return (await self._shared.store.sessions(query)).records
        except StoreError as error:
            logger.warning("nobody looked for old sessions: %s", error)
            return ()
