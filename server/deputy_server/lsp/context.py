"""Handlers of ``deputy/context/*``."""

from deputy_protocol.context import CompleteParams, CompleteResult, ContextListResult
from deputy_protocol.session import SessionParams
from deputy_server.convert.context import completions_to_wire, context_to_wire
from deputy_server.lsp.connection import Connection


async def list_context(connection: Connection, params: SessionParams) -> ContextListResult:
    session = connection.app.runtime.session(params.session_id)
    await connection.refresh(session)
    return context_to_wire(session)


async def complete(connection: Connection, params: CompleteParams) -> CompleteResult:
    session = connection.app.runtime.session(params.session_id)
    return completions_to_wire(await session.complete(params.text))
