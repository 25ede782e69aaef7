"""The commands of ``workspace/executeCommand``: how a client without any plugin drives Deputy."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import anyio.to_thread

from deputy_agents.domain.errors import StoreError, UnknownSession
from deputy_agents.domain.event import MessageAdded
from deputy_agents.domain.message import Text
from deputy_agents.domain.turn import Turn
from deputy_agents.session.change_tracker import Reverted
from deputy_agents.session.session import Session
from deputy_agents.text import cut, visible
from deputy_protocol.agent import AgentListResult, AgentRevertResult, CancelledResult
from deputy_protocol.command import (
    AgentArgument,
    AnswerPermissionArgument,
    DismissFindingResult,
    FindingArgument,
    ListAgentsArgument,
    OpenTranscriptResult,
    PromptArgument,
)
from deputy_protocol.permission import PermissionAnswerParams, PermissionAnswerResult, SelectedOutcome
from deputy_protocol.session import SessionNewParams, SessionNewResult
from deputy_server.convert.agent import agent_node_to_wire, revert_to_wire
from deputy_server.convert.place import place_text
from deputy_server.convert.uris import path_of
from deputy_server.lsp import permission
from deputy_server.lsp import session as sessions
from deputy_server.lsp.connection import Connection
from deputy_server.lsp.protocol import Response

_SHOWN = 2000
"""Characters of an answer that a message shows."""

_ERROR = 1


async def prompt(connection: Connection, argument: PromptArgument) -> Response[SessionNewResult]:
    """Starts a turn and answers at once."""
    session, fresh = await _session(connection, argument)
    since = session.cancels
    feed = connection.subscribe(session, after=0 if fresh else None)
    words = argument.text
    if argument.uri is not None:
        place = place_text(argument.uri, argument.range, Path(session.record.cwd))
        words = f"{words}\n\n(about {place})"
    await connection.refresh(session)
    connection.lead(session)
    turn = await session.prompt((Text(words),), queue=argument.queue, origin="command", since=since)
    connection.report_problems(session.problems)
    feed.expect(turn, None)
    if not connection.client.events:
        connection.tasks.start_soon(_show_turn, connection, session, turn)
    result = SessionNewResult(session_id=session.id, agent_id=session.primary_id)
    return Response(result, lambda: feed.start(connection.tasks))


async def _session(connection: Connection, argument: PromptArgument) -> tuple[Session, bool]:
    """The session that is meant, and whether it is new."""
    if argument.session_id is not None:
        return await connection.session(argument.session_id), False
    folder = await anyio.to_thread.run_sync(_folder, await connection.roots(), argument.uri)
    if (latest := connection.latest.get(folder)) is not None:
        with suppress(UnknownSession):  # it may have been deleted
            return await connection.session(latest), False
    return await sessions.open_session(connection, SessionNewParams(cwd=folder.as_uri())), True


def _folder(roots: Sequence[Path], uri: str | None) -> Path:
    """The workspace folder that ``uri`` is in, else the first one."""
    path = None if uri is None or not uri.startswith("file:") else path_of(uri, "uri")
    inside = (root for root in roots if path is not None and path.is_relative_to(root))
    return next(inside, roots[0] if roots else Path.cwd().resolve())


async def _show_turn(connection: Connection, session: Session, turn: Turn) -> None:
    """Shows a client that takes no events how the turn goes, in a document, or else how it ended."""
    where = ""
    shown = False
    try:
        path = await connection.transcripts.open(session, session.primary_id)
        where = f"\n\nThe whole thread: {path}"
        shown = connection.documents.at(path) is not None or await connection.open_document(path, focus=False)
    except StoreError as error:
        connection.notice(str(error))
    result = await turn.result()
    await connection.flush(session)
    if result.error is not None:
        connection.show(f"{result.error.message} {result.error.action}".strip(), _ERROR)
    elif not shown and (answer := _answer(session)):
        await connection.transcripts.flush(session)
        connection.show(cut(answer, _SHOWN) + where)


def _answer(session: Session) -> str:
    entries, _ = session.transcript(session.primary_id)
    last = next((line.body for line in reversed(entries) if isinstance(line.body, MessageAdded)), None)
    return last.text if last is not None and last.role == "assistant" else ""


async def open_transcript(connection: Connection, argument: AgentArgument) -> OpenTranscriptResult:
    reading = await connection.reading_of(argument.agent_id)
    path = await connection.transcripts.open(reading, argument.agent_id)
    if not await connection.open_document(path, focus=True) and not connection.client.events:
        connection.show(f"The thread is in {path}")
    return OpenTranscriptResult(uri=path.as_uri())


async def cancel_agent(connection: Connection, argument: AgentArgument) -> CancelledResult:
    session = connection.app.runtime.find_agent(argument.agent_id)
    cancelled = await session.cancel_agent(argument.agent_id)
    await connection.flush(session)
    return CancelledResult(cancelled=cancelled)


async def revert_agent(connection: Connection, argument: AgentArgument) -> AgentRevertResult:
    session = connection.app.runtime.find_agent(argument.agent_id)
    reverted = await session.revert(argument.agent_id)
    if not connection.client.events:
        connection.show(_revert_words(reverted, Path(session.record.cwd)))
    return revert_to_wire(reverted)


def _revert_words(reverted: Reverted, cwd: Path) -> str:
    """What became of each file, for a client that shows nothing by itself."""

    def named(path: str) -> str:
        return visible(str(Path(path).relative_to(cwd) if Path(path).is_relative_to(cwd) else path))

    if not reverted.files and not reverted.conflicts:
        return "There are no edits of this agent to take back."
    lines = [f"Taken back: {', '.join(map(named, reverted.files))}"] if reverted.files else []
    return "\n".join([*lines, *(f"Left alone: {named(path)}. {reason}" for path, reason in reverted.conflicts)])


async def list_agents(connection: Connection, argument: ListAgentsArgument) -> AgentListResult:
    nodes = [node for session in await connection.sessions(argument.session_id) for node in session.agents()]
    nodes.sort(key=lambda node: (node.started_at, node.info.agent_id))
    return AgentListResult(agents=tuple(map(agent_node_to_wire, nodes)))


async def answer_permission(connection: Connection, argument: AnswerPermissionArgument) -> PermissionAnswerResult:
    outcome = SelectedOutcome(option_id=argument.option_id)
    return await permission.answer(connection, PermissionAnswerParams(request_id=argument.request_id, outcome=outcome))


async def dismiss_finding(connection: Connection, argument: FindingArgument) -> DismissFindingResult:
    return DismissFindingResult(dismissed=connection.findings.dismiss(argument.finding_id))
