"""Handlers of ``deputy/permission/*`` and ``deputy/rule/*``."""

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.ports.permission import PermissionAnswer, Selected
from deputy_agents.session.session import Session
from deputy_protocol.permission import (
    PermissionAnswerManyParams,
    PermissionAnswerManyResult,
    PermissionAnswerParams,
    PermissionAnswerResult,
    PermissionListParams,
    PermissionListResult,
)
from deputy_protocol.rule import RuleListParams, RuleListResult, RuleRemoveParams
from deputy_server.convert.permission import permission_answer, permission_request_to_wire, rule_to_wire
from deputy_server.lsp.connection import Connection


async def list_questions(connection: Connection, params: PermissionListParams) -> PermissionListResult:
    return PermissionListResult(
        requests=tuple(
            permission_request_to_wire(session.id, request)
            for session in await connection.sessions(params.session_id)
            for request in session.permission_requests()
        )
    )


async def answer(connection: Connection, params: PermissionAnswerParams) -> PermissionAnswerResult:
    """Answers a question of any session: the id alone says which."""
    chosen = permission_answer(params.outcome)
    session = _asker(connection, params.request_id, chosen)
    return PermissionAnswerResult(accepted=session.answer(params.request_id, chosen))


async def answer_many(connection: Connection, params: PermissionAnswerManyParams) -> PermissionAnswerManyResult:
    """Answers the questions that are named, and no other; none at all, unless the answer fits every one."""
    chosen = permission_answer(params.outcome)
    if isinstance(chosen, Selected) and chosen.input is not None and len(params.request_ids) > 1:
        raise InvalidRequest("outcome.input: a changed input is the answer to one question.", "outcome.input")
    askers = {
        request_id: _asker(connection, request_id, chosen, f"requestIds[{index}]")
        for index, request_id in enumerate(params.request_ids)
    }
    accepted = (request_id for request_id, session in askers.items() if session.answer(request_id, chosen))
    return PermissionAnswerManyResult(accepted=tuple(accepted))


def _asker(connection: Connection, request_id: str, chosen: PermissionAnswer, field: str = "requestId") -> Session:
    """The session that asks a question, when ``chosen`` is an answer to it; ``field`` is where its id stands.

    Raises:
        InvalidRequest: no such question, or no such option of it.
    """
    for session in connection.app.runtime.live():
        try:
            session.inbox.resolution(request_id, chosen)
        except InvalidRequest as error:
            if error.field != "requestId":
                raise
        else:
            return session
    raise InvalidRequest(f"{field}: there is no such question.", field)


async def list_rules(connection: Connection, params: RuleListParams) -> RuleListResult:
    return _rules(await connection.session(params.session_id))


async def remove_rule(connection: Connection, params: RuleRemoveParams) -> RuleListResult:
    session = await connection.session(params.session_id)
    session.forget(params.rule_id)
    return _rules(session)


def _rules(session: Session) -> RuleListResult:
    return RuleListResult(rules=tuple(map(rule_to_wire, session.rules())))
