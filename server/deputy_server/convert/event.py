"""Events as the parameters of ``deputy/event``."""

from collections.abc import Sequence

from deputy_agents.domain import event as ev
from deputy_agents.domain.review import ChangesReviewed, CheckpointCreated, ReviewStatus, SessionRewound
from deputy_agents.events import view
from deputy_protocol import event as wire_event
from deputy_protocol.base import rfc3339, to_wire
from deputy_server.convert.agent import agent_node_to_wire, context_size_to_wire, plan_to_wire, usage_to_wire
from deputy_server.convert.diff import diff_to_wire
from deputy_server.convert.permission import permission_request_to_wire
from deputy_server.convert.place import location_to_wire, reference_to_wire
from deputy_server.convert.session import queued_prompts_to_wire
from deputy_server.convert.uris import uri_of
from deputy_server.convert.user_input import input_request_to_wire

Fields = dict[str, object]


def event_to_wire(happened: ev.Event) -> Fields:
    """The parameters of ``deputy/event``: the envelope plus the body's fields. A plain dict, because events are
    frequent."""
    envelope = _present(
        # Definitions belong to a folder, not to a session.
        sessionId=None if isinstance(happened.body, ev.DefinitionsChanged) else happened.session_id,
        agentId=happened.agent_id,
        run=happened.run,
        time=rfc3339(happened.time),
        seq=happened.seq,
        agentSeq=happened.agent_seq,
        afterSeq=happened.after_seq,
    )
    return envelope | _body(happened)


def _body(happened: ev.Event) -> Fields:  # noqa: C901 - a table, one row per event type
    match happened.body:
        case ev.MessageDelta(message_id, text):
            return {"type": "message_delta", "messageId": message_id, "text": text}
        case ev.ThoughtDelta(message_id, text):
            return {"type": "thought_delta", "messageId": message_id, "text": text}
        case ev.ToolOutputDelta(tool_call_id, text):
            return {"type": "tool_output_delta", "toolCallId": tool_call_id, "text": text}
        case ev.Activity(text, tool_call_count):
            return {"type": "agent_activity", "text": text, "toolCallCount": tool_call_count}
        case ev.TurnStarted(turn_id, origin):
            return {"type": "turn_started", "turnId": turn_id, "origin": origin}
        case ev.TurnFinished() as body:
            return {"type": "turn_finished"} | _turn_outcome(body)
        case ev.AgentStarted() as body:
            node = view.AgentNode(
                body.info, happened.run or 1, body.status, happened.time, happened.time, body.queue_position
            )
            return {"type": "agent_started"} | _present(
                agent=to_wire(agent_node_to_wire(node)), toolCallId=body.info.tool_call_id
            )
        case ev.StatusChanged(status, position, detail):
            return {"type": "agent_status"} | _present(status=status.value, queuePosition=position, detail=detail)
        case ev.AgentFinished() as body:
            return {"type": "agent_finished"} | _finished(body)
        case ev.UsageChanged(used, size):
            context = None if size is None else to_wire(context_size_to_wire(size))
            return {"type": "usage", "usage": to_wire(usage_to_wire(used))} | _present(context=context)
        case ev.MessageAdded(message_id, role, text, references, pictures):
            places = _references(references)
            fields = _present(messageId=message_id, role=role, text=text, references=places, pictures=pictures or None)
            return {"type": "message"} | fields
        case ev.ThoughtAdded(message_id, text):
            return {"type": "thought", "messageId": message_id, "text": text}
        case ev.ToolCallStarted() as body:
            return {"type": "tool_call"} | _tool_call(body)
        case ev.ToolCallUpdated(tool_call_id, status, content, locations, truncated, diff):
            return {"type": "tool_call_update"} | _present(
                toolCallId=tool_call_id,
                status=status.value,
                content=content,
                locations=None if locations is None else _locations(locations),
                truncated=truncated or None,
                diff=None if diff is None else to_wire(diff_to_wire(diff)),
            )
        case ev.PlanChanged(entries):
            return {"type": "plan", "entries": [to_wire(step) for step in plan_to_wire(entries)]}
        case ev.PermissionRequested(request):
            return {"type": "permission_requested"} | to_wire(permission_request_to_wire(happened.session_id, request))
        case ev.PermissionResolved(request_id, by, option_id, reason):
            outcome = {"outcome": "selected", "optionId": option_id} if option_id else {"outcome": "cancelled"}
            fields = _present(requestId=request_id, outcome=outcome, by=by.value, reason=reason)
            return {"type": "permission_resolved"} | fields
        case ev.InputRequested(request):
            return {"type": "input_requested"} | to_wire(input_request_to_wire(happened.session_id, request))
        case ev.InputResolved(request_id, action, by):
            return {"type": "input_resolved", "requestId": request_id, "outcome": action.value, "by": by.value}
        case _:
            return _of_session(happened.body)


