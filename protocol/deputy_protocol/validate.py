"""Reading what came over the wire: one way in, and one error that names the field."""

from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from deputy_protocol.errors import InvalidParams

_M = TypeVar("_M", bound=BaseModel)
_MAX_REASON = 300
_TAGS = ("type", "outcome")


def parse(model: type[_M], raw: object, *, at: str = "") -> _M:
    """``raw``, decoded JSON, as a ``model``; absent (``None``) stands for an object without fields.

    ``at`` is the JSON path of ``raw`` itself, put in front of the fields that are named.

    Raises:
        InvalidParams: ``raw`` does not validate.
    """
    given: object = {} if raw is None else raw
    try:
        return model.model_validate(given, by_name=False)
    except ValidationError as error:
        raise InvalidParams(_problems(error, given, at)) from None


def _problems(error: ValidationError, given: object, at: str) -> list[tuple[str, str]]:
    """One for each field. An array with a bad element is told by the element alone."""
    found = error.errors(include_url=False, include_input=False)
    inner = {e["loc"][:depth] for e in found for depth in range(len(e["loc"]))}
    told: dict[str, list[str]] = {}
    for e in found:
        if e["loc"] not in inner:
            path = _path(e["loc"], given, at, missing=e["type"] == "missing")
            told.setdefault(path, []).append(_reason(e))
    return [(field, " or ".join(reasons)) for field, reasons in told.items()]


_REASONS = {
    "model_type": "an object is needed",
    "model_attributes_type": "an object is needed",
    "dict_type": "an object is needed",
    "mapping_type": "an object is needed",
    "tuple_type": "an array is needed",
    "list_type": "an array is needed",
    "string_type": "a string is needed",
    "bool_type": "true or false is needed",
    "int_type": "a whole number is needed",
    "float_type": "a number is needed",
    "missing": "it is required",
    "string_pattern_mismatch": "it does not have the form that is needed",
    "string_too_short": "it must not be empty",
    "too_short": "it must not be empty",
    "too_long": "it must not have more than {max_length}",
    "greater_than": "it must be above {gt}",
    "greater_than_equal": "it must be at least {ge}",
    "less_than_equal": "it must be at most {le}",
    "enum": "it must be {expected}",
    "literal_error": "it must be {expected}",
    "union_tag_invalid": "its {discriminator} must be one of {expected_tags}",
    "union_tag_not_found": "its {discriminator} is required",
}
"""Reasons in the words of JSON, by pydantic's type of error; in braces what pydantic tells of it."""


def _reason(error: ErrorDetails) -> str:
    template = _REASONS.get(error["type"])
    own = error["msg"].removeprefix("Value error, ")
    return _bounded(own if template is None else template.format_map(error.get("ctx", {})))


def _bounded(reason: str) -> str:
    return reason if len(reason) <= _MAX_REASON else reason[: _MAX_REASON - 1] + "…"


def _path(location: Sequence[int | str], raw: object, at: str, *, missing: bool) -> str:
    """The JSON path of a location, without the tags that pydantic puts in where it has chosen among shapes."""
    path, value, tagged = at, raw, False
    for position, step in enumerate(location):
        last = position == len(location) - 1
        if isinstance(step, str) and not last and not tagged and _is_tag(step, value):
            tagged = True
            continue
        if isinstance(step, str) and not missing and not (isinstance(value, Mapping) and step in value):
            break  # it is the name of a type that was tried
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
