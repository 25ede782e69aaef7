"""Handlers of ``deputy/session/*``."""

from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.events.entries import TranscriptPage
from deputy_agents.ports.store import SessionQuery
from deputy_agents.session.session import Session
from deputy_agents.session.snapshot import Reading
from deputy_protocol.agent import CancelledResult
from deputy_protocol.base import Empty
from deputy_protocol.session import (
    SessionArchiveParams,
    SessionExportParams,
    SessionExportResult,
    SessionListParams,
    SessionListResult,
    SessionNewParams,
    SessionNewResult,
    SessionParams,
    SessionPromptParams,
    SessionPromptResult,
    SessionRenameParams,
    SessionSetModelParams,
    SessionSetPermissionModeParams,
    SessionUnqueueParams,
    SessionUnqueueResult,
    StopReason,
)
from deputy_protocol.transcript import AgentPlan, SessionLoadParams, SessionLoadResult
from deputy_server.convert.agent import agent_node_to_wire, plan_to_wire, usage_to_wire
from deputy_server.convert.event import turn_outcome_to_wire
from deputy_server.convert.model import (
    changed_effort_from_wire,
    changed_thinking_from_wire,
    effort_from_wire,
    thinking_from_wire,
)
from deputy_server.convert.permission import permission_mode_from_wire, permission_request_to_wire
from deputy_server.convert.prompt import prompt_from_wire, prompt_to_wire
from deputy_server.convert.session import queued_prompts_to_wire, session_to_wire
from deputy_server.convert.transcript import LARGE, entry_to_wire
from deputy_server.convert.uris import path_of
from deputy_server.convert.user_input import input_request_to_wire
from deputy_server.export import export_text
from deputy_server.lsp.connection import Connection
from deputy_server.lsp.front_end import incoming_prompt
from deputy_server.lsp.session_folders import NOTICE
from deputy_server.rpc.endpoint import Response

PAGE = 100
"""Sessions per page when the client gives no limit."""
MAX_PAGE = 10_000
"""Sessions per page, at most."""


async def open_session(connection: Connection, params: SessionNewParams) -> Session:
    """Open a new session, and do not subscribe to it.

    Raises:
        InvalidRequest: ``cwd`` is not a folder.
    """
    folders = connection.folders
    cwd = await folders.near(None) if params.cwd is None else await _existing_folder(params.cwd)
    session = await connection.app.runtime.new_session(
        connection.setup.settings,
        cwd=cwd,
        roots=await folders.roots_of(cwd),
        buffers=connection.shared_buffers(),
        title=params.title,
        model=params.model,
        effort=effort_from_wire(params.effort),
        thinking=thinking_from_wire(params.thinking),
        permission_mode=permission_mode_from_wire(params.permission_mode),
        agent=params.agent,
    )
    folders.latest[cwd] = session.id
    connection.window.report_problems(session.problems)
    if session.workspace.is_empty:
        connection.window.notice(NOTICE)
    for notice in (connection.app.store_notice, connection.setup.notice if params.model is None else None):
        if notice:
            connection.window.notice(notice)
    return session


async def _existing_folder(uri: str) -> Path:
    folder = await anyio.to_thread.run_sync(path_of, uri, "cwd")
    if not await anyio.Path(folder).is_dir():
        raise InvalidRequest("cwd: the folder does not exist.", "cwd")
    return folder


async def new(connection: Connection, params: SessionNewParams) -> Response[SessionNewResult]:
    session = await open_session(connection, params)
    feed = connection.subscriptions.add(session, after=0)
    result = SessionNewResult(session_id=session.id, agent_id=session.primary_id)
    return Response(result, lambda: feed.start(connection.tasks))


async def prompt(connection: Connection, params: SessionPromptParams) -> SessionPromptResult:
    session = await connection.session(params.session_id)
    feed = connection.subscriptions.add(session)
    incoming = incoming_prompt(connection, feed)
    feed.start(connection.tasks)
    turn = await incoming.accept(prompt_from_wire(params.prompt, Path(session.record.cwd)), queue=params.queue)
    feed.expect(turn, params.work_done_token)
    result = await incoming.outcome(turn)
    done = turn.command
    return SessionPromptResult(
        stop_reason=StopReason(result.stop_reason),
        usage=usage_to_wire(result.usage),
        rewound_prompt=prompt_to_wire(done.prompt) if done and done.prompt is not None else None,
        forked_session_id=done and done.forked,
    )


async def unqueue(connection: Connection, params: SessionUnqueueParams) -> SessionUnqueueResult:
    session = await connection.session(params.session_id)
    return SessionUnqueueResult(removed=session.turns.withdraw(params.prompt_id))


async def rename(connection: Connection, params: SessionRenameParams) -> Empty:
    await connection.app.runtime.rename(params.session_id, params.title)
    return Empty()


async def archive(connection: Connection, params: SessionArchiveParams) -> Empty:
    await connection.app.runtime.archive(params.session_id, params.archived)
    return Empty()


