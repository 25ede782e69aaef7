"""Handlers of ``deputy/session/*``."""

from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.permission_mode import PermissionMode
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
from deputy_protocol.transcript import AgentPlan, SessionLoadResult
from deputy_server.convert.agent import agent_node_to_wire, plan_to_wire, usage_to_wire
from deputy_server.convert.event import turn_outcome_to_wire
from deputy_server.convert.permission import permission_mode_from_wire, permission_request_to_wire
from deputy_server.convert.prompt import prompt_from_wire
from deputy_server.convert.session import queued_prompts_to_wire, session_to_wire
from deputy_server.convert.transcript import entry_to_wire
from deputy_server.convert.uris import path_of
from deputy_server.export import export_text
from deputy_server.lsp.connection import Connection
from deputy_server.lsp.front_end import incoming_prompt
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
    folders = await connection.roots()
    cwd, roots = await anyio.to_thread.run_sync(_cwd_and_roots, folders, params.cwd)
    session = await connection.app.runtime.new_session(
        cwd=cwd,
        roots=roots,
        buffers=connection.shared_buffers(),
        title=params.title,
        model=params.model,
        permission_mode=permission_mode_from_wire(params.permission_mode),
        agent=params.agent,
    )
    connection.latest[cwd] = session.id
    connection.window.report_problems(session.problems)
    for notice in (connection.app.store_notice, connection.app.notice if params.model is None else None):
        if notice:
            connection.window.notice(notice)
    return session


def _cwd_and_roots(folders: tuple[Path, ...], cwd_uri: str | None) -> tuple[Path, tuple[Path, ...]]:
    """The folder and the roots of a new session. A folder outside the workspace is its only root."""
    cwd = folders[0] if folders else Path.cwd().resolve()
    if cwd_uri is not None:
        cwd = path_of(cwd_uri, "cwd")
        if not cwd.is_dir():
            raise InvalidRequest("cwd: the folder does not exist.", "cwd")
    inside = any(cwd.is_relative_to(folder) for folder in folders)
    return cwd, folders if inside else (cwd,)


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
    return SessionPromptResult(stop_reason=StopReason(result.stop_reason), usage=usage_to_wire(result.usage))


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
    return SessionExportResult(text=await anyio.to_thread.run_sync(export_text, reading, params.format))


async def set_permission_mode(connection: Connection, params: SessionSetPermissionModeParams) -> Empty:
    session = await connection.session(params.session_id)
    session.permissions.mode = PermissionMode(params.permission_mode)
    await session.keeper.save()  # a server that is killed now must not restart with a more permissive mode
    return Empty()


async def set_model(connection: Connection, params: SessionSetModelParams) -> Empty:
    session = await connection.session(params.session_id)
    session.set_model(params.model)
    await session.keeper.save()
    return Empty()


async def cancel(connection: Connection, params: SessionParams) -> CancelledResult:
    session = await connection.session(params.session_id)
    cancelled = await session.cancel()
    await connection.subscriptions.flush(session)
    return CancelledResult(cancelled=cancelled)


async def load(connection: Connection, params: SessionParams) -> Response[SessionLoadResult]:
    session = await connection.reading(params.session_id)
    earlier = connection.subscriptions.remove(session.id)
    if not isinstance(session, Session):
        return Response(_loaded(session), lambda: None)
    if connection.app.store_notice:
        connection.window.notice(connection.app.store_notice)
    feed = connection.subscriptions.add(session, after=session.log.last_seq)
    if earlier is not None and earlier.session is session:
        feed.take_over(earlier)
    return Response(_loaded(session), lambda: feed.start(connection.tasks))


def _loaded(session: Reading) -> SessionLoadResult:
    entries, last_seq = session.transcript(session.primary_id)
    nodes = session.agents()
    mode = session.permissions.mode if isinstance(session, Session) else session.record.permission_mode
    record = replace(session.record, agent_count=len(nodes), permission_mode=mode)
    plans = session.view.plans.items()
    return SessionLoadResult(
        session=session_to_wire(record),
        agents=tuple(map(agent_node_to_wire, nodes)),
        transcript=tuple(map(entry_to_wire, entries)),
        permissions=tuple(permission_request_to_wire(session.id, request) for request in session.permission_requests()),
        plans=tuple(AgentPlan(agent_id=agent_id, entries=plan_to_wire(steps)) for agent_id, steps in plans if steps),
        prompt_queue=queued_prompts_to_wire(session.queued_prompts()),
        last_turn=session.view.last_turn and turn_outcome_to_wire(session.view.last_turn),
        snapshot=None if isinstance(session, Session) else True,
        last_seq=last_seq,
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
    return SessionListResult(sessions=tuple(map(session_to_wire, page.records)), next_cursor=page.cursor)
