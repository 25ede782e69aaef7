"""Input requests and answers."""

from deputy_agents.domain import event as ev
from deputy_agents.domain import user_input as domain
from deputy_agents.ports.permission import Accepted, Declined, Dismissed, InputAnswer
from deputy_protocol import user_input as wire
from deputy_server.convert.agent import agent_ref_to_wire


def input_request_to_wire(session_id: str, request: ev.InputRequest) -> wire.InputRequest:
    form = request.form
    return wire.InputRequest(
        request_id=request.request_id,
        session_id=session_id,
        tool_call_id=request.tool_call_id,
        agent=agent_ref_to_wire(request.agent),
        title=request.title,
        message=form.message,
        fields=tuple(map(_field_to_wire, form.fields)),
        url=form.url,
        source=wire.InputSource(form.source),
        server=form.server or None,
    )


def _field_to_wire(field: domain.InputField) -> wire.InputField:
    return wire.InputField(
        name=field.name,
        type=wire.InputFieldType(field.type),
        title=field.title or None,
        description=field.description or None,
        required=field.required or None,
        options=tuple(wire.InputOption(value=one.value, title=one.title) for one in field.options) or None,
        default=field.default,
        integer=field.integer or None,
        minimum=field.minimum,
        maximum=field.maximum,
        min_length=field.shortest,
        max_length=field.longest,
        format=field.format or None,
    )


def input_answer_from_wire(answer: wire.InputResponse | wire.InputAnswerParams) -> InputAnswer:
    match answer.outcome:
        case wire.InputOutcome.ACCEPTED:
            return Accepted(answer.values or {})
        case wire.InputOutcome.DECLINED:
            return Declined()
        case wire.InputOutcome.CANCELLED:
            return Dismissed()