def _of_session(body: ev.Body) -> Fields:
    match body:
        case CheckpointCreated(checkpoint_id, turn_id):
            return {"type": "checkpoint_created", "checkpointId": checkpoint_id, "turnId": turn_id}
        case SessionRewound(checkpoint_id, turn_id, files, conversation):
            what = _present(checkpointId=checkpoint_id, turnId=turn_id, files=files, conversation=conversation)
            return {"type": "session_rewound"} | what
        case ChangesReviewed() | ReviewStatus():
            return _review(body)
        case ev.SessionStatus():
            return {"type": "session_status"} | _counts(body)
        case ev.PromptQueue(entries):
            return {"type": "prompt_queue", "entries": [to_wire(prompt) for prompt in queued_prompts_to_wire(entries)]}
        case ev.SessionChanged():
            return {"type": "session_changed"}
        case ev.DefinitionsChanged():
            return {"type": "definitions_changed"}
        case ev.Unknown(name):
            return {"type": name}
        case _:
            raise AssertionError(f"{type(body).__name__} has no form on the wire")


def turn_outcome_to_wire(body: ev.TurnFinished) -> wire_event.TurnOutcome:
    """How a turn ended."""
    return wire_event.TurnOutcome.model_validate(_turn_outcome(body))


def _turn_outcome(body: ev.TurnFinished) -> Fields:
    return _present(
        turnId=body.turn_id,
        stopReason=body.stop_reason,
        error=body.error and _turn_error(body.error),
        interrupted=body.interrupted or None,
        detail=body.detail or None,
        setting=body.setting or None,
    )


def _turn_error(error: ev.TurnError) -> Fields:
    return {
        "kind": error.kind,
        "message": error.message,
        "retryable": error.retryable,
        "action": error.action,
    }


def _finished(body: ev.AgentFinished) -> Fields:
    return _present(
        status=body.status.value,
        failureReason=body.failure_reason and body.failure_reason.value,
        error=body.error,
        result=body.result,
        references=_references(body.references),
        usage=to_wire(usage_to_wire(body.usage)),
        toolCallCount=body.tool_call_count,
        iterations=body.iterations,
        truncated=body.truncated,
    )


def _tool_call(body: ev.ToolCallStarted) -> Fields:
    return _present(
        toolCallId=body.tool_call_id,
        tool=body.tool,
        title=body.title,
        kind=body.kind.value,
        status=body.status.value,
        input=dict(body.input),
        locations=_locations(body.locations),
        reason=body.reason,
    )


def _review(body: ChangesReviewed | ReviewStatus) -> Fields:
    match body:
        case ChangesReviewed(path, hunks, verb):
            return {"type": "changes_reviewed", "uri": uri_of(path), "hunks": list(hunks), "verb": verb}
        case ReviewStatus(files, hunks, added, removed):
            return {"type": "review_status", "files": files, "hunks": hunks, "added": added, "removed": removed}


def _counts(body: ev.SessionStatus) -> Fields:
    return {
        "primary": body.primary,
        "pending": body.pending,
        "running": body.running,
        "awaitingPermission": body.awaiting_permission,
        "finished": body.finished,
    }


def _locations(places: Sequence[ev.Location]) -> list[Fields]:
    return [to_wire(location_to_wire(at)) for at in places]


def _references(places: Sequence[ev.Location]) -> list[Fields] | None:
    return [to_wire(reference_to_wire(at)) for at in places] or None


def _present(**fields: object) -> Fields:
    """The fields that are not ``None``: absent fields are left out, not sent as null."""
    return {name: value for name, value in fields.items() if value is not None}
