"""One client and what belongs to it: its capabilities, open documents, subscriptions, transcripts and findings."""

from collections.abc import Sequence
from pathlib import Path

from anyio.abc import TaskGroup

from deputy_agents.domain.errors import UnknownAgent, WrongState
from deputy_agents.domain.event import Event
from deputy_agents.domain.outcome import CancelReason
from deputy_agents.ports.store import SessionQuery
from deputy_agents.session.session import Session
from deputy_agents.session.snapshot import Reading
from deputy_server.app import App, AppClient
from deputy_server.lsp.buffers import EditorBuffers
from deputy_server.lsp.client import Client
from deputy_server.lsp.client_log import ClientLog
from deputy_server.lsp.documents import Document, Documents
from deputy_server.lsp.editor import ClientEditor
from deputy_server.lsp.findings import Findings
from deputy_server.lsp.lens_refresh import LensRefresh
from deputy_server.lsp.protocol import Phase, RpcProtocol
from deputy_server.lsp.review_marks import ReviewMarks
from deputy_server.lsp.session_folders import SessionFolders
from deputy_server.lsp.shared_buffers import SharedBuffers
from deputy_server.lsp.subscriptions import Subscriptions
from deputy_server.lsp.transcript_files import TranscriptFile, TranscriptFiles
from deputy_server.lsp.window import Window
from deputy_server.prompting import refresh


class Connection:
    """What handlers work with. Created by ``initialize``."""

    def __init__(
        self,
        app: App,
        setup: AppClient,
        protocol: RpcProtocol,
        client: Client,
        documents: Documents,
        tasks: TaskGroup,
    ) -> None:
        self.app = app
        self.setup = setup
        """The client's settings and what follows from them."""
        self.client = client
        self.documents = documents
        self.tasks = tasks
        self.window = Window(protocol, client)
        self.buffers = EditorBuffers(protocol, documents, client)
        app.editors.append(self.buffers)
        lenses = LensRefresh(protocol, client, tasks)
        self.transcripts = TranscriptFiles(app.transcripts, app.redact, tasks, lenses.start)
        self.findings = Findings(protocol, documents, tasks)
        self.review_marks = ReviewMarks(client, self.findings, lenses, tasks, app.runtime.live)
        editor = ClientEditor(protocol, documents, client)
        self.subscriptions = Subscriptions(protocol, client, editor, self._on_event)
        self.folders = SessionFolders(protocol, documents, app.transcripts.parent)
        self._protocol = protocol
        self._log = ClientLog(protocol, app.redact)
        self._left = False
        """The client has left a server that keeps running."""

    # -- sessions --------------------------------------------------------------------------------------------------

    async def session(self, session_id: str) -> Session:
        """Return the session with that id, to continue it. A stored one is opened for this client, with its settings
        and folders, and so is an idle one whose client is gone. Another one keeps those of its client.

        Raises:
            UnknownSession: there is none.
            WrongState: it is open in another process.
        """
        runtime = self.app.runtime
        if runtime.is_live(session_id) and (live := runtime.session(session_id)).settings.client.connected:
            return live
        cwd = Path((await runtime.record(session_id)).cwd)
        roots = await self.folders.roots_of(cwd)
        session = await runtime.load(self.setup.settings, session_id, roots=roots, buffers=self.shared_buffers())
        self.window.report_problems(session.problems)
        return session

    async def sessions(self, session_id: str | None) -> Sequence[Session]:
        """Return the session with that id, or all open sessions of this process."""
        return self.app.runtime.live() if session_id is None else (await self.session(session_id),)

    async def reading(self, session_id: str) -> Reading:
        """Return the session with that id for reading: opened here if possible, else a snapshot.

        Raises:
            UnknownSession: there is none.
        """
        try:
            return await self.session(session_id)
        except WrongState:
            return await self.app.runtime.read(session_id)

    async def reading_of(self, agent_id: str) -> Reading:
        """Return the session that an agent belongs to, open or stored, for reading.

        Raises:
            UnknownAgent: there is no such agent.
        """
        runtime = self.app.runtime
        try:
            return runtime.find_agent(agent_id)
        except UnknownAgent:
            for record in (await runtime.sessions(SessionQuery(children=True))).records:
                if agent_id in (record.agent_id, record.session_id):
                    return await self.reading(record.parent_session_id or record.session_id)
            raise

    async def refresh(self, session: Session) -> None:
        """Reload the files that users write for agents and report their problems. Cancelling the caller does not
        interrupt it."""
        await refresh(session, self.folders_moved)
        self.window.report_problems(session.problems)

    def cancel_reason(self) -> CancelReason | None:
        """Why a turn ends when the request that started it is cancelled; ``None`` leaves it running."""
        if self._left:
            return None
        return CancelReason.SHUTDOWN if self._protocol.phase is Phase.SHUT_DOWN else CancelReason.USER

    # -- folders and documents -------------------------------------------------------------------------------------

    async def move(self) -> None:
        """Apply changed workspace folders to the sessions that run with this client's settings, except those whose
        own folder is in none of them."""
        async with self.folders.moving:
            roots = await self.folders.roots()
            for session in self.subscriptions.sessions():
                cwd = Path(session.record.cwd)
                mine = session.settings.client is self.setup.settings
                if mine and session.workspace.roots != roots and any(cwd.is_relative_to(root) for root in roots):
                    session.set_roots(roots)

    async def folders_moved(self) -> None:
        """Return when workspace folders that changed before this call have reached the sessions."""
        async with self.folders.moving:
            pass

    def shared_buffers(self) -> SharedBuffers:
        """The open documents of all clients, this client's first."""
        return SharedBuffers(self.app.editors, self.buffers)

    def set_primary_client(self, session: Session) -> None:
        """Make this client's open documents the ones that agents of ``session`` use first."""
        if isinstance(session.workspace.buffers, SharedBuffers):
            session.workspace.buffers.first = self.buffers

    def transcript_at(self, document: Document) -> TranscriptFile | None:
        """The transcript that ``document`` shows, if it shows one."""
        return None if document.real_path is None else self.transcripts.file_at(document.real_path)

    def _on_event(self, session: Session, event: Event) -> None:
        self.findings.on_event(session, event)
        self.review_marks.on_event(event)

    def text_changed(self, document: Document) -> None:
        """The client has changed an open document."""
        self.review_marks.update_soon()
        if document.real_path is not None:
            self.findings.text_changed(document.real_path, lambda: document.source)

    # -- the end ---------------------------------------------------------------------------------------------------

    def leave(self) -> Sequence[Session]:
        """Close the connection of a client that is gone while the server keeps running. Return the sessions that it
        watched."""
        self._left = True
        sessions = self.subscriptions.sessions()
        self.close()
        self.transcripts.close()
        self.app.editors.remove(self.buffers)
        self.setup.disconnect()
        return sessions

    def close(self) -> None:
        """Stop sending to a client that is gone."""
        self._log.end()
        self.subscriptions.close()
