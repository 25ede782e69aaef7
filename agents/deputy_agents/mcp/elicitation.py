"""What an MCP server asks the user: its schema as a form, and the user's answer as the protocol's result.

The schema is hostile data: what Deputy cannot show completely and validate is not shown at all. An MCP server is
answered only by the user.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from deputy_agents.domain.errors import InvalidRequest, ToolError
from deputy_agents.domain.user_input import FieldOption, FieldType, InputAction, InputField, InputForm, Value
from deputy_agents.permission.inbox import InputOutcome
from deputy_agents.permission.input_values import validated
from deputy_agents.text import clean, make_label
from deputy_agents.web.address import is_loopback, parse_url

if TYPE_CHECKING:
    from mcp.shared.exceptions import MCPError
    from mcp_types import ElicitRequestParams, ElicitResult

MAX_FIELDS = 30
MAX_OPTIONS = 200
MAX_MESSAGE = 10_000
MAX_NAME = 200
_FORMATS = ("email", "uri", "date", "date-time")
_TYPES = {
    "string": FieldType.STRING,
    "number": FieldType.NUMBER,
    "integer": FieldType.NUMBER,
    "boolean": FieldType.BOOLEAN,
    "array": FieldType.CHOICES,
}

Json = Mapping[str, object]


class Unsupported(Exception):
    """The request cannot be shown to the user; the message says why."""


def form_of(server: str, params: "ElicitRequestParams") -> InputForm:
    """
    Raises:
        Unsupported: it cannot be shown completely, or its URL is not one to send a user to.
    """
    from mcp_types import ElicitRequestURLParams

    message = clean(params.message)
    if not message.strip() or len(message) > MAX_MESSAGE:
        raise Unsupported(f"message: must have 1 to {MAX_MESSAGE:,} characters")
    form = InputForm(message, server=server, about=make_label(message))
    if isinstance(params, ElicitRequestURLParams):
        return replace(form, url=_checked_url(params.url))
    return replace(form, fields=_fields(params.requested_schema))


def forms_of_error(server: str, error: "MCPError") -> Iterator[InputForm]:
    """The pages that a user has to open before a request can succeed, according to the ``error`` of the request."""
    from mcp_types import URL_ELICITATION_REQUIRED, ElicitationRequiredErrorData

    if error.error.code != URL_ELICITATION_REQUIRED:
        return
    try:
        needed = ElicitationRequiredErrorData.model_validate(error.error.data)
        yield from [form_of(server, one) for one in needed.elicitations[:1]]
    except (ValueError, Unsupported):
        return


def sign_in_form(server: str, page: str | None = None) -> InputForm:
    """Asks the user whether to sign in at ``server`` now, or to open the ``page`` where they do that."""
    if page is None:
        return InputForm(f"The MCP server {server} needs you to sign in. Sign in now?", server=server, about="sign in")
    return InputForm(f"Sign in at the MCP server {server} on this page.", url=page, server=server, about="sign in")


def result_of(form: InputForm, outcome: InputOutcome) -> "ElicitResult":
    """The result of ``elicitation/create``: ``accept`` only if the user accepted."""
    from mcp_types import ElicitResult

    match outcome.action:
        case InputAction.ACCEPTED if form.url is not None:
            return ElicitResult(action="accept")
        case InputAction.ACCEPTED:
            values = {name: _plain(value) for name, value in (outcome.values or {}).items()}
            return ElicitResult(action="accept", content=values)
        case InputAction.DECLINED:
            return ElicitResult(action="decline")
        case InputAction.CANCELLED:
            return ElicitResult(action="cancel")


def _plain(value: Value) -> str | int | float | bool | list[str] | None:
    return list(value) if isinstance(value, tuple) else value


def _checked_url(url: str) -> str:
    """Only pages that the web shows: any other scheme may start a program on the user's machine."""
    try:
        address = parse_url(url)
    except ToolError as error:
        raise Unsupported(str(error)) from None
    if address.scheme != "https" and not is_loopback(address.host):
        raise Unsupported("url: must start with https://")
    return url


