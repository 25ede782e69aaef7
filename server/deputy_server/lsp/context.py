"""Handlers of ``deputy/context/list`` and ``deputy/context/complete``."""

from deputy_protocol.context import CompleteParams, CompleteResult, ContextListResult
from deputy_protocol.session import SessionParams
from deputy_server.convert import context
from deputy_server.lsp.connection import Connection


async def list_context(connection: Connection, params: SessionParams) -> ContextListResult:
    session = connection.app.runtime.session(params.session_id)
    await connection.refresh(session)
    return context.listed(session)


async def complete(connection: Connection, params: CompleteParams) -> CompleteResult:
    session = connection.app.runtime.session(params.session_id)
    return context.completions(await session.complete(params.text))
