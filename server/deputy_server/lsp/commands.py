"""Handlers of the commands of ``workspace/executeCommand``: how a client without a plugin uses Deputy."""

from contextlib import suppress
from pathlib import Path

from lsprotocol.types import MessageType

from deputy_agents.domain.errors import StoreError, UnknownSession
from deputy_agents.domain.message import Text
from deputy_agents.domain.turn import Turn
from deputy_agents.events.entries import read_message
from deputy_agents.session.review import Reverted
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
from deputy_server.lsp import permission
from deputy_server.lsp import session as sessions
from deputy_server.lsp.connection import Connection
from deputy_server.lsp.front_end import incoming_prompt
from deputy_server.rpc.endpoint import Response

_MAX_SHOWN = 2000
"""Characters of an answer that a message shows."""


async def prompt(connection: Connection, argument: PromptArgument) -> Response[SessionNewResult]:
    """Start a turn and respond at once."""
    session, is_new = await _session(connection, argument)
    feed = connection.subscriptions.add(session, after=0 if is_new else None)
    incoming = incoming_prompt(connection, feed)
    text = argument.text
    if argument.uri is not None:
        place = place_text(argument.uri, argument.range, Path(session.record.cwd))
        text = f"{text}\n\n(about {place})"
    turn = await incoming.accept((Text(text),), queue=argument.queue, origin="command")
    await session.log.flush()  # the response promises that the prompt is not lost
    feed.expect(turn, None)
    if not connection.client.events:
        connection.tasks.start_soon(_show_turn, connection, session, turn)
    result = SessionNewResult(session_id=session.id, agent_id=session.primary_id)
    return Response(result, lambda: feed.start(connection.tasks))


async def _session(connection: Connection, argument: PromptArgument) -> tuple[Session, bool]:
    """The session for a prompt, and whether it is new."""
    if argument.session_id is not None:
        return await connection.session(argument.session_id), False
    folder = await connection.folders.near(argument.uri)
    if (latest := connection.folders.latest.get(folder)) is not None:
        with suppress(UnknownSession):  # deleted meanwhile
            return await connection.session(latest), False
    return await sessions.open_session(connection, SessionNewParams(cwd=folder.as_uri())), True


async def _show_turn(connection: Connection, session: Session, turn: Turn) -> None:
    """Show the turn to a client without events: in a transcript document, else its answer in a message."""
    window = connection.window
    location = ""
    shown = False
    try:
        path = await connection.transcripts.open(session, session.primary_id)
        location = f"\n\nFull transcript: {path}"
        shown = connection.documents.at(path) is not None or await window.open_document(path, focus=False)
    except StoreError as error:
        window.notice(str(error))
    result = await turn.result()
    await connection.subscriptions.flush(session)
    if result.error is not None:
        window.show(f"{result.error.message} {result.error.action}".strip(), MessageType.Error)
    elif not shown and (answer := await _answer(session)):
        await connection.transcripts.flush(session)
        window.show(cut(answer, _MAX_SHOWN) + location)


async def _answer(session: Session) -> str:
    seq = session.view.transcripts.last_messages.get(session.primary_id)
    last = await read_message(session.view, session.log.read_at, seq)
    return last.text if last is not None and last.role == "assistant" else ""


async def open_transcript(connection: Connection, argument: AgentArgument) -> OpenTranscriptResult:
    reading = await connection.reading_of(argument.agent_id)
    path = await connection.transcripts.open(reading, argument.agent_id)
    if not await connection.window.open_document(path, focus=True) and not connection.client.events:
        connection.window.show(f"The transcript is in {path}")
    return OpenTranscriptResult(uri=path.as_uri())


async def cancel_agent(connection: Connection, argument: AgentArgument) -> CancelledResult:
    session = connection.app.runtime.find_agent(argument.agent_id)
    cancelled = await session.cancel_agent(argument.agent_id)
    await connection.subscriptions.flush(session)
    return CancelledResult(cancelled=cancelled)


async def revert_agent(connection: Connection, argument: AgentArgument) -> AgentRevertResult:
    session = connection.app.runtime.find_agent(argument.agent_id)
    reverted = await session.revert(argument.agent_id)
    if not connection.client.events:
        connection.window.show(_revert_message(reverted, Path(session.record.cwd)))
    return revert_to_wire(reverted)


def _revert_message(reverted: Reverted, cwd: Path) -> str:
    """The result for each file, for a client that does not show it itself."""

    def name(path: str) -> str:
        return visible(str(Path(path).relative_to(cwd) if Path(path).is_relative_to(cwd) else path))

    if not reverted.files and not reverted.conflicts:
        return "This agent has no edits to revert."
    lines = [f"Reverted: {', '.join(map(name, reverted.files))}"] if reverted.files else []
    return "\n".join([*lines, *(f"Not reverted: {name(path)}. {reason}" for path, reason in reverted.conflicts)])


async def list_agents(connection: Connection, argument: ListAgentsArgument) -> AgentListResult:
    nodes = [node for session in await connection.sessions(argument.session_id) for node in session.agents()]
    nodes.sort(key=lambda node: (node.started_at, node.info.agent_id))
    return AgentListResult(agents=tuple(map(agent_node_to_wire, nodes)))


async def answer_permission(connection: Connection, argument: AnswerPermissionArgument) -> PermissionAnswerResult:
    outcome = SelectedOutcome(option_id=argument.option_id)
    return await permission.answer(connection, PermissionAnswerParams(request_id=argument.request_id, outcome=outcome))


async def dismiss_finding(connection: Connection, argument: FindingArgument) -> DismissFindingResult:
    return DismissFindingResult(dismissed=connection.findings.dismiss(argument.finding_id))
