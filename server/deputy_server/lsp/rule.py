"""Handlers of ``deputy/rule/*``."""

from deputy_agents.session.session import Session
from deputy_protocol.rule import RuleListParams, RuleListResult, RuleRemoveParams
from deputy_server.convert.rule import rule_to_wire
from deputy_server.lsp.connection import Connection


async def list_rules(connection: Connection, params: RuleListParams) -> RuleListResult:
    return _rules(await connection.session(params.session_id))


async def remove_rule(connection: Connection, params: RuleRemoveParams) -> RuleListResult:
    session = await connection.session(params.session_id)
    session.permissions.forget(params.rule_id)
    return _rules(session)


def _rules(session: Session) -> RuleListResult:
    return RuleListResult(rules=tuple(map(rule_to_wire, session.permissions.rules())))
