"""Validates what the user entered in a form, so that a tool gets only values that fit its fields."""

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from math import isfinite
from typing import cast
from urllib.parse import urlsplit

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.user_input import FieldType, InputField, Value

MAX_TEXT = 100_000
"""Characters of a text."""

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")


def validated(fields: Sequence[InputField], values: Mapping[str, object]) -> dict[str, Value]:
    """``values`` by field. An optional field without a value is left out.

    Raises:
        InvalidRequest: a value is missing, unknown or does not fit its field; it names the field.
    """
    unknown = [name for name in values if all(name != field.name for field in fields)]
    if unknown:
        known = ", ".join(field.name for field in fields) or "none"
        raise InvalidRequest(f"values: there is no field {unknown[0][:100]!r}. Fields: {known}.", "values")
    found = {field.name: _value(field, values.get(field.name)) for field in fields}
    return {name: value for name, value in found.items() if value is not None}


def _value(field: InputField, value: object) -> Value | None:
    if value is None or (value == "" and not field.required and field.type is not FieldType.BOOLEAN):
        if field.required:
            raise _invalid(field, "a value is required")
        return None
    match field.type:
        case FieldType.STRING:
            return _text(field, value)
        case FieldType.NUMBER:
            return _number(field, value)
        case FieldType.BOOLEAN:
            if not isinstance(value, bool):
                raise _invalid(field, "must be true or false")
            return value
        case FieldType.CHOICE:
            return _choice(field, value)
        case FieldType.CHOICES:
            return _choices(field, value)


def _text(field: InputField, value: object) -> str:
    if not isinstance(value, str):
        raise _invalid(field, "must be a text")
    if field.required and not value.strip():
        raise _invalid(field, "a value is required")
    if len(value) > MAX_TEXT:
        raise _invalid(field, f"must have at most {MAX_TEXT:,} characters")
    _check_count(field, len(value), "characters")
    if field.format and not _has_format(value, field.format):
        raise _invalid(field, f"must be a valid {field.format}")
    return value


def _number(field: InputField, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
        raise _invalid(field, "must be a number")
    if field.integer and value != int(value):
        raise _invalid(field, "must be a whole number")
    if field.minimum is not None and value < field.minimum:
        raise _invalid(field, f"must be at least {field.minimum:g}")
    if field.maximum is not None and value > field.maximum:
        raise _invalid(field, f"must be at most {field.maximum:g}")
    return int(value) if field.integer else value


def _choice(field: InputField, value: object) -> str:
    known = [option.value for option in field.options]
    if not isinstance(value, str) or value not in known:
        raise _invalid(field, f"must be one of: {', '.join(known)[:500]}")
    return value


def _choices(field: InputField, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise _invalid(field, "must be a list of options")
    chosen = tuple(_choice(field, one) for one in cast("Sequence[object]", value))
    if len(set(chosen)) < len(chosen):
        raise _invalid(field, "must not contain an option twice")
    _check_count(field, len(chosen), "options")
    return chosen


def _check_count(field: InputField, count: int, what: str) -> None:
    if field.shortest is not None and count < field.shortest:
        raise _invalid(field, f"must have at least {field.shortest} {what}")
    if field.longest is not None and count > field.longest:
        raise _invalid(field, f"must have at most {field.longest} {what}")


def _has_format(text: str, name: str) -> bool:
    try:
        match name:
            case "email":
                return _EMAIL.fullmatch(text) is not None
            case "uri":
                return bool(urlsplit(text).scheme)
            case "date":
                date.fromisoformat(text)
                return True
            case "date-time":
                return datetime.fromisoformat(text).tzinfo is not None
            case _:
                return True
    except ValueError:
        return False


def _invalid(field: InputField, why: str) -> InvalidRequest:
    return InvalidRequest(f"values.{field.name}: {why}.", f"values.{field.name}")
