"""Input schemas of typed definitions: JSON Schema of an object, draft 2020-12.

References must point into the same schema: nothing is fetched.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

from deputy_agents.definition.json_schema import TooManySteps, find_errors, format_checker
from deputy_agents.domain.errors import DeputyError, ToolError
from deputy_agents.patterns.linear import PatternError
from deputy_agents.text import cut, visible

if TYPE_CHECKING:
    from jsonschema.exceptions import SchemaError as Invalid
    from jsonschema.exceptions import ValidationError

MAX_BYTES = 16 * 1024
MAX_ERRORS = 5
_UNSUPPORTED: Final = {"unevaluatedItems": "items", "unevaluatedProperties": "additionalProperties"}
"""Keywords that take a second pass over the schema, which nothing bounds, with what to use instead."""


class SchemaError(DeputyError):
    """A schema cannot describe the input of a tool."""


def check_schema(schema: object) -> Mapping[str, object]:
    """Return ``schema`` if it can describe the input of a tool.

    Raises:
        SchemaError: it is not a JSON Schema of an object, is too large, refers to another document, or has a pattern
            that cannot be matched in linear time.
    """
    from jsonschema import Draft202012Validator  # late: it takes long to import
    from jsonschema.exceptions import SchemaError as Invalid

    if not isinstance(schema, dict):
        raise SchemaError("must be a JSON Schema of an object")
    fields = cast("dict[str, object]", schema)
    if fields.get("type") != "object":
        raise SchemaError("the type must be object")
    try:
        if len(json.dumps(fields)) > MAX_BYTES:
            raise SchemaError(f"must not be larger than {MAX_BYTES} bytes")
        _check_keywords(fields)
        Draft202012Validator.check_schema(fields, format_checker=format_checker())
    except RecursionError:
        raise SchemaError("is nested too deeply") from None
    except Invalid as error:
        where = ".".join(map(str, error.absolute_path))
        reason = _reason(error)
        raise SchemaError(cut(f"{where}: {reason}" if where else reason, 300)) from None
    return fields


def _reason(error: "Invalid") -> str:
    if isinstance(error.cause, PatternError):
        return f"the pattern {cut(visible(str(error.instance)), 80)} is not valid: {error.cause}"
    return error.message


def _check_keywords(node: object) -> None:
    match node:
        case dict():
            for key, value in cast("dict[str, object]", node).items():
                if key in ("$ref", "$dynamicRef") and not (isinstance(value, str) and value.startswith("#")):
                    raise SchemaError(f"{key} must point into the same schema")
                if key in _UNSUPPORTED:
                    raise SchemaError(f"{key} is not supported; use {_UNSUPPORTED[key]}")
                _check_keywords(value)
        case list():
            for item in cast("list[object]", node):
                _check_keywords(item)
        case _:
            pass


def check_input(schema: Mapping[str, object], input: Mapping[str, object]) -> dict[str, object]:
    """Validate ``input``. Optional fields that are ``null`` are removed, and missing top-level fields get their
    default.

    Raises:
        ToolError: the input is invalid; the message names the fields.
    """
    required = schema.get("required", ())
    given = {
        name: value
        for name, value in input.items()
        if value is not None or (isinstance(required, list | tuple) and name in required)
    }
    if errors := _validate(schema, given):
        raise ToolError(cut("; ".join(errors), 1000))
    return _defaults(schema) | given


def _validate(schema: Mapping[str, object], input: object) -> list[str]:
    from referencing.exceptions import Unresolvable

    try:
        return [_message(error) for error in find_errors(schema, input, MAX_ERRORS)]
    except TooManySteps:
        raise ToolError("The input takes too long to validate. Pass less.") from None
    except (Unresolvable, RecursionError, PatternError) as error:
        raise ToolError(f"The input schema of this tool is invalid: {cut(visible(str(error)), 200)}") from None


def properties(schema: Mapping[str, object]) -> Mapping[str, object]:
    """The fields of an input, in the order of the schema."""
    found = schema.get("properties")
    return cast("Mapping[str, object]", found) if isinstance(found, dict) else {}


def _defaults(schema: Mapping[str, object]) -> dict[str, object]:
    fields = {name: cast("dict[str, object]", of) for name, of in properties(schema).items() if isinstance(of, dict)}
    return {name: of["default"] for name, of in fields.items() if of.get("default") is not None}


def _message(error: "ValidationError") -> str:
    where = ".".join(map(str, error.absolute_path))
    message = cut(visible(error.message), 300)
    return f"{visible(where)}: {message}" if where else message