async def delete(connection: Connection, params: SessionParams) -> Empty:
    await connection.app.runtime.delete(params.session_id)
    connection.transcripts.forget(params.session_id)
    connection.subscriptions.remove(params.session_id)
    return Empty()


async def export(connection: Connection, params: SessionExportParams) -> SessionExportResult:
    reading = await connection.app.runtime.read(params.session_id)
    return SessionExportResult(text=await export_text(reading, params.format))


async def set_permission_mode(connection: Connection, params: SessionSetPermissionModeParams) -> Empty:
    session = await connection.session(params.session_id)
    session.permissions.mode = PermissionMode(params.permission_mode)
    await session.keeper.save()  # a server that is killed now must not restart with a more permissive mode
    return Empty()


async def set_model(connection: Connection, params: SessionSetModelParams) -> Empty:
    session = await connection.session(params.session_id)
    session.model_choice.change(
        params.model, changed_effort_from_wire(params.effort), changed_thinking_from_wire(params.thinking)
    )
    await session.keeper.save()
    return Empty()


async def cancel(connection: Connection, params: SessionParams) -> CancelledResult:
    session = await connection.session(params.session_id)
    cancelled = await session.cancel()
    await connection.subscriptions.flush(session)
    return CancelledResult(cancelled=cancelled)


async def load(connection: Connection, params: SessionLoadParams) -> Response[SessionLoadResult]:
    session = await connection.reading(params.session_id)
    state = _State(session)
    before = None if params.transcript_limit is None else state.last_seq + 1
    page = await session.transcript(session.primary_id, before=before, limit=params.transcript_limit)
    large = len(page.entries) + len(state.nodes) > LARGE
    result = await anyio.to_thread.run_sync(state.to_wire, page) if large else state.to_wire(page)
    result = result.model_copy(update={"prompt_queue": queued_prompts_to_wire(session.queued_prompts())})
    earlier = connection.subscriptions.remove(session.id)
    if not isinstance(session, Session):
        return Response(result, large=large)
    for notice in (connection.app.store_notice, session.turns.queue_notice):
        if notice:
            connection.window.notice(notice)
    feed = connection.subscriptions.add(session, after=state.last_seq)
    if earlier is not None and earlier.session is session:
        feed.take_over(earlier)
    return Response(result, lambda: feed.start(connection.tasks), large)


class _State:
    """A session at one moment, except for its transcript and its prompt queue."""

    def __init__(self, session: Reading) -> None:
        view = session.view
        mode = session.permissions.mode if isinstance(session, Session) else session.record.permission_mode
        self.session_id = session.id
        self.last_seq = view.last_seq
        self.nodes = session.agents()
        self.record = replace(session.record, agent_count=len(self.nodes), permission_mode=mode)
        self.requests = tuple(session.permission_requests())
        self.inputs = tuple(session.inbox.input_requests()) if isinstance(session, Session) else ()
        self.plans = tuple(view.plans.items())
        self.last_turn = view.last_turn
        self.is_snapshot = not isinstance(session, Session)

    def to_wire(self, page: TranscriptPage) -> SessionLoadResult:
        requests = self.requests
        return SessionLoadResult(
            session=session_to_wire(self.record),
            agents=tuple(map(agent_node_to_wire, self.nodes)),
            transcript=tuple(map(entry_to_wire, page.entries)),
            earlier=page.earlier or None,
            permissions=tuple(permission_request_to_wire(self.session_id, request) for request in requests),
            inputs=tuple(input_request_to_wire(self.session_id, request) for request in self.inputs),
            plans=tuple(
                AgentPlan(agent_id=agent_id, entries=plan_to_wire(steps)) for agent_id, steps in self.plans if steps
            ),
            prompt_queue=(),
            last_turn=self.last_turn and turn_outcome_to_wire(self.last_turn),
            snapshot=self.is_snapshot or None,
            last_seq=self.last_seq,
        )


async def unload(connection: Connection, params: SessionParams) -> Empty:
    await connection.app.runtime.record(params.session_id)  # raises for an unknown session
    connection.subscriptions.remove(params.session_id)
    connection.transcripts.forget(params.session_id)
    await connection.app.runtime.unload(params.session_id)
    return Empty()


async def list_sessions(connection: Connection, params: SessionListParams) -> SessionListResult:
    path = None if params.cwd is None else await anyio.to_thread.run_sync(path_of, params.cwd, "cwd")
    query = SessionQuery(
        cwd=None if path is None else str(path),
        children=params.include_children,
        archived=params.include_archived,
        cursor=params.cursor,
        limit=min(params.limit or PAGE, MAX_PAGE),
    )
    page = await connection.app.runtime.sessions(query)
    return SessionListResult(
        sessions=tuple(map(session_to_wire, page.records)),
        next_cursor=page.cursor,
        problem=connection.app.store_notice,
    )
