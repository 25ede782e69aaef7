"""Handlers of ``deputy/process/*``: commands in the background."""

from deputy_protocol.process import ProcessListResult, ProcessStopParams, ProcessStopResult
from deputy_protocol.session import SessionParams
from deputy_server.convert.process import process_to_wire
from deputy_server.lsp.connection import Connection


async def list_processes(connection: Connection, params: SessionParams) -> ProcessListResult:
    session = connection.app.runtime.session(params.session_id)
    return ProcessListResult(processes=tuple(map(process_to_wire, session.background_processes.list())))


async def stop_process(connection: Connection, params: ProcessStopParams) -> ProcessStopResult:
    session = connection.app.runtime.session(params.session_id)
    return ProcessStopResult(stopped=await session.background_processes.stop(params.process_id))
