"""The sessions of a process."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import anyio

from deputy_agents.clock import SystemClock
from deputy_agents.concurrency.keyed_lock import KeyedLock
from deputy_agents.definition.loader import PRIMARY
from deputy_agents.domain.errors import InvalidRequest, StoreError, UnknownAgent, UnknownSession
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.metrics import Metrics
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.settings import Settings
from deputy_agents.events.view import ToolCall
from deputy_agents.mcp.approvals import Approvals
from deputy_agents.ports.buffers import Buffers
from deputy_agents.ports.clock import Clock
from deputy_agents.ports.model import ModelFactory
from deputy_agents.ports.store import SessionPage, SessionQuery, SessionRecord, Store
from deputy_agents.run.slots import Slots
from deputy_agents.session.live_sessions import LiveSessions
from deputy_agents.session.record_keeper import RecordKeeper
from deputy_agents.session.services import Services
from deputy_agents.session.session import Session
from deputy_agents.session.snapshot import Reading, Snapshot
from deputy_agents.session.stored_sessions import StoredSessions
from deputy_agents.session.title import renamed, title_of
from deputy_agents.session.upkeep import Upkeep

logger = logging.getLogger(__name__)


class Runtime:
    """The sessions of one process. Use it as an async context manager: leaving it ends them all, agents first.

    ``grace`` is how long, in seconds, a permission request waits for a client that can ask the user; 0 where clients
    cannot reconnect. ``home`` is the user's home folder, which has definitions and guidance of their own; ``approvals``
    keeps which MCP servers the user lets run.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        store: Store,
        models: ModelFactory,
        clock: Clock | None = None,
        grace: float = 0,
        home: Path | None = None,
        approvals: Approvals | None = None,
    ) -> None:
        slots, metrics = Slots(settings.agents), Metrics()
        self._services = Services(
            settings, store, models, clock or SystemClock(), grace, slots, metrics, approvals or Approvals()
        )
        self._stored = StoredSessions(self._services)
        self._live = LiveSessions(self._services, self._stored, home)
        self._changing = KeyedLock[str]()
        """Held, by session id, while a session is opened, closed or changed in the store."""
        self._upkeep = Upkeep(self, self._services)

    @property
    def settings(self) -> Settings:
        return self._services.settings

    @property
    def grace(self) -> float:
        """Seconds that a permission request waits for a client that can ask the user."""
        return self._services.grace

    @grace.setter
    def grace(self, seconds: float) -> None:
        self._services.grace = seconds
        for session in self._live.by_id.values():
            session.inbox.grace = seconds

    @property
    def metrics(self) -> Metrics:
        return self._services.metrics

    @property
    def slots(self) -> Slots:
        return self._services.slots

    async def __aenter__(self) -> Self:
        self._live.tasks = anyio.create_task_group()
        await self._live.tasks.__aenter__()
        self._live.tasks.start_soon(self._upkeep.run)
        return self

    async def __aexit__(self, *exc: object) -> None:
        with anyio.CancelScope(shield=True):
            await self.close()
        self._live.tasks.cancel_scope.cancel()
        await self._live.tasks.__aexit__(None, None, None)

    async def new_session(
        self,
        *,
        cwd: Path,
        roots: Sequence[Path],
        buffers: Buffers | None = None,
        title: str | None = None,
        model: str | None = None,
        permission_mode: PermissionMode | None = None,
        agent: str | None = None,
    ) -> Session:
        """Opens a session whose agents work in ``cwd``, within ``roots``. ``agent`` names the definition of its primary
        agent.

        Raises:
            InvalidRequest: there is no such definition for a primary agent.
            WrongState: the runtime is closed.
        """
        now = self._services.clock.time()
        if agent is not None:
            definition = await self._live.primary_definition(agent, roots)
            model = model or definition.model_for(self.settings.model, self.settings.small_model)
        record = SessionRecord(
            session_id=new_id(),
            agent_id=new_id(),
            title=title_of(title or ""),
            cwd=str(cwd),
            created_at=now,
            updated_at=now,
            model=model or self.settings.model,
            agent_count=1,
            permission_mode=permission_mode,
        )
        problem: StoreError | None = None
        try:
            await self._services.store.create(record)
        except StoreError as error:
            logger.warning("session %s starts in memory: %s", record.session_id, error)
            problem = error
        session = await self._live.open(record, roots, buffers, definition=agent or PRIMARY)
        if problem is not None:
            session.log.start_without_store(record, problem)
        return session

    async def load(self, session_id: str, *, roots: Sequence[Path], buffers: Buffers | None = None) -> Session:
        """A session to continue: the open one, or one of the store, whose agents then work within ``roots``. What an
        earlier process left running there is ended first.

        Raises:
            UnknownSession: there is none.
            WrongState: another live process owns it, or the runtime is closed.
            StoreError: the store cannot be used.
        """
        async with self._changing.hold(session_id):
            if (session := self._live.by_id.get(session_id)) is not None:
                return session
            record = await self._stored.claim(session_id)
            try:
                past = await self._stored.repair(record)
                return await self._live.open(record, roots, buffers, past)
            except BaseException:
                await self._stored.release(session_id)
                raise

    async def read(self, session_id: str) -> Reading:
        """A session to read: the open one, or a snapshot of what the store has now.

        Raises:
            UnknownSession: there is none.
            StoreError: the store cannot be used.
        """
        if (session := self._live.by_id.get(session_id)) is not None:
            return session
        record = await self._services.store.get(session_id)
        return Snapshot(record, (await self._stored.past(session_id)).view)

    async def output(self, session_id: str, agent_id: str, tool_call_id: str) -> str:
        """The output of a tool call: the complete one where the store keeps more than the transcript shows.

        Raises:
            UnknownSession, UnknownAgent: there is none.
            InvalidRequest: the agent has made no such call.
            StoreError: the store cannot be used.
        """
        if (session := self._live.by_id.get(session_id)) is not None:
            await session.log.flush()
        if (output := await self._services.store.output(session_id, agent_id, tool_call_id)) is not None:
            return output
        reading = await self.read(session_id)
        calls = [entry.body for entry in reading.transcript(agent_id)[0] if isinstance(entry.body, ToolCall)]
        call = next((call for call in calls if call.started.tool_call_id == tool_call_id), None)
        if call is None:
            raise InvalidRequest(f"toolCallId: this agent has made no call {tool_call_id}.", "toolCallId")
        return (call.update and call.update.content) or ""

    async def unload(self, session_id: str) -> None:
        """Closes a session in which nothing runs and to which no client is subscribed. Does nothing for others."""
        async with self._changing.hold(session_id):
            session = self._live.by_id.get(session_id)
            if session is not None and session.idle:
                await self._live.end(session)

    async def rename(self, session_id: str, title: str) -> None:
        """Gives a session, open or not, a title.

        Raises:
            InvalidRequest: it is blank.
            UnknownSession: there is none.
            WrongState: another live process owns it.
            StoreError: the store cannot be used.
        """
        await self._change(session_id, lambda keeper: keeper.rename(title), lambda record: renamed(record, title))

    async def archive(self, session_id: str, archived: bool) -> None:
        """Archives a session, open or not, or takes it out of the archive. Raises as :meth:`rename`."""
        await self._change(
            session_id, lambda keeper: keeper.archive(archived), lambda record: replace(record, archived=archived)
        )

    async def delete(self, session_id: str) -> None:
        """Ends a session if it is open, and deletes it with everything that belongs to it. Raises as :meth:`rename`."""
        async with self._changing.hold(session_id):
            if (session := self._live.by_id.get(session_id)) is not None:
                await self._live.end(session)
            await self._stored.claim(session_id)
            await self._services.store.delete(session_id)

    async def reconcile(self, session_id: str) -> None:
        """Ends what an earlier process left running in a session, unless it is open here.

        Raises:
            UnknownSession: there is none.
            WrongState: another live process owns it.
            StoreError: the store cannot be used.
        """
        async with self._changing.hold(session_id):
            if session_id not in self._live.by_id:
                await self._stored.claim(session_id)
                await self._stored.release(session_id)

    async def record(self, session_id: str) -> SessionRecord:
        """What lists show of a session, open or not.

        Raises:
            UnknownSession: there is none.
            StoreError: the store cannot be used.
        """
        session = self._live.by_id.get(session_id)
        return session.record if session else await self._services.store.get(session_id)

    def is_live(self, session_id: str) -> bool:
        """Whether a session is open in this process."""
        return session_id in self._live.by_id

    def session(self, session_id: str) -> Session:
        """
        Raises:
            UnknownSession: no session of that id is open in this process.
        """
        session = self._live.by_id.get(session_id)
        if session is None:
            raise UnknownSession(f"There is no session {session_id}.")
        return session

    async def sessions(self, query: SessionQuery | None = None) -> SessionPage:
        """The sessions of the store, also those of other processes."""
        for session in self.live():
            await session.keeper.save()
        return await self._services.store.sessions(query or SessionQuery())

    def live(self) -> Sequence[Session]:
        """The sessions that are open in this process."""
        return list(self._live.by_id.values())

    def find_agent(self, agent_id: str) -> Session:
        """The session that an agent belongs to.

        Raises:
            UnknownAgent: no open session has it.
        """
        for session in self._live.by_id.values():
            if agent_id in session.view.agents:
                return session
        raise UnknownAgent(f"There is no agent {agent_id}.")

    def find_permission_request(self, request_id: str) -> Session:
        """The session that a permission request, open or settled, belongs to.

        Raises:
            InvalidRequest: no open session has it.
        """
        for session in self._live.by_id.values():
            if session.inbox.has(request_id):
                return session
        raise InvalidRequest(f"There is no permission request {request_id}.", "requestId")

    def apply_settings(self, settings: Settings) -> None:
        """Applies ``settings`` from the next decision, request or spawn on. Open permission requests are decided
        again."""
        self._services.settings = settings
        self._services.slots.settings = settings.agents
        self._upkeep.settings_changed()
        for session in self._live.by_id.values():
            session.inbox.recheck()

    async def close(self) -> None:
        """Ends all sessions at once, in bounded time, and opens none from now on."""
        await self._live.close()

    async def _change(
        self,
        session_id: str,
        live: Callable[[RecordKeeper], None],
        stored: Callable[[SessionRecord], SessionRecord],
    ) -> None:
        """Changes the record of a session, by ``live`` if it is open and by ``stored`` if not."""
        async with self._changing.hold(session_id):
            if (session := self._live.by_id.get(session_id)) is not None:
                live(session.keeper)
                await session.keeper.save()
                return
            record = await self._stored.claim(session_id)
            try:
                await self._services.store.update(stored(record))
            finally:
                await self._stored.release(session_id)
