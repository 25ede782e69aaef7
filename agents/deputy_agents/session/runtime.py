"""The sessions of a process."""

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus

from deputy_agents.clock import SystemClock
from deputy_agents.definition.catalogue import Catalogue
from deputy_agents.definition.definition import Definition, Mode
from deputy_agents.definition.loader import PRIMARY
from deputy_agents.domain.errors import InvalidRequest, StoreError, UnknownAgent, UnknownSession, WrongState
from deputy_agents.domain.event import AgentFinished, TurnError
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.metrics import Metrics
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.settings import Settings
from deputy_agents.events.view import ToolCall
from deputy_agents.files.workspace import Workspace
from deputy_agents.guidance.library import Library
from deputy_agents.mcp.approvals import Approvals
from deputy_agents.ports.buffers import Buffers
from deputy_agents.ports.clock import Clock
from deputy_agents.ports.model import ModelFactory
from deputy_agents.ports.store import Claim, SessionPage, SessionQuery, SessionRecord, Store
from deputy_agents.run.slots import Slots
from deputy_agents.session import restore
from deputy_agents.session.builder import TOOL_NAMES
from deputy_agents.session.restore import Past
from deputy_agents.session.session import Session, Shared
from deputy_agents.session.snapshot import Reading, Snapshot
from deputy_agents.session.title import renamed, title_of
from deputy_agents.session.upkeep import Upkeep

logger = logging.getLogger(__name__)

_RELEASE_GRACE = 5
"""Seconds that giving a session back may take; where it fails, the next process takes it over."""


