"""Handlers of the commands ``deputy.review.*``."""

from pathlib import Path

from anyio import to_thread

from deputy_agents.domain.errors import InvalidRequest, StoreError
from deputy_agents.review.reviewed_file import ReviewedFile
from deputy_agents.session.review import Reviewed, Selection
from deputy_agents.session.session import Session
from deputy_agents.text import visible
from deputy_protocol.command import (
    ReviewAllArgument,
    ReviewHunksArgument,
    ReviewPlaceArgument,
    ReviewPlaceResult,
    ReviewSessionArgument,
)
from deputy_protocol.review import ReviewListResult, ReviewResult, ReviewTotals
from deputy_server.convert.review import files_to_wire, lines_range, path_from_wire, reviewed_to_wire
from deputy_server.convert.uris import uri_of
from deputy_server.lsp.connection import Connection

_MAX_FILES = 20
"""Files that a message lists."""


async def following(connection: Connection, argument: ReviewPlaceArgument) -> ReviewPlaceResult:
    return await _move(connection, argument, forward=True)


async def preceding(connection: Connection, argument: ReviewPlaceArgument) -> ReviewPlaceResult:
    return await _move(connection, argument, forward=False)


async def _move(connection: Connection, argument: ReviewPlaceArgument, *, forward: bool) -> ReviewPlaceResult:
    """Show the nearest hunk after or before a line. After the last one comes the first one."""
    path = await to_thread.run_sync(path_from_wire, argument.uri)
    here = (path or "", argument.line if path else -1)
    places: list[tuple[tuple[str, int], str, str, int]] = []
    for session in connection.app.runtime.live():
        for one in (await _files(session))[0]:
            places += (((one.path, hunk.start), session.id, hunk.hunk_id, len(hunk.lines)) for hunk in one.hunks)
    places.sort(reverse=not forward)
    beyond = [place for place in places if (place[0] > here if forward else place[0] < here)]
    if not places:
        if not connection.client.events:
            connection.window.show("There are no changes to review.")
        return ReviewPlaceResult()
    (found, start), session_id, hunk_id, count = (beyond or places)[0]
    span = lines_range(start, start + count)
    await connection.window.open_document(Path(found), focus=True, selection=lines_range(start, start))
    return ReviewPlaceResult(session_id=session_id, hunk_id=hunk_id, uri=uri_of(found), range=span)


async def keep(connection: Connection, argument: ReviewHunksArgument) -> ReviewResult:
    session = await connection.session(argument.session_id)
    return _shown(connection, session, await session.review.keep(Selection(hunk_ids=argument.hunk_ids)))


async def undo(connection: Connection, argument: ReviewHunksArgument) -> ReviewResult:
    session = await connection.session(argument.session_id)
    return _shown(connection, session, await session.review.undo(Selection(hunk_ids=argument.hunk_ids)))


async def keep_all(connection: Connection, argument: ReviewAllArgument) -> ReviewResult:
    selection = await to_thread.run_sync(_selection, argument)
    session = await connection.session(argument.session_id)
    return _shown(connection, session, await session.review.keep(selection))


async def undo_all(connection: Connection, argument: ReviewAllArgument) -> ReviewResult:
    selection = await to_thread.run_sync(_selection, argument)
    session = await connection.session(argument.session_id)
    return _shown(connection, session, await session.review.undo(selection))


def _selection(argument: ReviewAllArgument) -> Selection:
    given = {"uri": argument.uri, "agentId": argument.agent_id, "turnId": argument.turn_id}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise InvalidRequest(f"{names[-1]}: give at most one of uri, agentId and turnId.", names[-1])
    return Selection(
        path=path_from_wire(argument.uri),
        agent_ids=None if argument.agent_id is None else frozenset((argument.agent_id,)),
        turn_id=argument.turn_id,
        all=not names,
    )


async def list_hunks(connection: Connection, argument: ReviewSessionArgument) -> ReviewListResult:
    for session in reversed(await connection.sessions(argument.session_id)):
        files, notes = await _files(session)
        if files or argument.session_id is not None:
            result = files_to_wire(files, notes, session.review.changes.label)
            if not connection.client.events:
                names = [f"{_name(session, one.path)}: {_count(len(one.hunks))}" for one in files[:_MAX_FILES]]
                connection.window.show("\n".join([*(names or ["There are no changes to review."]), *notes]))
            return result
    if not connection.client.events:
        connection.window.show("There are no changes to review.")
    return ReviewListResult(files=(), totals=ReviewTotals(files=0, hunks=0, added=0, removed=0))


async def _files(session: Session) -> tuple[list[ReviewedFile], list[str]]:
    try:
        return await session.review.unreviewed_files()
    except StoreError as error:
        return [], [str(error)]


def _shown(connection: Connection, session: Session, result: Reviewed) -> ReviewResult:
    """The result, of which a client without a plugin gets the conflicts as a message."""
    if result.conflicts and not connection.client.events:
        lines = dict.fromkeys(f"{_name(session, one.path)}: {one.reason}" for one in result.conflicts)
        connection.window.show("\n".join(["Not changed:", *lines]))
    return reviewed_to_wire(result)


def _name(session: Session, path: str) -> str:
    cwd = Path(session.record.cwd)
    return visible(str(Path(path).relative_to(cwd) if Path(path).is_relative_to(cwd) else path))


def _count(hunks: int) -> str:
    return f"{hunks} change{'s' if hunks != 1 else ''}"