def _fields(schema: Json) -> tuple[InputField, ...]:
    properties = _object(schema.get("properties", {}), "properties")
    if len(properties) > MAX_FIELDS:
        raise Unsupported(f"requestedSchema: must have at most {MAX_FIELDS} properties")
    required = schema.get("required")
    names = cast("Sequence[object]", required) if isinstance(required, list) else ()
    return tuple(_field(name, _object(shape, name), required=name in names) for name, shape in properties.items())


def _field(name: str, shape: Json, *, required: bool) -> InputField:
    if not name.strip() or len(name) > MAX_NAME:
        raise Unsupported(f"requestedSchema: names of properties must have 1 to {MAX_NAME} characters")
    kind = _TYPES.get(str(shape.get("type")))
    if kind is None:
        raise Unsupported(f"{name}: its type is not supported")
    options = _options(name, shape, kind)
    if kind is FieldType.STRING and options:
        kind = FieldType.CHOICE
    if "pattern" in shape:
        raise Unsupported(f"{name}: patterns are not supported")
    limits = ("minItems", "maxItems") if kind is FieldType.CHOICES else ("minLength", "maxLength")
    given = str(shape.get("format", ""))
    field = InputField(
        name,
        kind,
        title=_text(shape.get("title")),
        description=_text(shape.get("description")),
        required=required,
        options=options,
        integer=shape.get("type") == "integer",
        minimum=_number(name, shape, "minimum"),
        maximum=_number(name, shape, "maximum"),
        shortest=_count(name, shape, limits[0]),
        longest=_count(name, shape, limits[1]),
        format=given if given in _FORMATS else "",
    )
    return replace(field, default=_default(field, shape.get("default")))


def _options(name: str, shape: Json, kind: FieldType) -> tuple[FieldOption, ...]:
    """The options of a choice: with titles (``oneOf``, ``anyOf``), or plain (``enum``, with ``enumNames``)."""
    if kind is FieldType.CHOICES:
        shape = _object(shape.get("items", {}), name)
    elif kind is not FieldType.STRING:
        return ()
    titled = shape.get("oneOf", shape.get("anyOf"))
    plain = shape.get("enum")
    if isinstance(titled, list):
        objects = [_object(one, name) for one in cast("list[object]", titled)]
        pairs = [(one.get("const"), one.get("title")) for one in objects]
    elif isinstance(plain, list):
        values, titles = cast("list[object]", plain), shape.get("enumNames")
        names = cast("list[object]", titles) if isinstance(titles, list) else []
        pairs = list(zip(values, names if len(names) == len(values) else values, strict=True))
    elif kind is FieldType.CHOICES:
        raise Unsupported(f"{name}: a list must have options")
    else:
        return ()
    if not 1 <= len(pairs) <= MAX_OPTIONS or not all(isinstance(value, str) for value, _ in pairs):
        raise Unsupported(f"{name}: must have 1 to {MAX_OPTIONS} options, each a string")
    options = tuple(FieldOption(str(value), _text(title) or _text(value) or str(value)) for value, title in pairs)
    if len({option.value for option in options}) < len(options):
        raise Unsupported(f"{name}: has an option twice")
    return options


def _default(field: InputField, value: object) -> Value | None:
    """The default; ``None`` if it would not be accepted."""
    if value is None:
        return None
    try:
        return validated((field,), {field.name: value}).get(field.name)
    except InvalidRequest:
        return None


def _number(name: str, shape: Json, key: str) -> float | None:
    value = shape.get(key)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise Unsupported(f"{name}: {key} must be a number")
    return value


def _count(name: str, shape: Json, key: str) -> int | None:
    value = _number(name, shape, key)
    return None if value is None else max(0, int(value))


def _text(value: object) -> str:
    return clean(value).strip()[:1000] if isinstance(value, str) else ""


def _object(value: object, name: str) -> Json:
    if not isinstance(value, dict):
        raise Unsupported(f"{name}: must be an object")
    return cast("Json", value)
