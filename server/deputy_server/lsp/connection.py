"""One client and what belongs to it: its abilities, open documents, subscriptions, questions and progress."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from deputy_agents.domain.errors import UnknownAgent, WrongState
from deputy_agents.domain.event import AgentFinished, CallStatus, Event, ToolCallUpdated, TurnFinished
from deputy_agents.domain.outcome import AgentStatus, CancelReason
from deputy_agents.domain.problem import Problem
from deputy_agents.ports.store import SessionQuery
from deputy_agents.session.session import Session
from deputy_agents.session.snapshot import Reading
from deputy_server.app import App
from deputy_server.lsp.client import Client, local_paths
from deputy_server.lsp.client_log import ClientLog
from deputy_server.lsp.documents import Document, Documents
from deputy_server.lsp.editor import EditorBuffers
from deputy_server.lsp.findings import REVIEWER, Findings
from deputy_server.lsp.language import ClientEditor
from deputy_server.lsp.permission_requests import LspPermissionClient
from deputy_server.lsp.progress import ProgressTokens
from deputy_server.lsp.protocol import Phase, RpcProtocol
from deputy_server.lsp.publish import Feed
from deputy_server.lsp.shared_buffers import SharedBuffers
from deputy_server.lsp.transcripts import Shown, Transcripts
from deputy_server.rpc.errors import ClientError, ConnectionLost
from deputy_server.rpc.json import dig

REFRESH_GRACE = 2
"""Seconds that a prompt waits for agent definitions on a slow disk; after that those of the last look count."""

SHOW_TIMEOUT = 10
"""Seconds that an editor may take to show a document, or to take notice of one."""

SHOWN_PROBLEMS = 5
"""Problems of definition files that one look shows; the log has all."""

_WARNING = 2
_INFO = 3


class Connection:
    """What handlers work with. Made by ``initialize``."""

    def __init__(self, app: App, protocol: RpcProtocol, client: Client, documents: Documents, tasks: TaskGroup) -> None:
        self.app = app
        self.protocol = protocol
        self.client = client
        self.documents = documents
        self.tasks = tasks
        self.tokens = ProgressTokens()
        self.buffers = EditorBuffers(protocol, documents, client)
        app.editors.append(self.buffers)
        self.editor = ClientEditor(protocol, documents, client)
        self.transcripts = Transcripts(app.transcripts, app.redact, tasks, self._documents_changed)
        self.findings = Findings(protocol, documents)
        self.latest: dict[Path, str] = {}
        """The client's latest session in each folder."""
        self._feeds: dict[str, Feed] = {}
        self._clients: dict[str, LspPermissionClient] = {}
        self._message_turns = anyio.Lock()
        self._moving = anyio.Lock()
        """Prompts wait for folders that have changed before them; a lock serves in the order of asking."""
        self._log = ClientLog(protocol, app.redact)
        self._noticed: set[str] = set()
        self.gone = False
        """The client has left a server that goes on."""
        self._lenses_stale = self._refreshing_lenses = False

    async def roots(self) -> tuple[Path, ...]:
        """The workspace folders that are there now, symlinks resolved."""
        return await anyio.to_thread.run_sync(local_paths, [folder.uri for folder in self.documents.folders.values()])

    async def session(self, session_id: str) -> Session:
        """The session of that id, to go on with. One that is only stored is opened, for this client's folders.

        Raises:
            UnknownSession: there is none.
            WrongState: it is open in another process.
        """
        runtime = self.app.runtime
        if runtime.is_live(session_id):
            return runtime.session(session_id)
        cwd = Path((await runtime.record(session_id)).cwd)
        folders = await self.roots()
        inside = any(cwd.is_relative_to(folder) for folder in folders)
        session = await runtime.load(session_id, roots=folders if inside else (cwd,), buffers=self.shared_buffers())
        self.report_problems(session.problems)
        return session

    async def move(self) -> None:
        """The client's workspace folders have changed: its sessions in one of them go along. One whose own folder is in
        none of them keeps what it has."""
        async with self._moving:
            roots = await self.roots()
            for feed in self._feeds.values():
                session, cwd = feed.session, Path(feed.session.record.cwd)
                if session.workspace.roots != roots and any(cwd.is_relative_to(root) for root in roots):
                    session.move(roots)

    def shared_buffers(self) -> SharedBuffers:
        """The open documents of all clients, this one's first."""
        return SharedBuffers(self.app.editors, self.buffers)

    def lead(self, session: Session) -> None:
        """This client prompts: its open documents are those that count."""
        if isinstance(session.workspace.buffers, SharedBuffers):
            session.workspace.buffers.first = self.buffers

    async def reading(self, session_id: str) -> Reading:
        """The session of that id, to look at: opened here if that can be, else as a snapshot.

        Raises:
            UnknownSession: there is none.
        """
        try:
            return await self.session(session_id)
        except WrongState:
            return await self.app.runtime.read(session_id)

    async def reading_of(self, agent_id: str) -> Reading:
        """The session that an agent belongs to, live or kept, to look at.

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

    async def sessions(self, session_id: str | None) -> Sequence[Session]:
        """The session of that id, or all that are live in this process."""
        return self.app.runtime.live() if session_id is None else (await self.session(session_id),)

    def subscribe(self, session: Session, *, after: int | None = None) -> Feed:
        """The client's feed of ``session``, a new one (not started yet) where there is none. From now on the client is
        asked the session's questions, and what its editor knows of the code."""
        if (feed := self._feeds.get(session.id)) is not None and feed.session is not session:
            self.unsubscribe(session.id)  # that one is over, and the session was opened anew
            feed = None
        if feed is None:
            feed = Feed(self.protocol, self.client, self.tokens, session, self._heard, after=after)
            self._feeds[session.id] = feed
            permission_client = LspPermissionClient(self.protocol, self.client, session.id, self._message_turns)
            self._clients[session.id] = permission_client
            session.attach(permission_client)
            session.editors.attach(self.editor)
        return feed

    def _heard(self, session: Session, event: Event) -> None:
        """Something has happened in a session of this client."""
        match event.body:
            case AgentFinished(status=status) if (node := session.view.agents.get(event.agent_id or "")) is not None:
                if status is AgentStatus.COMPLETED and node.info.definition == REVIEWER:
                    self.tasks.start_soon(self.findings.add, session, node.info.agent_id)
            case ToolCallUpdated(status=CallStatus.COMPLETED) | TurnFinished():
                self.findings.look_again_soon(self.tasks)
            case _:
                pass

    def unsubscribe(self, session_id: str) -> Feed | None:
        """Ends the client's feed of a session, if there is one, and gives it."""
        if (feed := self._feeds.pop(session_id, None)) is not None:
            feed.close()
            feed.session.detach(self._clients.pop(session_id))
            feed.session.editors.detach(self.editor)
        return feed

    async def flush(self, session: Session) -> None:
        """Returns when the client has been sent all that ``session`` has published, if it is subscribed."""
        if (feed := self._feeds.get(session.id)) is not None:
            await feed.flush()

    async def refresh(self, session: Session) -> None:
        """Looks whether what users have written for agents has changed, in the folders that count now, and tells what
        is wrong with it. A caller that is cancelled goes on: what follows answers it."""
        with anyio.move_on_after(REFRESH_GRACE, shield=True):
            async with self._moving:
                pass
            await session.refresh()
        self.report_problems(session.problems)

    def report_problems(self, problems: Sequence[Problem]) -> None:
        """Tells the user what is wrong with files that are for agents: each problem once."""
        texts = [text for text in map(str, problems) if text not in self._noticed]
        self._noticed.update(texts)
        for text in texts:
            self.protocol.notify("window/logMessage", {"type": _WARNING, "message": text})
        for text in texts[:SHOWN_PROBLEMS]:
            self.show(text, _WARNING)
        if (more := len(texts) - SHOWN_PROBLEMS) > 0:
            self.show(f"{more} more problems of files for agents are in the log.", _WARNING)

    def notice(self, text: str) -> None:
        """Shows ``text`` to the user, once per connection."""
        if text not in self._noticed:
            self._noticed.add(text)
            self.show(text)

    def show(self, text: str, kind: int = _INFO) -> None:
        """Shows ``text`` to the user; ``kind`` is LSP's message type."""
        self.protocol.notify("window/showMessage", {"type": kind, "message": text})

    def transcript_at(self, document: Document) -> Shown | None:
        """Whose transcript ``document`` is, if it is one."""
        return None if document.real_path is None else self.transcripts.shown_at(document.real_path)

    def text_changed(self, document: Document) -> None:
        """The client has changed an open document."""
        if document.real_path is not None:
            self.findings.text_changed(document.real_path, lambda: document.source)

    def _documents_changed(self) -> None:
        """Transcripts were written: what stands at their lines may be another thing now."""
        self._lenses_stale = self.client.lens_refresh
        if self._lenses_stale and not self._refreshing_lenses:
            self._refreshing_lenses = True
            self.tasks.start_soon(self._refresh_lenses)

    async def _refresh_lenses(self) -> None:
        """One request at a time, however long the client takes. One that fails is made up for by the next."""
        while self._lenses_stale:
            self._lenses_stale = False
            with suppress(TimeoutError, ClientError, ConnectionLost):
                await self.protocol.request("workspace/codeLens/refresh", {}, timeout=SHOW_TIMEOUT)
        self._refreshing_lenses = False

    async def open_document(self, path: Path, *, focus: bool) -> bool:
        """Has the editor show a file; false when it cannot, or does not say that it did."""
        if not self.client.show_document:
            return False
        params = {"uri": path.as_uri(), "external": False, "takeFocus": focus}
        try:
            answer = await self.protocol.request("window/showDocument", params, timeout=SHOW_TIMEOUT)
        except (TimeoutError, ClientError, ConnectionLost):
            return False
        return dig(answer, "success") is True

    def why_cancelled(self) -> CancelReason | None:
        """Why a turn ends when the request that began it is cancelled; ``None``: it goes on without the client."""
        if self.gone:
            return None
        return CancelReason.SHUTDOWN if self.protocol.phase is Phase.SHUT_DOWN else CancelReason.USER

    def leave(self) -> Sequence[Session]:
        """The client is gone, and its sessions go on without it: these."""
        self.gone = True
        sessions = [feed.session for feed in self._feeds.values()]
        self.close()
        self.transcripts.close()
        self.app.editors.remove(self.buffers)
        return sessions

    def close(self) -> None:
        """The client is gone: it can be told and asked nothing more."""
        self._log.end()
        for feed in list(self._feeds.values()):
            self.unsubscribe(feed.session.id)
