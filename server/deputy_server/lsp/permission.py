"""Handlers of ``deputy/permission/*``."""

from deputy_agents.errors import InvalidRequest
from deputy_protocol.permission import (
    PermissionAnswerParams,
    PermissionAnswerResult,
    PermissionListParams,
    PermissionListResult,
)
from deputy_server import convert
from deputy_server.lsp.connection import Connection


async def list_questions(connection: Connection, params: PermissionListParams) -> PermissionListResult:
    return PermissionListResult(
        requests=tuple(
            convert.permission_request(session.id, question)
            for session in connection.sessions(params.session_id)
            for question in session.questions()
        )
    )


async def answer(connection: Connection, params: PermissionAnswerParams) -> PermissionAnswerResult:
    """Answers a question of any session: the id alone says which."""
    for session in connection.sessions(None):
        try:
            return PermissionAnswerResult(accepted=session.answer(params.request_id, convert.answer(params.outcome)))
        except InvalidRequest as error:
            if error.field != "requestId":
                raise
    raise InvalidRequest("requestId: there is no such question.", "requestId")