class Runtime:
    """The sessions of one process. Use it as an async context manager: leaving it ends them all, agents first.

    ``grace`` is how long a question waits for a client that can ask it; 0 where no client can come back. ``home`` is
    the user's home folder, where definitions of their own are looked for; ``approvals`` keeps which MCP servers they
    let run.
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
        clock = clock or SystemClock()
        self._shared = Shared(settings, store, models, clock, grace, Slots(settings.agents), Metrics())
        if approvals is not None:
            self._shared.approvals = approvals
        self._home = home
        self._sessions: dict[str, Session] = {}
        self._turns: dict[str, anyio.Event] = {}
        self._hosts: dict[str, anyio.Event] = {}
        """Set when a session's host has given it back to the store."""
        self._upkeep = Upkeep(self, self._shared)
        self._closed = False
        self._scope: TaskGroup

    @property
    def settings(self) -> Settings:
        return self._shared.settings

    @property
    def grace(self) -> float:
        """Seconds that a question waits for a client that can ask it; 0 where no client can come back."""
        return self._shared.grace

    @grace.setter
    def grace(self, seconds: float) -> None:
        self._shared.grace = seconds
        for session in self._sessions.values():
            session.inbox.grace = seconds

    @property
    def metrics(self) -> Metrics:
        return self._shared.metrics

    @property
    def slots(self) -> Slots:
        return self._shared.slots

    async def __aenter__(self) -> Self:
        self._scope = anyio.create_task_group()
        await self._scope.__aenter__()
        self._scope.start_soon(self._upkeep.run)
        return self

    async def __aexit__(self, *exc: object) -> None:
        with anyio.CancelScope(shield=True):
            await self.close()
        self._scope.cancel_scope.cancel()
        await self._scope.__aexit__(None, None, None)

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
        """Opens a session whose agents work in ``cwd``, beneath ``roots``. ``agent`` names the definition of its own
        agent.

        Raises:
            InvalidRequest: there is no such definition for a session's own agent.
            WrongState: the runtime is closed.
            StoreError: the store cannot keep it.
        """
        now = self._shared.clock.time()
        if agent is not None:
            kind = await self._primary_kind(agent, roots)
            model = model or kind.model_for(self.settings.model, self.settings.small_model)
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
            await self._shared.store.create(record)
        except StoreError as error:
            logger.warning("session %s begins in memory: %s", record.session_id, error)
            problem = error
        session = await self._open(record, roots, buffers, kind=agent or PRIMARY)
        if problem is not None:
            session.log.start_unstored(record, problem)
        return session

    async def load(self, session_id: str, *, roots: Sequence[Path], buffers: Buffers | None = None) -> Session:
        """A session to go on with: the live one, or one of the store, whose agents then work beneath ``roots``. What
        the end of an earlier process left open there is ended first.

        Raises:
            UnknownSession: there is none.
            WrongState: another process that lives has it, or the runtime is closed.
            StoreError: the store cannot be used.
        """
        async with self._turn_of(session_id):
            if (session := self._sessions.get(session_id)) is not None:
                return session
            record = await self._claimed(session_id)
            try:
                past = await self._mended(record)
                # The mending may have changed what the store tells of it.
                return await self._open(record, roots, buffers, past)
            except BaseException:
                await self._release(session_id)
                raise

    async def read(self, session_id: str) -> Reading:
        """A session to look at: the live one, or a snapshot of what the store has now.

        Raises:
            UnknownSession: there is none.
            StoreError: the store cannot be used.
        """
        if (session := self._sessions.get(session_id)) is not None:
            return session
        record = await self._shared.store.get(session_id)
        return Snapshot(record, (await self._past(session_id)).view)

    async def output(self, session_id: str, agent_id: str, tool_call_id: str) -> str:
        """The output of a tool call: all of it where more is kept than the transcript shows.

        Raises:
            UnknownSession, UnknownAgent: there is none.
            InvalidRequest: the agent has made no such call.
            StoreError: the store cannot be used.
        """
        if (session := self._sessions.get(session_id)) is not None:
            await session.flush()
        if (whole := await self._shared.store.output(session_id, agent_id, tool_call_id)) is not None:
            return whole
        reading = await self.read(session_id)
        calls = [entry.body for entry in reading.transcript(agent_id)[0] if isinstance(entry.body, ToolCall)]
        call = next((call for call in calls if call.started.tool_call_id == tool_call_id), None)
        if call is None:
            raise InvalidRequest(f"toolCallId: this agent has made no call {tool_call_id}.", "toolCallId")
        return (call.update and call.update.content) or ""

    async def unload(self, session_id: str) -> None:
        """Closes a session that nobody watches and in which nothing runs; others, and those not open here, go on."""
        async with self._turn_of(session_id):
            session = self._sessions.get(session_id)
            if session is not None and session.idle:
                await self._end(session)

    async def rename(self, session_id: str, title: str) -> None:
        """Gives a session, open or not, a title.

        Raises:
            InvalidRequest: it is blank.
            UnknownSession: there is none.
            WrongState: another process that lives has it.
            StoreError: the store cannot be used.
        """
        await self._change(session_id, lambda live: live.rename(title), lambda record: renamed(record, title))

    async def archive(self, session_id: str, archived: bool) -> None:
        """Puts a session, open or not, away, or takes it out again. Raises what :meth:`rename` does."""
        await self._change(
            session_id, lambda live: live.archive(archived), lambda record: replace(record, archived=archived)
        )

    async def delete(self, session_id: str) -> None:
        """Ends a session, if it is open, and forgets it with all that belongs to it. Raises what :meth:`rename`
        does."""
        async with self._turn_of(session_id):
            if (session := self._sessions.get(session_id)) is not None:
                await self._end(session)
            await self._claimed(session_id)
            await self._shared.store.delete(session_id)

    async def reconcile(self, session_id: str) -> None:
        """Ends what the end of an earlier process left open in a session; one that is open here is left alone.

        Raises:
            UnknownSession: there is none.
            WrongState: another process that lives has it.
            StoreError: the store cannot be used.
        """
        async with self._turn_of(session_id):
            if session_id not in self._sessions:
                await self._claimed(session_id)
                await self._release(session_id)

    async def record(self, session_id: str) -> SessionRecord:
        """What lists show of a session, open or not.

        Raises:
            UnknownSession: there is none.
            StoreError: the store cannot be used.
        """
        session = self._sessions.get(session_id)
        return session.record if session else await self._shared.store.get(session_id)

    def is_live(self, session_id: str) -> bool:
        """Whether a session is open in this process."""
        return session_id in self._sessions

    def session(self, session_id: str) -> Session:
        """Raises UnknownSession: no session of that id is open in this process."""
        session = self._sessions.get(session_id)
        if session is None:
            raise UnknownSession(f"There is no session {session_id}.")
        return session

    async def sessions(self, query: SessionQuery | None = None) -> SessionPage:
        """The sessions of the store, those of other processes too."""
        for session in self.live():
            await session.save()
        return await self._shared.store.sessions(query or SessionQuery())

    def live(self) -> Sequence[Session]:
        """The sessions that are open in this process."""
        return list(self._sessions.values())

    def find_agent(self, agent_id: str) -> Session:
        """The session that an agent belongs to.

        Raises:
            UnknownAgent: no open session has it.
        """
        for session in self._sessions.values():
            if agent_id in session.view.agents:
                return session
        raise UnknownAgent(f"There is no agent {agent_id}.")

    def apply_settings(self, settings: Settings) -> None:
        """New settings hold from the next decision, request or spawn on; open questions are decided anew."""
        self._shared.settings = settings
        self._shared.slots.settings = settings.agents
        self._upkeep.settings_changed()
        for session in self._sessions.values():
            session.inbox.review()

    async def close(self) -> None:
        """Ends all sessions at once; bounded by the grace of cancelling."""
        self._closed = True
        async with anyio.create_task_group() as closing:
            for session in self._sessions.values():
                closing.start_soon(session.close)
        self._sessions.clear()

    # -- inside ----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _turn_of(self, session_id: str) -> AsyncGenerator[None]:
        """Those who open or close the same session take turns; others do not wait for them."""
        while (before := self._turns.get(session_id)) is not None:
            await before.wait()
        over = self._turns[session_id] = anyio.Event()
        try:
            yield
        finally:
            del self._turns[session_id]
            over.set()

    async def _change(
        self,
        session_id: str,
        live: Callable[[Session], None],
        stored: Callable[[SessionRecord], SessionRecord],
    ) -> None:
        async with self._turn_of(session_id):
            if (session := self._sessions.get(session_id)) is not None:
                live(session)
                await session.save()
                return
            record = await self._claimed(session_id)
            try:
                await self._shared.store.update(stored(record))
            finally:
                await self._release(session_id)

    async def _claimed(self, session_id: str) -> SessionRecord:
        """The record of a session that now is this process's, mended if its last owner left it without a word."""
        claim = await self._shared.store.claim(session_id)
        if claim is Claim.FOREIGN:
            raise WrongState("This session is open in another Deputy process; close it there first.")
        record = await self._shared.store.get(session_id)
        if claim is Claim.TAKEN_OVER:
            await self._mended(record)
        return record

    async def _past(self, session_id: str) -> Past:
        store = self._shared.store
        events, histories = await store.events(session_id), await store.histories(session_id)
        return await to_thread.run_sync(restore.fold, session_id, events, histories)

    async def _mended(self, record: SessionRecord) -> Past:
        """The past of a session that is this process's, everything in it at an end. What that takes is stored in one
        go, so that it is done once however often it is tried."""
        past = await self._past(record.session_id)
        limits = self.settings.limits
        mended = await to_thread.run_sync(restore.mend, past, self._shared.clock.time(), limits)
        if mended.events or mended.history:
            await self._shared.store.append(record.session_id, mended.events, mended.history)
        ended = sum(isinstance(event.body, AgentFinished) for event in mended.events)
        self.metrics.counters["reconciliations"] += ended
        return past

    async def _open(
        self,
        record: SessionRecord,
        roots: Sequence[Path],
        buffers: Buffers | None,
        past: Past | None = None,
        kind: str = PRIMARY,
    ) -> Session:
        workspace = await Workspace.open(roots, buffers, self.settings.roots if self.settings.trusted else ())
        catalogue = Catalogue(workspace.roots, trusted=self.settings.trusted, known_tools=TOOL_NAMES, home=self._home)
        library = Library(workspace.roots, trusted=self.settings.trusted, home=self._home)
        await catalogue.refresh()
        await library.visit(Path(record.cwd))
        return await self._scope.start(self._host, record, workspace, catalogue, library, past, kind)

    async def _primary_kind(self, name: str, roots: Sequence[Path]) -> Definition:
        catalogue = Catalogue(roots, trusted=self.settings.trusted, known_tools=TOOL_NAMES, home=self._home)
        await catalogue.refresh()
        fit = {one.name: one for one in catalogue.definitions.values() if one.mode is not Mode.SUBAGENT}
        if (kind := fit.get(name)) is None:
            what = "is for sub-agents alone" if name in catalogue.definitions else "is unknown"
            raise InvalidRequest(f"agent: {name!r} {what}; a session can have {', '.join(fit)}.", "agent")
        return kind

    async def _end(self, session: Session) -> None:
        """Closes a session here; it stays in the store. Returns when its host has given it back, so that whoever claims
        it next keeps it."""
        over = self._hosts[session.id]
        self._sessions.pop(session.id, None)
        await session.close()
        await over.wait()

    async def _release(self, session_id: str) -> None:
        with anyio.move_on_after(_RELEASE_GRACE, shield=True):
            try:
                await self._shared.store.release(session_id)
            except StoreError as error:
                logger.warning("session %s is not given back: %s", session_id, error)

    async def _host(
        self,
        record: SessionRecord,
        workspace: Workspace,
        catalogue: Catalogue,
        library: Library,
        past: Past | None,
        kind: str,
        *,
        task_status: TaskStatus[Session],
    ) -> None:
        """Owns one session's tasks. A fault of the program ends that session and no other."""
        if self._closed:
            raise WrongState("Deputy is shutting down.")
        over = self._hosts[record.session_id] = anyio.Event()
        session: Session | None = None
        error: TurnError | None = None
        ready = False
        try:
            async with anyio.create_task_group() as tasks:
                # A cancel from around must not tear agents apart half-way: leaving the runtime ends them in order.
                tasks.cancel_scope.shield = True
                session = Session(self._shared, record, workspace, catalogue, library, tasks, past, kind)
                self._sessions[record.session_id] = session
                await tasks.start(session.serve)
                ready = True
                task_status.started(session)
        except Exception:
            if not ready:
                raise
            logger.exception("session %s broke down", record.session_id)
            error = TurnError("internal", "An internal error ended this session; the log has the details.")
        finally:
            self._sessions.pop(record.session_id, None)
            if session is not None:
                session.ended(error)
            await self._release(record.session_id)
            del self._hosts[record.session_id]
            over.set()
