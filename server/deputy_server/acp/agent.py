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

from deputy_agents.domain.errors import InvalidRequest, UnknownSession
from deputy_agents.domain.outcome import CancelReason
from deputy_agents.ports.store import SessionQuery
from deputy_agents.session.session import Session
from deputy_protocol.base import rfc3339
from deputy_protocol.validate import parse
from deputy_server.acp import options
from deputy_server.acp.client import Client
from deputy_server.acp.facts import usage
from deputy_server.acp.files import EditorFiles
from deputy_server.acp.mcp_servers import named_servers
from deputy_server.acp.open_session import Opened
from deputy_server.acp.peer import Handler, Listener, Peer, Response
from deputy_server.acp.prompt import read_prompt
from deputy_server.app import App
from deputy_server.prompting import outcome
from deputy_server.rpc.json import JsonObject

M = TypeVar("M", bound=BaseModel)

PAGE = 50
"""Sessions of one part of a list."""

REFRESH_GRACE = 2
"""Seconds that a prompt waits for definitions and commands on a slow disk; after that those of the last look count."""


class Agent:
    """Deputy for one client. ``definition`` names that of new sessions' own agents."""

    def __init__(self, app: App, peer: Peer, client: Client, definition: str | None = None) -> None:
        self._app = app
        self._peer = peer
        self._client = client
        self._definition = definition
        self._open: dict[str, Opened] = {}
        self._noticed: set[str] = set()
        self.methods: Mapping[str, Handler] = {
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
        self.listeners: Mapping[str, Listener] = {"session/cancel": self.cancel}

    # -- opening and closing ---------------------------------------------------------------------------------------

    async def authenticate(self, _params: object) -> JsonObject:
        """Nothing is needed: the key of the model's service is a matter of settings."""
        return {}

    async def new_session(self, params: schema.NewSessionRequest) -> Response:
        folder, roots = await _places(params.cwd, params.additional_directories)
        files = EditorFiles(self._peer, self._client)
        session = await self._app.runtime.new_session(cwd=folder, roots=roots, buffers=files, agent=self._definition)
        files.session_id = session.id
        session.editor_mcp_servers = named_servers(params.mcp_servers)
        opened = self._opens(session, replay=False)
        session.attach(opened)
        return Response({"sessionId": session.id, **opened.facts.setup()}, partial(self._greet, opened))

    async def load_session(self, params: schema.LoadSessionRequest) -> Response:
        """Everything that was is told before the answer, as it happened."""
        opened = await self._again(params, replay=True)
        await opened.told(opened.session.last_seq)
        opened.session.attach(opened)
        return Response(opened.facts.setup(), partial(self._greet, opened))

    async def resume_session(self, params: schema.ResumeSessionRequest) -> Response:
        opened = await self._again(params, replay=False)
        opened.session.attach(opened)
        return Response(opened.facts.setup(), partial(self._greet, opened))

    async def list_sessions(self, params: schema.ListSessionsRequest) -> JsonObject:
        cwd = None if params.cwd is None else str(await anyio.Path(params.cwd).resolve())
        query = SessionQuery(cwd=cwd, archived=False, cursor=params.cursor, limit=PAGE)
        page = await self._app.runtime.sessions(query)
        sessions = [
            {"sessionId": r.session_id, "cwd": r.cwd, "title": r.title or None, "updatedAt": rfc3339(r.updated_at)}
            for r in page.records
        ]
        return {"sessions": sessions, "nextCursor": page.cursor}

    async def close_session(self, params: schema.CloseSessionRequest) -> JsonObject:
        opened = self._opened(params.session_id)
        await opened.session.cancel()
        await opened.told(opened.session.last_seq)
        self._open.pop(params.session_id, None)  # it may have been closed twice
        opened.close()
        await self._app.runtime.unload(params.session_id)
        return {}

    async def delete_session(self, params: schema.DeleteSessionRequest) -> JsonObject:
        if (opened := self._open.pop(params.session_id, None)) is not None:
            opened.close()
        elif self._parent_of(params.session_id) is not None:
            raise InvalidRequest("sessionId: a sub-agent goes with its session.", "sessionId")
        with suppress(UnknownSession):  # what is not there need not be deleted
            await self._app.runtime.delete(params.session_id)
        return {}

    # -- working ---------------------------------------------------------------------------------------------------

    async def prompt(self, params: schema.PromptRequest) -> JsonObject:
        opened = self._opened(params.session_id)
        session, since = opened.session, opened.session.cancels
        given = await to_thread.run_sync(read_prompt, params.prompt, Path(session.record.cwd))
        with anyio.move_on_after(REFRESH_GRACE, shield=True):
            await session.refresh()
        self._tell_problems(opened)
        opened.say_unsaid()
        # What is said while a turn runs waits for its end: the protocol has no other place for it.
        turn = await session.prompt(given.said, attached=given.attached, queue=True, since=since)
        self._tell_problems(opened)
        try:
            result = await outcome(session, turn, why=self._why_cancelled)
        finally:
            # However it went, and cancelled or not: the updates of the turn come before its answer.
            with anyio.CancelScope(shield=True):
                await opened.told(session.last_seq)
            self._notice(opened, session.store_problem, "warning")
        return {"stopReason": result.stop_reason, "usage": usage(result.usage)}

    async def cancel(self, params: object) -> None:
        """Ends what a session does, background agents included; of a child, what that child does."""
        session_id = parse(schema.CancelNotification, params).session_id
        if (opened := self._open.get(session_id)) is not None:
            await opened.session.cancel()
        elif (parent := self._parent_of(session_id)) is not None:
            await parent.session.cancel_agent(session_id)

    async def set_mode(self, params: schema.SetSessionModeRequest) -> JsonObject:
        session = self._opened(params.session_id).session
        options.set_mode(session, params.mode_id)
        await session.save()
        return {}

    async def set_option(self, params: schema.SetSessionConfigOptionSelectRequest) -> JsonObject:
        opened = self._opened(params.session_id)
        options.choose(opened.session, params.config_id, params.value)
        await opened.session.save()
        return {"configOptions": opened.facts.config_options()}

    # -- inside ----------------------------------------------------------------------------------------------------

    def _why_cancelled(self) -> CancelReason:
        return CancelReason.SHUTDOWN if self._peer.ending else CancelReason.USER

    async def _again(self, params: schema.LoadSessionRequest | schema.ResumeSessionRequest, *, replay: bool) -> Opened:
        """A session of before, opened for the folders and with the MCP servers that the client names."""
        session_id = params.session_id
        if self._parent_of(session_id) is not None:
            raise InvalidRequest("sessionId: this is a sub-agent; load the session that it belongs to.", "sessionId")
        _, roots = await _places(params.cwd, params.additional_directories)
        files = EditorFiles(self._peer, self._client)
        files.session_id = session_id
        record = await self._app.runtime.record(session_id)
        inside = any(Path(record.cwd).is_relative_to(root) for root in roots)
        session = await self._app.runtime.load(
            session_id, roots=roots if inside else (Path(record.cwd), *roots[1:]), buffers=files
        )
        session.editor_mcp_servers = named_servers(params.mcp_servers or ())
        return self._opens(session, replay=replay)

    def _opens(self, session: Session, *, replay: bool) -> Opened:
        if (before := self._open.pop(session.id, None)) is not None:
            before.close()
        opened = self._open[session.id] = Opened(session, self._peer, self._client, self._app.models, replay=replay)
        self._peer.tasks.start_soon(opened.run)
        return opened

    def _greet(self, opened: Opened) -> None:
        """What a client hears of a session as soon as it knows it."""
        opened.tell_facts()
        self._notice(opened, self._app.store_notice, "warning")
        self._notice(opened, self._app.notice, "info")
        self._tell_problems(opened)

    def _tell_problems(self, opened: Opened) -> None:
        for problem in opened.session.problems:
            self._notice(opened, str(problem), "warning")

    def _notice(self, opened: Opened, text: str | None, severity: str) -> None:
        """Once for each client."""
        if text and text not in self._noticed:
            self._noticed.add(text)
            opened.notice(text, severity=severity)

    def _opened(self, session_id: str) -> Opened:
        """
        Raises:
            InvalidRequest: it is a sub-agent's.
            UnknownSession: the client has no such session open.
        """
        if (opened := self._open.get(session_id)) is not None:
            return opened
        if self._parent_of(session_id) is not None:
            raise InvalidRequest("sessionId: a sub-agent can only be watched and cancelled.", "sessionId")
        raise UnknownSession(f"There is no open session {session_id}; open one, or load it.")

    def _parent_of(self, agent_id: str) -> Opened | None:
        """The session that a child belongs to."""
        return next((one for one in self._open.values() if agent_id in one.session.view.agents), None)


def _typed(model: type[M], serve: Callable[[M], Awaitable[Response | JsonObject]]) -> Handler:
    """A handler of parameters as they came."""

    async def handle(params: object) -> Response | JsonObject:
        return await serve(parse(model, params))

    return handle


async def _places(cwd: str, further: Sequence[str] | None) -> tuple[Path, tuple[Path, ...]]:
    """The folder of a session, and the roots of its files, links resolved.

    Raises:
        InvalidRequest: one of them is no folder.
    """
    folders = [await _folder(cwd, "cwd")]
    folders += [await _folder(one, f"additionalDirectories[{index}]") for index, one in enumerate(further or ())]
    return folders[0], tuple(dict.fromkeys(folders))


async def _folder(path: str, field: str) -> Path:
    given = anyio.Path(path)
    if "\0" in path or not given.is_absolute() or not await given.is_dir():
        raise InvalidRequest(f"{field}: the absolute path of a folder is needed.", field)
    return Path(await given.resolve())
