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
from deputy_agents.domain.model_card import Effort, ThinkingMode
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.settings import AgentSettings
from deputy_agents.events.view import ToolCall
from deputy_agents.guidance.answered_rules import AnsweredRules
from deputy_agents.mcp.approvals import Approvals
from deputy_agents.mcp.sign_ins import SignIns
from deputy_agents.ports.buffers import Buffers
from deputy_agents.ports.clock import Clock
from deputy_agents.ports.store import SessionPage, SessionQuery, SessionRecord, Store
from deputy_agents.run.slots import Slots
from deputy_agents.session.clients import Clients, ClientSettings
from deputy_agents.session.fork import fork
from deputy_agents.session.live_sessions import LiveSessions
from deputy_agents.session.record_keeper import RecordKeeper
from deputy_agents.session.services import Services
from deputy_agents.session.session import Session
from deputy_agents.session.snapshot import Reading, Snapshot
from deputy_agents.session.stored_sessions import StoredSessions, past_of
from deputy_agents.session.takeover import take_over
from deputy_agents.session.title import renamed, title_of
from deputy_agents.session.upkeep import Upkeep
from deputy_agents.snapshots.roots import SnapshotRoots

logger = logging.getLogger(__name__)

CREATE_TIMEOUT = 1.0
"""Seconds that a new session waits for the store. After that it starts in memory, and is stored later."""
_BUSY = "The session store is busy: another process is using it."


