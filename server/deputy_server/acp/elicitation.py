"""Input requests as ``elicitation/create``, or as a permission request where the client has no forms and the input is
one choice."""

from deputy_agents.domain.event import InputRequest
from deputy_agents.domain.user_input import FieldType, InputField
from deputy_agents.ports.permission import Accepted, Declined, Dismissed, InputAnswer
from deputy_server.rpc.json import JsonObject, dig, is_object

DECLINE = "decline"
"""Id of the option that declines."""


def elicitation_params(session_id: str, request: InputRequest) -> JsonObject:
    """The parameters of ``elicitation/create``."""
    form = request.form
    scope: dict[str, object] = {"sessionId": session_id}
    if request.tool_call_id is not None:
        scope["toolCallId"] = request.tool_call_id
    message = f"{request.title}\n\n{form.message}"
    if form.url is not None:
        return {**scope, "mode": "url", "message": message, "url": form.url, "elicitationId": request.request_id}
    schema = {
        "type": "object",
        "properties": {field.name: _schema(field) for field in form.fields},
        "required": [field.name for field in form.fields if field.required],
    }
    return {**scope, "mode": "form", "message": message, "requestedSchema": schema}


def elicitation_answer(response: object) -> InputAnswer:
    """The answer in a response to ``elicitation/create``."""
    content = dig(response, "content")
    match dig(response, "action"):
        case "accept":
            return Accepted(content if is_object(content) else {})
        case "decline":
            return Declined()
        case _:
            return Dismissed()


def choice_options(field: InputField) -> list[JsonObject]:
    """A choice as options of ``session/request_permission``. The ids are positions: values can be long."""
    options: list[JsonObject] = [
        {"optionId": str(index), "name": option.title, "kind": "allow_once"}
        for index, option in enumerate(field.options)
    ]
    return [*options, {"optionId": DECLINE, "name": "Decline", "kind": "reject_once"}]


def choice_answer(field: InputField, response: object) -> InputAnswer:
    """The choice in a response to ``session/request_permission``."""
    chosen = dig(response, "outcome", "optionId")
    if dig(response, "outcome", "outcome") != "selected" or not isinstance(chosen, str):
        return Dismissed()
    values = [option.value for index, option in enumerate(field.options) if str(index) == chosen]
    if values:
        return Accepted({field.name: values[0]})
    return Declined() if chosen == DECLINE else Dismissed()


def _schema(field: InputField) -> JsonObject:
    length = ("minItems", "maxItems") if field.type is FieldType.CHOICES else ("minLength", "maxLength")
    options = [{"const": option.value, "title": option.title} for option in field.options]
    shape: JsonObject
    match field.type:
        case FieldType.CHOICE:
            shape = {"type": "string", "oneOf": options}
        case FieldType.CHOICES:
            shape = {"type": "array", "items": {"anyOf": options}}
        case FieldType.NUMBER:
            shape = {"type": "integer" if field.integer else "number"}
        case _:
            shape = {"type": field.type.value}
    limits = {
        length[0]: field.shortest,
        length[1]: field.longest,
        "minimum": field.minimum,
        "maximum": field.maximum,
        "title": field.title or None,
        "description": field.description or None,
        "format": field.format or None,
        "default": list(field.default) if isinstance(field.default, tuple) else field.default,
    }
    return {**shape, **{name: value for name, value in limits.items() if value is not None}}
