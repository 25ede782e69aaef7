"""The sessions of a process."""

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import anyio
from anyio.abc import TaskGroup, TaskStatus

from deputy_agents.builder import TOOL_NAMES
from deputy_agents.definition import PermissionMode
from deputy_agents.definition.catalogue import Catalogue
from deputy_agents.errors import UnknownAgent, UnknownSession, WrongState
from deputy_agents.event import TurnError
from deputy_agents.guidance.library import Library
from deputy_agents.ids import new_id
from deputy_agents.metrics import Metrics
from deputy_agents.ports import Buffers, Clock, ModelFactory, SessionRecord, Store
from deputy_agents.session import Session, Shared
from deputy_agents.settings import Settings
from deputy_agents.slots import Slots
from deputy_agents.workspace import Workspace

logger = logging.getLogger(__name__)


class SystemClock:
    """The time of this machine."""

    def time(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class Runtime:
    """The sessions of one process. Use it as an async context manager: leaving it ends them all, agents first.

    ``grace`` is how long a question waits for a client that can ask it; 0 where no client can come back. ``home`` is
    the user's home folder, where definitions of their own are looked for.
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
    ) -> None:
        clock = clock or SystemClock()
        self._shared = Shared(settings, store, models, clock, grace, Slots(settings.agents), Metrics())
        self._home = home
        self._sessions: dict[str, Session] = {}
        self._closed = False
        self._scope: TaskGroup

    @property
    def settings(self) -> Settings:
        return self._shared.settings

    @property
    def metrics(self) -> Metrics:
        return self._shared.metrics

    @property
    def slots(self) -> Slots:
        return self._shared.slots

    async def __aenter__(self) -> Self:
        self._scope = anyio.create_task_group()
        await self._scope.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        with anyio.CancelScope(shield=True):
            await self.close()
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
    ) -> Session:
        """Opens a session whose agents work in ``cwd``, beneath ``roots``.

        Raises:
            WrongState: the runtime is closed.
            StoreError: the store cannot keep it.
        """
        now = self._shared.clock.time()
        workspace = await Workspace.open(roots, buffers, self.settings.roots if self.settings.trusted else ())
        catalogue = Catalogue(workspace.roots, trusted=self.settings.trusted, known_tools=TOOL_NAMES, home=self._home)
        library = Library(workspace.roots, trusted=self.settings.trusted, home=self._home)
        await catalogue.refresh()
        await library.visit(cwd)
        record = SessionRecord(
            new_id(), new_id(), title or "", str(cwd), now, now, model or self.settings.model, agent_count=1
        )
        await self._shared.store.create(record)
        session: Session = await self._scope.start(self._host, record, workspace, catalogue, library)
        if permission_mode is not None:
            session.permission_mode = permission_mode
        return session

    def session(self, session_id: str) -> Session:
        """Raises UnknownSession."""
        session = self._sessions.get(session_id)
        if session is None:
            raise UnknownSession(f"There is no session {session_id}.")
        return session

    async def sessions(self, cwd: str | None = None) -> Sequence[SessionRecord]:
        """All sessions, newest first."""
        return await self._shared.store.sessions(cwd)

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
        for session in self._sessions.values():
            session.inbox.review()

    async def close(self) -> None:
        """Ends all sessions at once; bounded by the grace of cancelling."""
        self._closed = True
        async with anyio.create_task_group() as closing:
            for session in self._sessions.values():
                closing.start_soon(session.close)
        self._sessions.clear()

    async def _host(
        self,
        record: SessionRecord,
        workspace: Workspace,
        catalogue: Catalogue,
        library: Library,
        *,
        task_status: TaskStatus[Session],
    ) -> None:
        """Owns one session's tasks. A fault of the program ends that session and no other."""
        if self._closed:
            raise WrongState("Deputy is shutting down.")
        session: Session | None = None
        error: TurnError | None = None
        ready = False
        try:
            async with anyio.create_task_group() as tasks:
                # A cancel from around must not tear agents apart half-way: leaving the runtime ends them in order.
                tasks.cancel_scope.shield = True
                session = self._sessions[record.session_id] = Session(
                    self._shared, record, workspace, catalogue, library, tasks
                )
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