class Runtime:
    """The sessions of one process. Use it as an async context manager: leaving it ends them all, agents first.

    ``clients`` has the clients and their settings: each session runs with those of one client. ``home`` is the user's
    home folder, which has definitions and guidance of their own; ``approvals`` keeps which MCP servers the user lets
    run, ``sign_ins`` where the user is signed in, ``answered`` what the user has allowed in personal files of projects.
    ``snapshots`` are those of workspace folders; without them, what commands change is not known.
    """

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock | None = None,
        home: Path | None = None,
        approvals: Approvals | None = None,
        sign_ins: SignIns | None = None,
        snapshots: SnapshotRoots | None = None,
        answered: AnsweredRules | None = None,
    ) -> None:
        slots = Slots(AgentSettings())
        self._services = Services(
            store,
            clock or SystemClock(),
            slots,
            Metrics(),
            approvals or Approvals(),
            sign_ins or SignIns(),
            answered or AnsweredRules(),
            snapshots or SnapshotRoots(None),
        )
        self.clients = Clients(slots, self._settings_changed)
        self._stored = StoredSessions(self._services)
        self._live = LiveSessions(self._services, self._stored, home)
        self._changing = KeyedLock[str]()
        """Held, by session id, while a session is opened, closed or changed in the store."""
        self._upkeep = Upkeep(self, store, self._services.clock, self.clients)

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
        client: ClientSettings,
        *,
        cwd: Path,
        roots: Sequence[Path],
        buffers: Buffers | None = None,
        title: str | None = None,
        model: str | None = None,
        effort: Effort | None = None,
        thinking: ThinkingMode | None = None,
        permission_mode: PermissionMode | None = None,
        agent: str | None = None,
    ) -> Session:
        """Opens a session of ``client`` whose agents work in ``cwd``, within ``roots``. ``agent`` names the definition
        of its primary agent.

        Raises:
            InvalidRequest: there is no such definition for a primary agent.
            WrongState: the runtime is closed.
        """
        now = self._services.clock.time()
        if agent is not None:
            definition = await self._live.primary_definition(client, agent, roots)
            model = model or definition.model_for(client.current.model, client.current.small_model)
        record = SessionRecord(
            session_id=new_id(),
            agent_id=new_id(),
            title=title_of(title or ""),
            cwd=str(cwd),
            created_at=now,
            updated_at=now,
            model=model or client.current.model,
            agent_count=1,
            permission_mode=permission_mode,
            effort=effort,
            thinking=thinking,
        )
        problem: StoreError | None = None
        try:
            with anyio.fail_after(CREATE_TIMEOUT):
                await self._services.store.create(record)
        except (StoreError, TimeoutError) as error:
            problem = error if isinstance(error, StoreError) else StoreError(_BUSY)
            logger.warning("session %s starts in memory: %s", record.session_id, problem)
        session = await self._live.open(client, record, roots, buffers, definition=agent or PRIMARY)
        if problem is not None:
            session.log.start_without_store(record, problem)
        return session

    async def load(
        self, client: ClientSettings, session_id: str, *, roots: Sequence[Path], buffers: Buffers | None = None
    ) -> Session:
        """A session to continue: the open one, or one of the store, whose agents then work within ``roots``, with the
        settings of ``client``. What an earlier process left running there is ended first. One that is open keeps the
        settings of the client that opened it; if that client is gone and nothing runs, ``client`` takes it over.

        Raises:
            UnknownSession: there is none.
            WrongState: another live process owns it, or the runtime is closed.
            StoreError: the store cannot be used.
        """
        async with self._changing.hold(session_id):
            if (session := self._live.by_id.get(session_id)) is not None:
                await take_over(session, client, roots)
                return session
            record = await self._stored.claim(session_id)
            try:
                past = await self._stored.repair(record)
                return await self._live.open(client, record, roots, buffers, past)
            except BaseException:
                await self._stored.release(session_id)
                raise

    async def fork(
        self,
        client: ClientSettings,
        session_id: str,
        checkpoint_id: str | None = None,
        *,
        roots: Sequence[Path],
        buffers: Buffers | None = None,
    ) -> Session:
        """A new session that begins as another one was at a checkpoint, or as it is now. No file is changed.

        Raises:
            UnknownSession: there is none.
            InvalidRequest: there is no such checkpoint.
            WrongState: it is to be forked as it is now, and an agent works in it; or sessions are not stored.
            StoreError: the store cannot be used.
        """
        if (session := self._live.by_id.get(session_id)) is not None:
            forked = await session.rewind.fork(checkpoint_id)
        else:
            reading, now = await self.read(session_id), self._services.clock.time()
            forked = await fork(self._services.store, reading.record, reading.view.agents, checkpoint_id, now)
        return await self.load(client, forked, roots=roots, buffers=buffers)

    async def read(self, session_id: str) -> Reading:
        """A session to read: the open one, or a snapshot of what the store has now.

        Raises:
            UnknownSession: there is none.
            StoreError: the store cannot be used.
        """
        if (session := self._live.by_id.get(session_id)) is not None:
            return session
        store = self._services.store
        record = await store.get(session_id)
        return Snapshot(record, (await past_of(store, session_id)).view, store)

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
        if (node := reading.view.agents.get(agent_id)) is None:
            raise UnknownAgent(f"This session has no agent {agent_id}.")
        index = reading.view.transcripts
        seq = index.call(agent_id, tool_call_id, node.run)
        entries = await reading.entries(index.refs([] if seq is None else [seq]))
        call = next((entry.body for entry in entries if isinstance(entry.body, ToolCall)), None)
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

    async def delete(self, session_id: str, purge_after: float = 0) -> None:
        """Ends a session if it is open, and deletes it with everything that belongs to it, which is removed from the
        disk not before ``purge_after`` (seconds since the epoch). Raises as :meth:`rename`."""
        async with self._changing.hold(session_id):
            if (session := self._live.by_id.get(session_id)) is not None:
                await self._live.end(session)
            await self._stored.claim(session_id)
            await self._services.store.delete(session_id, purge_after)
        if not purge_after:  # one that is deleted for its age can come back
            await self._services.snapshots.forget(session_id)

    async def compact_snapshots(self) -> None:
        """Frees the space of snapshots that no session needs. Never raises."""
        await self._services.snapshots.compact()

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
        return self._find_request(f"permission request {request_id}", lambda session: session.inbox.has(request_id))

    def find_input_request(self, request_id: str) -> Session:
        """The session that an input request, open or settled, belongs to.

        Raises:
            InvalidRequest: no open session has it.
        """
        return self._find_request(f"input request {request_id}", lambda session: session.inbox.has_input(request_id))

    def _find_request(self, what: str, has: Callable[[Session], bool]) -> Session:
        if (session := next(filter(has, self._live.by_id.values()), None)) is None:
            raise InvalidRequest(f"There is no {what}.", "requestId")
        return session

    async def close(self) -> None:
        """Ends all sessions at once, in bounded time, and opens none from now on."""
        await self._live.close()
        await self._services.snapshots.close()

    def _settings_changed(self, client: ClientSettings) -> None:
        self._upkeep.settings_changed()
        for session in self._live.by_id.values():
            if session.settings.client is client:
                session.inbox.grace = client.grace
                session.inbox.recheck()

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
