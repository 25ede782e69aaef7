"""Handlers of ``deputy/review/*``."""

from anyio import to_thread

from deputy_agents.domain.errors import InvalidRequest, StoreError, ToolError, UnknownAgent
from deputy_agents.domain.event import ToolCallStarted
from deputy_agents.review.tracked import ChangeInfo
from deputy_agents.session.review import Selection
from deputy_agents.session.session import Session
from deputy_protocol.review import (
    BlameEntry,
    ReviewBaseParams,
    ReviewBaseResult,
    ReviewBlameParams,
    ReviewBlameResult,
    ReviewListParams,
    ReviewListResult,
    ReviewParams,
    ReviewResult,
)
from deputy_server.convert.review import (
    blame_to_wire,
    files_to_wire,
    path_from_wire,
    reviewed_to_wire,
    selection_from_wire,
)
from deputy_server.lsp.connection import Connection
from deputy_server.rpc.endpoint import Response

_LARGE = 200
"""Hunks of a result that is encoded in a thread."""


async def list_hunks(connection: Connection, params: ReviewListParams) -> Response[ReviewListResult]:
    session = await connection.session(params.session_id)
    path = await to_thread.run_sync(path_from_wire, params.uri)
    agent_ids = None if params.agent_id is None else {params.agent_id}
    files, notes = await session.review.unreviewed_files(path, agent_ids, params.turn_id)
    result = files_to_wire(files, notes, session.review.changes.label)
    return Response(result, large=result.totals.hunks > _LARGE)


async def base(connection: Connection, params: ReviewBaseParams) -> ReviewBaseResult:
    session = await connection.session(params.session_id)
    path = await to_thread.run_sync(path_from_wire, params.uri)
    try:
        return ReviewBaseResult(text=await session.review.base(path or ""))
    except ToolError as error:
        raise InvalidRequest(f"uri: {error}", "uri") from None


async def keep(connection: Connection, params: ReviewParams) -> ReviewResult:
    session, selection = await _selected(connection, params)
    return reviewed_to_wire(await session.review.keep(selection))


async def undo(connection: Connection, params: ReviewParams) -> ReviewResult:
    session, selection = await _selected(connection, params)
    return reviewed_to_wire(await session.review.undo(selection))


async def _selected(connection: Connection, params: ReviewParams) -> tuple[Session, Selection]:
    selection = await to_thread.run_sync(selection_from_wire, params)
    session = await connection.session(params.session_id)
    if params.agent_id is not None and params.agent_id not in session.view.agents:
        raise UnknownAgent(f"This session has no agent {params.agent_id}.")
    return session, selection


async def blame(connection: Connection, params: ReviewBlameParams) -> ReviewBlameResult:
    path = await to_thread.run_sync(path_from_wire, params.uri)
    entries = [entry for session in connection.app.runtime.live() for entry in await _blame(session, path, params)]
    return ReviewBlameResult(entries=tuple(sorted(entries, key=lambda entry: entry.time, reverse=True)))


async def _blame(session: Session, path: str | None, params: ReviewBlameParams) -> list[BlameEntry]:
    found: list[BlameEntry] = []
    for one in await session.review.blame(path or "", params.line):
        node = session.view.agents.get(one.info.agent_id)
        title = await title_of(session, one.info)
        found.append(blame_to_wire(one, session.id, node, title))
    return found


async def title_of(session: Session, info: ChangeInfo) -> str:
    """The title of the tool call that made a change; empty if it is not known."""
    seq = session.view.transcripts.call(info.agent_id, info.tool_call_id, info.run)
    if seq is None:
        return ""
    try:
        event = (await session.log.read_at([seq])).get(seq)
    except StoreError:
        return ""
    return event.body.title if event is not None and isinstance(event.body, ToolCallStarted) else ""
