"""Handlers of ``deputy/rule/*``."""

from deputy_agents.session.session import Session
from deputy_protocol.rule import RuleListParams, RuleListResult, RuleRemoveParams
from deputy_server.convert.rule import rule_to_wire
from deputy_server.lsp.connection import Connection


async def list_rules(connection: Connection, params: RuleListParams) -> RuleListResult:
    return _rules(await connection.session(params.session_id))


async def remove_rule(connection: Connection, params: RuleRemoveParams) -> RuleListResult:
    session = await connection.session(params.session_id)
    if params.saved:
        await session.permissions.forget_saved(params.rule_id)
    else:
        session.permissions.forget(params.rule_id)
    return _rules(session)


def _rules(session: Session) -> RuleListResult:
    permissions = session.permissions
    return RuleListResult(
        rules=tuple(rule_to_wire(rule, saved=permissions.is_saved(rule)) for rule in permissions.rules())
    )
