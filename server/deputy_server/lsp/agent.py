"""Handlers of ``deputy/agent/*``."""

from deputy_protocol.agent import (
    AgentListResult,
    AgentMessageParams,
    AgentMessageResult,
    AgentParams,
    AgentRevertParams,
    AgentRevertResult,
    CancelledResult,
)
from deputy_protocol.session import SessionParams
from deputy_protocol.transcript import (
    AgentOutputParams,
    AgentOutputResult,
    AgentTranscriptParams,
    AgentTranscriptResult,
)
from deputy_server.convert.agent import agent_node_to_wire, revert_to_wire
from deputy_server.convert.transcript import LARGE, entries_to_wire
from deputy_server.lsp.connection import Connection
from deputy_server.rpc.endpoint import Response

_READ_AGAIN = 3
"""How often a transcript is read again when the session has changed meanwhile: clients may have received later events
before the response."""


async def list_agents(connection: Connection, params: SessionParams) -> AgentListResult:
    nodes = (await connection.reading(params.session_id)).agents()
    return AgentListResult(agents=tuple(map(agent_node_to_wire, nodes)))


async def transcript(connection: Connection, params: AgentTranscriptParams) -> Response[AgentTranscriptResult]:
    session = await connection.reading(params.session_id)
    wanted = (params.agent_id, params.after, params.before, params.limit)
    page = await session.transcript(*wanted)
    for _ in range(_READ_AGAIN):
        if page.last_seq == session.view.last_seq:
            break
        page = await session.transcript(*wanted)
    result = AgentTranscriptResult(
        entries=await entries_to_wire(page.entries), last_seq=page.last_seq, earlier=page.earlier or None
    )
    return Response(result, large=len(page.entries) > LARGE)


async def output(connection: Connection, params: AgentOutputParams) -> AgentOutputResult:
    text = await connection.app.runtime.output(params.session_id, params.agent_id, params.tool_call_id)
    return AgentOutputResult(text=text[params.offset : params.offset + params.limit], size=len(text))


async def cancel(connection: Connection, params: AgentParams) -> CancelledResult:
    session = await connection.session(params.session_id)
    cancelled = await session.cancel_agent(params.agent_id)
    await connection.subscriptions.flush(session)
    return CancelledResult(cancelled=cancelled)


async def revert(connection: Connection, params: AgentRevertParams) -> AgentRevertResult:
    session = await connection.session(params.session_id)
    reverted = await session.revert(params.agent_id, include_children=params.include_children)
    return revert_to_wire(reverted)


async def message(connection: Connection, params: AgentMessageParams) -> AgentMessageResult:
    session = await connection.session(params.session_id)
    session.steer(params.agent_id, params.text)
    await session.log.flush()  # the response promises that the message is not lost
    return AgentMessageResult(queued=True)
