"""Parsing of payloads from the wire. All failures raise one error, which names the invalid field."""

from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from deputy_protocol.errors import InvalidParams

_M = TypeVar("_M", bound=BaseModel)
_MAX_REASON = 300
_TAGS = ("type", "outcome")


def parse(model: type[_M], raw: object, *, at: str = "") -> _M:
    """Parse ``raw``, which is decoded JSON, as a ``model``. ``None`` is the same as an empty object.

    ``at`` is the JSON path of ``raw``. Field names in errors start with it.

    Raises:
        InvalidParams: ``raw`` is invalid.
    """
    given: object = {} if raw is None else raw
    try:
        return model.model_validate(given, by_name=False)
    except ValidationError as error:
        raise InvalidParams(_problems(error, given, at)) from None


def _problems(error: ValidationError, given: object, at: str) -> list[tuple[str, str]]:
    """Pairs of field and reason, one for each field. An error of an array is omitted if one of its elements has one."""
    errors = error.errors(include_url=False, include_input=False)
    outer = {e["loc"][:depth] for e in errors for depth in range(len(e["loc"]))}
    reasons_by_field: dict[str, list[str]] = {}
    for e in errors:
        if e["loc"] not in outer:
            path = _path(e["loc"], given, at, missing=e["type"] == "missing")
            reasons_by_field.setdefault(path, []).append(_reason(e))
    return [(field, _joined(*reasons)) for field, reasons in reasons_by_field.items()]


def _joined(first: str, *rest: str) -> str:
    return " or ".join((first, *(reason.removeprefix("must be ") for reason in rest)))


_REASONS = {
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dict_type": "must be an object",
    "mapping_type": "must be an object",
    "tuple_type": "must be an array",
    "list_type": "must be an array",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "missing": "is required",
    "string_pattern_mismatch": "has an invalid format",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "too_long": "must not have more than {max_length} elements",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "enum": "must be {expected}",
    "literal_error": "must be {expected}",
    "union_tag_invalid": "{discriminator} must be one of {expected_tags}",
    "union_tag_not_found": "{discriminator} is required",
}
"""Reasons in terms of JSON, by pydantic's error type. Names in braces are from the error's context."""


def _reason(error: ErrorDetails) -> str:
    template = _REASONS.get(error["type"])
    message = error["msg"].removeprefix("Value error, ")
    return _shortened(message if template is None else template.format_map(error.get("ctx", {})))


def _shortened(reason: str) -> str:
    return reason if len(reason) <= _MAX_REASON else reason[: _MAX_REASON - 1] + "…"


def _path(location: Sequence[int | str], raw: object, at: str, *, missing: bool) -> str:
    """The JSON path of a pydantic location, without the tags that pydantic inserts for members of a union."""
    path, value, tagged = at, raw, False
    for position, step in enumerate(location):
        last = position == len(location) - 1
        if isinstance(step, str) and not last and not tagged and _is_tag(step, value):
            tagged = True
            continue
        if isinstance(step, str) and not missing and not (isinstance(value, Mapping) and step in value):
            break  # the name of a union member, not of a field
        tagged = False
        if isinstance(step, int):
            path += f"[{step}]"
            value = cast("Sequence[object]", value)[step] if isinstance(value, list | tuple) else None
        else:
            path += f".{step}" if path else step
            value = cast("Mapping[str, object]", value).get(step) if isinstance(value, Mapping) else None
    return path


def _is_tag(step: str, value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    fields = cast("Mapping[str, object]", value)
    return any(fields.get(tag) == step for tag in _TAGS)
