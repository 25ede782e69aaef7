"""Handlers of ``deputy/context/*``."""

from deputy_protocol.context import (
    CompleteParams,
    CompleteResult,
    ContextListResult,
    ContextUsageParams,
    ContextUsageResult,
    SessionCompactParams,
    SessionCompactResult,
)
from deputy_protocol.session import SessionParams
from deputy_server.convert.context import completions_to_wire, context_to_wire, usage_to_wire
from deputy_server.lsp.connection import Connection


async def list_context(connection: Connection, params: SessionParams) -> ContextListResult:
    session = connection.app.runtime.session(params.session_id)
    await connection.refresh(session)
    return context_to_wire(session)


async def complete(connection: Connection, params: CompleteParams) -> CompleteResult:
    session = connection.app.runtime.session(params.session_id)
    return completions_to_wire(await session.complete(params.text))


async def usage(connection: Connection, params: ContextUsageParams) -> ContextUsageResult:
    session = await connection.session(params.session_id)
    return usage_to_wire(await session.prompts.builtin.context.usage(params.agent_id))


async def compact(connection: Connection, params: SessionCompactParams) -> SessionCompactResult:
    session = await connection.session(params.session_id)
    sizes = await session.prompts.builtin.compact(params.keep or "")
    await connection.subscriptions.flush(session)
    return SessionCompactResult(before=sizes.before, after=sizes.after)
