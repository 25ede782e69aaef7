"""The table of handlers: which function serves which method of the contract.

Parameters are validated here, once; what a handler returns becomes JSON here.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TypeAlias, TypeVar, cast

from pydantic import BaseModel

from deputy_protocol import methods
from deputy_protocol.base import to_wire
from deputy_protocol.contract import Command, Request
from deputy_protocol.errors import ErrorCode, InvalidParams
from deputy_server.lsp import (
    actions,
    agent,
    commands,
    context,
    links,
    permission,
    process,
    process_wide,
    session,
)
from deputy_server.lsp.connection import Connection
from deputy_server.lsp.protocol import RequestHandler, Response
from deputy_server.rpc.errors import RpcError
from deputy_server.rpc.json import is_object, items

P = TypeVar("P", bound=BaseModel)
R = TypeVar("R", bound=BaseModel)

Bound: TypeAlias = Callable[[Connection], RequestHandler]
"""A handler that still needs its connection."""


def _serve(request: Request[P, R], handler: Callable[[Connection, P], Awaitable[R | Response[R]]]) -> tuple[str, Bound]:
    """Binds ``handler`` to a request of the table; the types of both must agree."""

    def bind(connection: Connection) -> RequestHandler:
        async def served(raw: object) -> object:
            return _plain(await handler(connection, request.parse(raw)))

        return served

    return request.name, bind


def _command(
    command: Command[P, R], handler: Callable[[Connection, P], Awaitable[R | Response[R]]]
) -> tuple[str, Bound]:
    """Binds ``handler`` to a command of the table."""

    def bind(connection: Connection) -> RequestHandler:
        async def served(arguments: object) -> object:
            return _plain(await handler(connection, command.parse(items(arguments))))

        return served

    return command.name, bind


def _plain(result: BaseModel | Response[R]) -> object:
    if isinstance(result, Response):
        return replace(cast(Response[object], result), result=to_wire(result.result))
    return to_wire(result)


REQUESTS: dict[str, Bound] = dict(
    (
        _serve(methods.SESSION_NEW, session.new),
        _serve(methods.SESSION_PROMPT, session.prompt),
        _serve(methods.SESSION_UNQUEUE, session.unqueue),
        _serve(methods.SESSION_CANCEL, session.cancel),
        _serve(methods.SESSION_LIST, session.list_sessions),
        _serve(methods.SESSION_LOAD, session.load),
        _serve(methods.SESSION_UNLOAD, session.unload),
        _serve(methods.SESSION_RENAME, session.rename),
        _serve(methods.SESSION_ARCHIVE, session.archive),
        _serve(methods.SESSION_DELETE, session.delete),
        _serve(methods.SESSION_EXPORT, session.export),
        _serve(methods.SESSION_SET_PERMISSION_MODE, session.set_permission_mode),
        _serve(methods.SESSION_SET_MODEL, session.set_model),
        _serve(methods.AGENT_LIST, agent.list_agents),
        _serve(methods.AGENT_TRANSCRIPT, agent.transcript),
        _serve(methods.AGENT_OUTPUT, agent.output),
        _serve(methods.AGENT_CANCEL, agent.cancel),
        _serve(methods.AGENT_MESSAGE, agent.message),
        _serve(methods.AGENT_REVERT, agent.revert),
        _serve(methods.PERMISSION_LIST, permission.list_questions),
        _serve(methods.PERMISSION_ANSWER, permission.answer),
        _serve(methods.PERMISSION_ANSWER_MANY, permission.answer_many),
        _serve(methods.RULE_LIST, permission.list_rules),
        _serve(methods.RULE_REMOVE, permission.remove_rule),
        _serve(methods.PROCESS_LIST, process.list_processes),
        _serve(methods.PROCESS_STOP, process.stop_process),
        _serve(methods.DEFINITION_LIST, process_wide.list_definitions),
        _serve(methods.CONTEXT_LIST, context.list_context),
        _serve(methods.CONTEXT_COMPLETE, context.complete),
        _serve(methods.METRICS, process_wide.metrics),
    )
)

COMMANDS: dict[str, Bound] = dict(
    (
        _command(methods.PROMPT_COMMAND, commands.prompt),
        _command(methods.NEW_SESSION_COMMAND, commands.new_session),
        _command(methods.CANCEL_AGENT_COMMAND, commands.cancel_agent),
        _command(methods.CANCEL_SESSION_COMMAND, session.cancel),
        _command(methods.LIST_AGENTS_COMMAND, commands.list_agents),
        _command(methods.ANSWER_PERMISSION_COMMAND, commands.answer_permission),
        _command(methods.OPEN_TRANSCRIPT_COMMAND, commands.open_transcript),
        _command(methods.REVERT_AGENT_COMMAND, commands.revert_agent),
        _command(methods.DISMISS_FINDING_COMMAND, commands.dismiss_finding),
    )
)


TEXT_REQUESTS: dict[str, Callable[[Connection, object], Awaitable[object]]] = {
    "textDocument/codeAction": actions.code_actions,
    "textDocument/codeLens": actions.code_lenses,
    "textDocument/documentLink": links.document_links,
}


def bind_all(connection: Connection) -> dict[str, RequestHandler]:
    """All request handlers of one connection, by method."""
    bound = {name: bind(connection) for name, bind in REQUESTS.items()}
    bound |= {name: partial(handler, connection) for name, handler in TEXT_REQUESTS.items()}
    own_commands = {name: bind(connection) for name, bind in COMMANDS.items()}

    async def execute_command(raw: object) -> object:
        params = raw if is_object(raw) else {}
        name = params.get("command")
        if not isinstance(name, str):
            raise InvalidParams([("command", "a string is needed")])
        if (command := own_commands.get(name)) is None:
            raise RpcError(ErrorCode.METHOD_NOT_FOUND, f"Unknown command {name[:100]}.")
        return await command(_arguments(params.get("arguments")))

    return bound | {"workspace/executeCommand": execute_command}


def _arguments(raw: object) -> object:
    if raw is not None and not isinstance(raw, list):
        raise InvalidParams([("arguments", "an array is needed")])
    return cast(object, raw)
