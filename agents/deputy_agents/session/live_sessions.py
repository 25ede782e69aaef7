"""The open sessions of a process, and the tasks that own them."""

import logging
from collections.abc import Sequence
from pathlib import Path

import anyio
from anyio.abc import TaskGroup, TaskStatus

from deputy_agents.definition.catalogue import Catalogue
from deputy_agents.definition.definition import Definition, Mode
from deputy_agents.definition.loader import PRIMARY
from deputy_agents.domain.errors import InvalidRequest, WrongState
from deputy_agents.domain.event import TurnError
from deputy_agents.files.workspace import Workspace
from deputy_agents.guidance.library import Library
from deputy_agents.ports.buffers import Buffers
from deputy_agents.ports.store import SessionRecord
from deputy_agents.session.assembly import assemble
from deputy_agents.session.builder import TOOL_NAMES
from deputy_agents.session.clients import ClientSettings
from deputy_agents.session.restore import Past
from deputy_agents.session.services import Services
from deputy_agents.session.session import Session
from deputy_agents.session.stored_sessions import StoredSessions

logger = logging.getLogger(__name__)


class LiveSessions:
    """Sessions by id. ``home`` is the user's home folder, which has definitions and guidance of their own."""

    def __init__(self, services: Services, stored: StoredSessions, home: Path | None) -> None:
        self.by_id: dict[str, Session] = {}
        self.tasks: TaskGroup
        """Owns the tasks of all sessions; set before the first one is opened."""
        self._services = services
        self._stored = stored
        self._home = home
        self._released: dict[str, anyio.Event] = {}
        """Set when a session's owner has released it to the store."""
        self._closed = False

    async def open(
        self,
        client: ClientSettings,
        record: SessionRecord,
        roots: Sequence[Path],
        buffers: Buffers | None,
        past: Past | None = None,
        definition: str = PRIMARY,
    ) -> Session:
        """Opens a session that this process owns, for ``client``.

        Raises:
            WrongState: the process is shutting down.
        """
        settings = client.current
        workspace = await Workspace.open(roots, buffers, settings.roots if settings.trusted else ())
        catalogue = self._catalogue(client, workspace.roots)
        library = Library(workspace.roots, trusted=settings.trusted, home=self._home, answered=self._services.answered)
        await catalogue.refresh()
        await library.visit(Path(record.cwd))
        return await self.tasks.start(self._own, client, record, workspace, catalogue, library, past, definition)

    async def primary_definition(self, client: ClientSettings, name: str, roots: Sequence[Path]) -> Definition:
        """The definition ``name`` for the primary of a session of ``client`` with these roots.

        Raises:
            InvalidRequest: there is none, or it is for sub-agents alone.
        """
        catalogue = self._catalogue(client, roots)
        await catalogue.refresh()
        usable = {one.name: one for one in catalogue.definitions.values() if one.mode is not Mode.SUBAGENT}
        if (definition := usable.get(name)) is None:
            what = "is for sub-agents only" if name in catalogue.definitions else "is unknown"
            raise InvalidRequest(f"agent: {name!r} {what}. Use one of: {', '.join(usable)}.", "agent")
        return definition

    async def end(self, session: Session) -> None:
        """Closes a session, which stays in the store. Returns when it is released, so that the next
        owner keeps it."""
        released = self._released[session.id]
        self.by_id.pop(session.id, None)
        await session.close()
        await released.wait()

    async def close(self) -> None:
        """Ends all sessions at once; bounded by the grace of cancelling."""
        self._closed = True
        async with anyio.create_task_group() as closing:
            for session in self.by_id.values():
                closing.start_soon(session.close)
        self.by_id.clear()

    def _catalogue(self, client: ClientSettings, roots: Sequence[Path]) -> Catalogue:
        return Catalogue(roots, trusted=client.current.trusted, known_tools=TOOL_NAMES, home=self._home)

    async def _own(
        self,
        client: ClientSettings,
        record: SessionRecord,
        workspace: Workspace,
        catalogue: Catalogue,
        library: Library,
        past: Past | None,
        definition: str,
        *,
        task_status: TaskStatus[Session],
    ) -> None:
        """Owns the tasks of one session. An internal error ends that session and no other."""
        if self._closed:
            raise WrongState("Deputy is shutting down.")
        released = self._released[record.session_id] = anyio.Event()
        session: Session | None = None
        error: TurnError | None = None
        ready = False
        try:
            async with anyio.create_task_group() as tasks:
                # A cancel from outside must not stop agents half-way: leaving the runtime ends them in order.
                tasks.cancel_scope.shield = True
                session = assemble(
                    self._services, client, record, workspace, catalogue, library, tasks, past, definition
                )
                self.by_id[record.session_id] = session
                await tasks.start(session.serve)
                ready = True
                task_status.started(session)
        except Exception:
            if not ready:
                raise
            logger.exception("session %s ended with an internal error", record.session_id)
            error = TurnError("internal", "An internal error ended this session. The log has the details.")
        finally:
            self.by_id.pop(record.session_id, None)
            if session is not None:
                session.ended(error)
            await self._stored.release(record.session_id)
            del self._released[record.session_id]
            released.set()
