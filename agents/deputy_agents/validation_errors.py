"""Error messages for files that users write, in terms of JSON instead of a library."""

import json

from pydantic import ValidationError

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.text import cut, visible

_MAX = 300
_REASONS = {
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dict_type": "must be an object",
    "mapping_type": "must be an object",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "missing": "is required",
    "extra_forbidden": "unknown field",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "too_long": "must have at most {max_length} entries",
    "greater_than": "must be greater than {gt}",
    "less_than_equal": "must be at most {le}",
    "enum": "must be {expected}",
    "literal_error": "must be {expected}",
}
"""Messages by the error type of pydantic, whose context fills in the placeholders."""


class InvalidJson(InvalidRequest):
    """A text is not valid JSON. ``line`` counts from 1."""

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.line = line


def parse_json(text: str) -> object:
    """Parse ``text``.

    Raises:
        InvalidJson: it is not valid JSON.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidJson(f"invalid JSON ({where})", error.lineno) from None
    except (ValueError, RecursionError):
        raise InvalidJson("invalid JSON: a value is too long or nested too deeply") from None


def describe(error: ValidationError, at: str = "") -> str:
    """The first problem in ``error``, with its path below ``at``."""
    first = error.errors(include_url=False, include_input=False)[0]
    path = at
    for step in first["loc"]:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    template = _REASONS.get(first["type"])
    reason = simplify(first["msg"]) if template is None else template.format_map(first.get("ctx", {}))
    return cut(visible(f"{path}: {reason}" if path else reason), _MAX)


def describe_os_error(error: OSError) -> str:
    """The reason why a file cannot be read."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    return f"cannot be read ({(error.strerror or type(error).__name__).lower()})"


def simplify(message: str) -> str:
    """A message of pydantic, in the style of the other messages."""
    message = message.removeprefix("Value error, ").removeprefix("Assertion failed, ").partition(", unable to parse")[0]
    return message.replace("Input should be", "must be", 1).replace("Input should", "must", 1)
