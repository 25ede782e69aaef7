"""Permission requests, answers and modes."""

from deputy_agents.domain import event as ev
from deputy_agents.domain import preview as previews
from deputy_agents.domain.event import ResolvedBy
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.ports.permission import Dismissed, PermissionAnswer, Selected
from deputy_protocol import permission, session, tool
from deputy_protocol.errors import ErrorCode
from deputy_server.convert.agent import agent_ref_to_wire
from deputy_server.convert.diff import hunk_to_wire
from deputy_server.convert.place import location_to_wire
from deputy_server.convert.uris import uri_of
from deputy_server.rpc.errors import ClientError, ConnectionLost


def preview_to_wire(preview: previews.Preview) -> permission.Preview:
    match preview:
        case previews.DiffPreview(path, old_text, new_text, hunks, truncated):
            return permission.DiffPreview(
                uri=uri_of(path),
                old_text=old_text,
                new_text=new_text,
                hunks=tuple(map(hunk_to_wire, hunks)) or None,
                truncated=truncated or None,
            )
        case previews.CommandPreview(command, cwd):
            return permission.CommandPreview(command=command, cwd=uri_of(cwd))
        case previews.TextPreview(text):
            return permission.TextPreview(text=text)


def permission_request_to_wire(session_id: str, request: ev.PermissionRequest) -> permission.PermissionRequest:
    return permission.PermissionRequest(
        request_id=request.request_id,
        session_id=session_id,
        batch=permission.Batch(id=request.batch.id, index=request.batch.index, size=request.batch.size),
        tool_call_id=request.tool_call_id,
        agent=agent_ref_to_wire(request.agent),
        title=request.title,
        tool=request.tool,
        kind=tool.ToolKind(request.kind),
        input=request.input,
        locations=tuple(map(location_to_wire, request.locations)),
        preview=None if request.preview is None else preview_to_wire(request.preview),
        options=tuple(
            permission.PermissionOption(
                option_id=option.option_id,
                name=option.name,
                kind=permission.OptionKind(option.kind),
                rules=option.rules or None,
                scope=permission.RuleScope(option.scope),
            )
            for option in request.options
        ),
        reason=request.reason,
    )


def answer_from_wire(outcome: permission.PermissionOutcome) -> PermissionAnswer:
    match outcome:
        case permission.SelectedOutcome():
            return Selected(outcome.option_id, outcome.feedback, outcome.input)
        case permission.CancelledOutcome():
            return Dismissed()


def permission_mode_from_wire(mode: session.PermissionMode | None) -> PermissionMode | None:
    return None if mode is None else PermissionMode(mode)


def dismissed_by(failure: ClientError | ConnectionLost) -> Dismissed:
    """No answer, because the client failed. One that does not know the method or is gone cannot be asked at all."""
    supported = isinstance(failure, ClientError) and failure.code != ErrorCode.METHOD_NOT_FOUND.value
    return Dismissed() if supported else Dismissed(ResolvedBy.UNREACHABLE)
