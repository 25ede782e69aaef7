"""Regular work on the store: repairs sessions of processes that crashed, and deletes old sessions."""

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


class Services(Protocol):
    """What it uses. ``settings`` may be replaced at any time."""

    @property
    def settings(self) -> Settings: ...
    @property
    def store(self) -> Store: ...
    @property
    def clock(self) -> Clock: ...


class Sessions(Protocol):
    """The sessions of this process and of the store."""

    def is_live(self, session_id: str) -> bool: ...
    async def reconcile(self, session_id: str) -> None: ...
    async def delete(self, session_id: str) -> None: ...


class Upkeep:
    """Runs at the start and once a day. Sessions that are open somewhere are left alone; a store that fails does not
    stop it."""

    def __init__(self, sessions: Sessions, services: Services) -> None:
        self._sessions = sessions
        self._services = services
        self._changed = anyio.Event()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        with anyio.CancelScope(shield=True):  # a repair that has started is completed
            await self._repair_abandoned()
        while True:
            self._changed = anyio.Event()
            await self._prune()
            with anyio.move_on_after(DAY):
                await self._changed.wait()

    def settings_changed(self) -> None:
        """Checks again whether there is something to delete."""
        self._changed.set()

    async def _repair_abandoned(self) -> None:
        """Ends the runs that processes which are gone have left."""
        try:
            abandoned = await self._services.store.abandoned()
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
        """Deletes sessions that were last used longer ago than the setting ``keep_days``."""
        for record in await self._old():
            if self._sessions.is_live(record.session_id):
                continue
            try:
                await self._sessions.delete(record.session_id)
            except (WrongState, UnknownSession):
                pass  # it is in use, or another process was faster
            except StoreError as error:
                logger.warning("session %s was not deleted: %s", record.session_id, error)

    async def _old(self) -> Sequence[SessionRecord]:
        days = self._services.settings.keep_days
        if days is None:
            return ()
        try:
            query = SessionQuery(before=self._services.clock.time() - days * DAY)
            return (await self._services.store.sessions(query)).records
        except StoreError as error:
            logger.warning("old sessions were not listed: %s", error)
            return ()
