"""The methods of the Agent Client Protocol, served from the sessions of a process."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
from acp import schema
from anyio import to_thread
from pydantic import BaseModel

from deputy_agents.domain.errors import InvalidRequest, StoreError, UnknownSession
from deputy_agents.ports.store import SessionQuery
from deputy_agents.session.session import Session
from deputy_protocol.base import rfc3339
from deputy_protocol.validate import parse
from deputy_server.acp import options
from deputy_server.acp.client import Client
from deputy_server.acp.files import EditorFiles
from deputy_server.acp.mcp_servers import named_servers
from deputy_server.acp.open_session import OpenSession
from deputy_server.acp.prompt import read_prompt
from deputy_server.acp.session_state import turn_usage
from deputy_server.app import App, AppClient
from deputy_server.prompting import IncomingPrompt
from deputy_server.rpc.endpoint import Endpoint, RequestHandler, Response
from deputy_server.rpc.json import JsonObject

M = TypeVar("M", bound=BaseModel)

PAGE = 50
"""Sessions per page."""


class Agent:
    """Deputy for one client. ``definition`` names the definition of the primary agents of new sessions."""

    def __init__(
        self, app: App, setup: AppClient, endpoint: Endpoint, client: Client, definition: str | None = None
    ) -> None:
        self._app = app
        self._setup = setup
        self._endpoint = endpoint
        self._client = client
        self._definition = definition
        self._open: dict[str, OpenSession] = {}
        self._shown_notices: set[str] = set()
        self.methods: Mapping[str, RequestHandler] = {
            "authenticate": self.authenticate,
            "session/new": _typed(schema.NewSessionRequest, self.new_session),
            "session/load": _typed(schema.LoadSessionRequest, self.load_session),
            "session/resume": _typed(schema.ResumeSessionRequest, self.resume_session),
            "session/list": _typed(schema.ListSessionsRequest, self.list_sessions),
            "session/close": _typed(schema.CloseSessionRequest, self.close_session),
            "session/delete": _typed(schema.DeleteSessionRequest, self.delete_session),
            "session/prompt": _typed(schema.PromptRequest, self.prompt),
            "session/set_mode": _typed(schema.SetSessionModeRequest, self.set_mode),
            "session/set_config_option": _typed(schema.SetSessionConfigOptionSelectRequest, self.set_option),
        }
        self.listeners: Mapping[str, Callable[[object], Awaitable[None]]] = {"session/cancel": self.cancel}

    # -- opening and closing ---------------------------------------------------------------------------------------

    async def authenticate(self, _params: object) -> JsonObject:
        """Accept everyone: API keys are part of the settings."""
        return {}

    async def new_session(self, params: schema.NewSessionRequest) -> Response[JsonObject]:
        folder, roots = await _cwd_and_roots(params.cwd, params.additional_directories)
        files = EditorFiles(self._endpoint, self._client)
        session = await self._app.runtime.new_session(
            self._setup.settings, cwd=folder, roots=roots, buffers=files, agent=self._definition
        )
        files.session_id = session.id
        session.mcp_servers.of_editor = named_servers(params.mcp_servers)
        opened = self._open_session(session, replay=False)
        session.inbox.attach(opened)
        return Response({"sessionId": session.id, **opened.state.initial()}, partial(self._send_first, opened))

    async def load_session(self, params: schema.LoadSessionRequest) -> Response[JsonObject]:
        """Replay the past before the response, as the protocol demands."""
        opened = await self._load(params, replay=True)
        await opened.flush()
        opened.session.inbox.attach(opened)
        return Response(opened.state.initial(), partial(self._send_first, opened))

    async def resume_session(self, params: schema.ResumeSessionRequest) -> Response[JsonObject]:
        opened = await self._load(params, replay=False)
        opened.session.inbox.attach(opened)
        return Response(opened.state.initial(), partial(self._send_first, opened))

    async def list_sessions(self, params: schema.ListSessionsRequest) -> JsonObject:
        cwd = None if params.cwd is None else str(await anyio.Path(params.cwd).resolve())
        query = SessionQuery(cwd=cwd, archived=False, cursor=params.cursor, limit=PAGE)
        page = await self._app.runtime.sessions(query)
        problem = self._app.store_notice
        if problem and not page.records:
            raise StoreError(problem)  # the protocol has no other way to say so, and an empty list would be wrong
        sessions = [
            {"sessionId": r.session_id, "cwd": r.cwd, "title": r.title or None, "updatedAt": rfc3339(r.updated_at)}
            for r in page.records
        ]
        meta: JsonObject = {"_meta": {"deputy": {"problem": problem}}} if problem else {}
        return {"sessions": sessions, "nextCursor": page.cursor, **meta}

    async def close_session(self, params: schema.CloseSessionRequest) -> JsonObject:
        opened = self._opened(params.session_id)
        await opened.session.cancel()
        await opened.flush()
        self._open.pop(params.session_id, None)  # a concurrent request may have closed it
        opened.close()
        await self._app.runtime.unload(params.session_id)
        return {}

    async def delete_session(self, params: schema.DeleteSessionRequest) -> JsonObject:
        if (opened := self._open.pop(params.session_id, None)) is not None:
            opened.close()
        elif self._parent_of(params.session_id) is not None:
            raise InvalidRequest("sessionId: a sub-agent cannot be deleted. Delete its session.", "sessionId")
        with suppress(UnknownSession):  # the protocol does not count this as an error
            await self._app.runtime.delete(params.session_id)
        return {}

    # -- working ---------------------------------------------------------------------------------------------------

    async def prompt(self, params: schema.PromptRequest) -> JsonObject:
        opened = self._opened(params.session_id)
        incoming = IncomingPrompt(opened.session, opened)
        prompt = await to_thread.run_sync(read_prompt, params.prompt, Path(opened.session.record.cwd))
        # Always queue: the protocol has no other way to handle a prompt during a turn.
        turn = await incoming.accept(prompt.blocks, attached=prompt.attached, queue=True)
        result = await incoming.outcome(turn)
        return {"stopReason": result.stop_reason, "usage": turn_usage(result.usage)}

    async def cancel(self, params: object) -> None:
        """Cancel a session with its background tasks, or a sub-agent."""
        session_id = parse(schema.CancelNotification, params).session_id
        if (opened := self._open.get(session_id)) is not None:
            await opened.session.cancel()
        elif (parent := self._parent_of(session_id)) is not None:
            await parent.session.cancel_agent(session_id)

    async def set_mode(self, params: schema.SetSessionModeRequest) -> JsonObject:
        session = self._opened(params.session_id).session
        options.set_mode(session, params.mode_id)
        await session.keeper.save()
        return {}

    async def set_option(self, params: schema.SetSessionConfigOptionSelectRequest) -> JsonObject:
        opened = self._opened(params.session_id)
        options.choose(opened.session, params.config_id, params.value)
        await opened.session.keeper.save()
        return {"configOptions": opened.state.config_options()}

    # -- inside ----------------------------------------------------------------------------------------------------

    async def _load(
        self, params: schema.LoadSessionRequest | schema.ResumeSessionRequest, *, replay: bool
    ) -> OpenSession:
        """Open a stored session with the folders and MCP servers that the client gives."""
        session_id = params.session_id
        if self._parent_of(session_id) is not None:
            raise InvalidRequest("sessionId: this is a sub-agent. Load its session.", "sessionId")
        _, roots = await _cwd_and_roots(params.cwd, params.additional_directories)
        files = EditorFiles(self._endpoint, self._client)
        files.session_id = session_id
        record = await self._app.runtime.record(session_id)
        inside = any(Path(record.cwd).is_relative_to(root) for root in roots)
        roots = roots if inside else (Path(record.cwd), *roots[1:])
        session = await self._app.runtime.load(self._setup.settings, session_id, roots=roots, buffers=files)
        session.mcp_servers.of_editor = named_servers(params.mcp_servers or ())
        return self._open_session(session, replay=replay)

    def _open_session(self, session: Session, *, replay: bool) -> OpenSession:
        if (before := self._open.pop(session.id, None)) is not None:
            before.close()
        opened = self._open[session.id] = OpenSession(
            session, self._endpoint, self._client, self._setup.models, self._shown_notices, replay=replay
        )
        self._endpoint.tasks.start_soon(opened.run)
        return opened

    def _send_first(self, opened: OpenSession) -> None:
        """Send what must not precede the response that opens the session."""
        opened.send_state()
        opened.notices.show_once(self._app.store_notice, severity="warning")
        opened.notices.show_once(self._setup.notice, severity="info")
        opened.notices.show_once(opened.session.turns.queue_notice, severity="info")
        opened.report_problems()

    def _opened(self, session_id: str) -> OpenSession:
        """The session that the client has open.

        Raises:
            InvalidRequest: the id is a sub-agent's.
            UnknownSession: the client has no such session open.
        """
        if (opened := self._open.get(session_id)) is not None:
            return opened
        if self._parent_of(session_id) is not None:
            raise InvalidRequest("sessionId: a sub-agent can only be watched and cancelled.", "sessionId")
        raise UnknownSession(f"Session {session_id} is not open. Create or load it first.")

    def _parent_of(self, agent_id: str) -> OpenSession | None:
        """The open session that a sub-agent belongs to."""
        return next((one for one in self._open.values() if agent_id in one.session.view.agents), None)


def _typed(model: type[M], serve: Callable[[M], Awaitable[Response[JsonObject] | JsonObject]]) -> RequestHandler:
    """A handler that validates the raw parameters."""

    async def handle(params: object) -> Response[JsonObject] | JsonObject:
        return await serve(parse(model, params))

    return handle


async def _cwd_and_roots(cwd: str, further: Sequence[str] | None) -> tuple[Path, tuple[Path, ...]]:
    """The folder and the roots of a session, symlinks resolved.

    Raises:
        InvalidRequest: one of them is not an absolute path of a folder.
    """
    folders = [await _folder(cwd, "cwd")]
    folders += [await _folder(one, f"additionalDirectories[{index}]") for index, one in enumerate(further or ())]
    return folders[0], tuple(dict.fromkeys(folders))


async def _folder(path: str, field: str) -> Path:
    folder = anyio.Path(path)
    if "\0" in path or not folder.is_absolute() or not await folder.is_dir():
        raise InvalidRequest(f"{field}: must be the absolute path of a folder.", field)
    return Path(await folder.resolve())
