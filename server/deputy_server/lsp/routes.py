"""The handlers of the methods and commands in the protocol's table.

Parameters are validated here, once; what a handler returns becomes JSON here.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from typing import TypeAlias, TypeVar, cast

import anyio.to_thread
from lsprotocol import types
from pydantic import BaseModel

from deputy_protocol import command_table, methods
from deputy_protocol.base import to_json_in_steps, to_wire
from deputy_protocol.contract import Command, Request
from deputy_protocol.errors import ErrorCode, InvalidParams
from deputy_server.lsp import (
    actions,
    agent,
    checkpoint,
    commands,
    context,
    definition,
    hover,
    links,
    metrics,
    model,
    permission,
    process,
    review,
    review_commands,
    rule,
    session,
)
from deputy_server.lsp.connection import Connection
from deputy_server.rpc.endpoint import Encoded, RequestHandler, Response
from deputy_server.rpc.errors import RpcError
from deputy_server.rpc.json import is_object, items

P = TypeVar("P", bound=BaseModel)
R = TypeVar("R", bound=BaseModel)

Unbound: TypeAlias = Callable[[Connection], RequestHandler]
"""A handler that still needs its connection."""


def _request(
    request: Request[P, R], handler: Callable[[Connection, P], Awaitable[R | Response[R]]]
) -> tuple[str, Unbound]:
    """Pair a request of the table with its handler; their types must agree."""

    def bind(connection: Connection) -> RequestHandler:
        async def handle(raw: object) -> object:
            return await _to_json(await handler(connection, request.parse(raw)))

        return handle

    return request.name, bind


def _command(
    command: Command[P, R], handler: Callable[[Connection, P], Awaitable[R | Response[R]]]
) -> tuple[str, Unbound]:
    """Pair a command of the table with its handler; their types must agree."""

    def bind(connection: Connection) -> RequestHandler:
        async def handle(arguments: object) -> object:
            return await _to_json(await handler(connection, command.parse(items(arguments))))

        return handle

    return command.name, bind


async def _to_json(result: BaseModel | Response[R]) -> object:
    if not isinstance(result, Response):
        return to_wire(result)
    model = result.result
    return Response(await _encoded(model) if result.large else to_wire(model), result.then)


async def _encoded(model: BaseModel) -> object:
    try:
        return Encoded(await anyio.to_thread.run_sync(to_json_in_steps, model))
    except ValueError:  # it contains half a surrogate pair
        return to_wire(model)


def _checked(names: Iterable[str], handlers: Collection[tuple[str, Unbound]]) -> dict[str, Unbound]:
    """``handlers`` by name, in the order of the table's ``names``.

    Raises:
        LookupError: a name has no handler, or a handler no name.
    """
    by_name = dict(handlers)
    ordered = {name: by_name.pop(name, None) for name in names}
    missing = [name for name, handler in ordered.items() if handler is None]
    if missing or by_name:
        raise LookupError(f"without a handler: {missing}; not in the table: {list(by_name)}")
    return {name: handler for name, handler in ordered.items() if handler is not None}


REQUESTS = _checked(
    (request.name for request in methods.REQUESTS),
    (
        _request(methods.SESSION_NEW, session.new),
        _request(methods.SESSION_PROMPT, session.prompt),
        _request(methods.SESSION_UNQUEUE, session.unqueue),
        _request(methods.SESSION_CANCEL, session.cancel),
        _request(methods.SESSION_LIST, session.list_sessions),
        _request(methods.SESSION_LOAD, session.load),
        _request(methods.SESSION_UNLOAD, session.unload),
        _request(methods.SESSION_RENAME, session.rename),
        _request(methods.SESSION_ARCHIVE, session.archive),
        _request(methods.SESSION_DELETE, session.delete),
        _request(methods.SESSION_EXPORT, session.export),
        _request(methods.SESSION_SET_PERMISSION_MODE, session.set_permission_mode),
        _request(methods.SESSION_SET_MODEL, session.set_model),
        _request(methods.AGENT_LIST, agent.list_agents),
        _request(methods.AGENT_TRANSCRIPT, agent.transcript),
        _request(methods.AGENT_OUTPUT, agent.output),
        _request(methods.AGENT_CANCEL, agent.cancel),
        _request(methods.AGENT_MESSAGE, agent.message),
        _request(methods.AGENT_REVERT, agent.revert),
        _request(methods.REVIEW_LIST, review.list_hunks),
        _request(methods.REVIEW_BASE, review.base),
        _request(methods.REVIEW_KEEP, review.keep),
        _request(methods.REVIEW_UNDO, review.undo),
        _request(methods.REVIEW_BLAME, review.blame),
        _request(methods.CHECKPOINT_LIST, checkpoint.list_checkpoints),
        _request(methods.CHECKPOINT_PREVIEW, checkpoint.preview),
        _request(methods.SESSION_REWIND, checkpoint.rewind),
        _request(methods.SESSION_FORK, checkpoint.fork),
        _request(methods.PERMISSION_LIST, permission.list_requests),
        _request(methods.PERMISSION_PREVIEW, permission.preview),
        _request(methods.PERMISSION_ANSWER, permission.answer),
        _request(methods.PERMISSION_ANSWER_MANY, permission.answer_many),
        _request(methods.INPUT_ANSWER, permission.answer_input),
        _request(methods.PERMISSION_APPROVE_EDITS, permission.approve_edits),
        _request(methods.RULE_LIST, rule.list_rules),
        _request(methods.RULE_REMOVE, rule.remove_rule),
        _request(methods.MODEL_LIST, model.list_models),
        _request(methods.DEFINITION_LIST, definition.list_definitions),
        _request(methods.CONTEXT_LIST, context.list_context),
        _request(methods.CONTEXT_COMPLETE, context.complete),
        _request(methods.CONTEXT_USAGE, context.usage),
        _request(methods.SESSION_COMPACT, context.compact),
        _request(methods.PROCESS_LIST, process.list_processes),
        _request(methods.PROCESS_STOP, process.stop_process),
        _request(methods.METRICS, metrics.metrics),
    ),
)

COMMANDS = _checked(
    (command.name for command in command_table.COMMANDS),
    (
        _command(command_table.PROMPT_COMMAND, commands.prompt),
        _command(command_table.NEW_SESSION_COMMAND, session.new),
        _command(command_table.CANCEL_AGENT_COMMAND, commands.cancel_agent),
        _command(command_table.CANCEL_SESSION_COMMAND, session.cancel),
        _command(command_table.LIST_AGENTS_COMMAND, commands.list_agents),
        _command(command_table.ANSWER_PERMISSION_COMMAND, commands.answer_permission),
        _command(command_table.OPEN_TRANSCRIPT_COMMAND, commands.open_transcript),
        _command(command_table.REVERT_AGENT_COMMAND, commands.revert_agent),
        _command(command_table.DISMISS_FINDING_COMMAND, commands.dismiss_finding),
        _command(command_table.REVIEW_NEXT_COMMAND, review_commands.following),
        _command(command_table.REVIEW_PREVIOUS_COMMAND, review_commands.preceding),
        _command(command_table.REVIEW_KEEP_COMMAND, review_commands.keep),
        _command(command_table.REVIEW_UNDO_COMMAND, review_commands.undo),
        _command(command_table.REVIEW_KEEP_ALL_COMMAND, review_commands.keep_all),
        _command(command_table.REVIEW_UNDO_ALL_COMMAND, review_commands.undo_all),
        _command(command_table.REVIEW_LIST_COMMAND, review_commands.list_hunks),
        _command(command_table.REWIND_COMMAND, checkpoint.rewind_command),
        _command(command_table.FORK_COMMAND, checkpoint.fork),
    ),
)

TEXT_REQUESTS: dict[str, Callable[[Connection, object], Awaitable[object]]] = {
    types.TEXT_DOCUMENT_CODE_ACTION: actions.code_actions,
    types.TEXT_DOCUMENT_CODE_LENS: actions.code_lenses,
    types.TEXT_DOCUMENT_HOVER: hover.hover,
    types.TEXT_DOCUMENT_DOCUMENT_LINK: links.document_links,
}


def bind_all(connection: Connection) -> dict[str, RequestHandler]:
    """All request handlers of one connection, by method."""
    bound = {name: bind(connection) for name, bind in REQUESTS.items()}
    bound |= {name: partial(handler, connection) for name, handler in TEXT_REQUESTS.items()}
    return bound | {types.WORKSPACE_EXECUTE_COMMAND: _execute_command(connection)}


def _execute_command(connection: Connection) -> RequestHandler:
    bound = {name: bind(connection) for name, bind in COMMANDS.items()}

    async def execute(raw: object) -> object:
        params = raw if is_object(raw) else {}
        name = params.get("command")
        if not isinstance(name, str):
            raise InvalidParams([("command", "must be a string")])
        if (command := bound.get(name)) is None:
            raise RpcError(ErrorCode.METHOD_NOT_FOUND, f"Unknown command {name[:100]}.")
        return await command(_arguments(params.get("arguments")))

    return execute


def _arguments(raw: object) -> object:
    if raw is not None and not isinstance(raw, list):
        raise InvalidParams([("arguments", "must be an array")])
    return cast(object, raw)
