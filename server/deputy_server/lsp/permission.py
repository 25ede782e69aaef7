"""Handlers of ``deputy/permission/*`` and ``deputy/input/*``."""

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.ports.permission import Selected
from deputy_agents.session.session import Session
from deputy_protocol.permission import (
    PermissionAnswerManyParams,
    PermissionAnswerManyResult,
    PermissionAnswerParams,
    PermissionAnswerResult,
    PermissionApproveEditsParams,
    PermissionListParams,
    PermissionListResult,
    PermissionPreviewParams,
    PermissionPreviewResult,
)
from deputy_protocol.user_input import InputAnswerParams, InputAnswerResult
from deputy_server.convert.permission import answer_from_wire, permission_request_to_wire, preview_to_wire
from deputy_server.convert.user_input import input_answer_from_wire, input_request_to_wire
from deputy_server.lsp.connection import Connection
from deputy_server.rpc.endpoint import Response


async def list_requests(connection: Connection, params: PermissionListParams) -> PermissionListResult:
    sessions = await connection.sessions(params.session_id)
    return PermissionListResult(
        requests=tuple(
            permission_request_to_wire(session.id, request)
            for session in sessions
            for request in session.permission_requests()
        ),
        inputs=tuple(
            input_request_to_wire(session.id, request)
            for session in sessions
            for request in session.inbox.input_requests()
        ),
    )


async def preview(connection: Connection, params: PermissionPreviewParams) -> Response[PermissionPreviewResult]:
    session = _session_of(connection, params.request_id, "requestId")
    complete = session.inbox.complete_preview(params.request_id)
    return Response(PermissionPreviewResult(preview=complete and preview_to_wire(complete)), large=True)


async def answer(connection: Connection, params: PermissionAnswerParams) -> PermissionAnswerResult:
    """Answer a permission request of any open session."""
    session = _session_of(connection, params.request_id, "requestId")
    return PermissionAnswerResult(accepted=session.inbox.answer(params.request_id, answer_from_wire(params.outcome)))


async def answer_many(connection: Connection, params: PermissionAnswerManyParams) -> PermissionAnswerManyResult:
    """Answer the named permission requests, or none of them unless the answer is valid for every one."""
    chosen = answer_from_wire(params.outcome)
    if isinstance(chosen, Selected) and chosen.input is not None and len(params.request_ids) > 1:
        raise InvalidRequest("outcome.input: a changed input can answer only one request.", "outcome.input")
    sessions = {
        request_id: _session_of(connection, request_id, f"requestIds[{index}]")
        for index, request_id in enumerate(params.request_ids)
    }
    for request_id, session in sessions.items():
        session.inbox.outcome_of(request_id, chosen)
    accepted = (request_id for request_id, session in sessions.items() if session.inbox.answer(request_id, chosen))
    return PermissionAnswerManyResult(accepted=tuple(accepted))


async def answer_input(connection: Connection, params: InputAnswerParams) -> InputAnswerResult:
    """Answer an input request of any open session."""
    session = connection.app.runtime.find_input_request(params.request_id)
    return InputAnswerResult(accepted=session.inbox.answer_input(params.request_id, input_answer_from_wire(params)))


async def approve_edits(connection: Connection, params: PermissionApproveEditsParams) -> PermissionAnswerManyResult:
    session = _session_of(connection, params.request_id, "requestId")
    return PermissionAnswerManyResult(accepted=tuple(session.inbox.approve_edits(params.request_id)))


def _session_of(connection: Connection, request_id: str, field: str) -> Session:
    try:
        return connection.app.runtime.find_permission_request(request_id)
    except InvalidRequest as error:
        raise InvalidRequest(f"{field}: {error}", field) from None
