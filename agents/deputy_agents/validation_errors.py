"""What is wrong with a file that people write, in the words of JSON and not in those of a library."""

import json

from pydantic import ValidationError

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.text import cut, visible

_MAX = 300
_REASONS = {
    "model_type": "an object is needed",
    "model_attributes_type": "an object is needed",
    "dict_type": "an object is needed",
    "mapping_type": "an object is needed",
    "tuple_type": "a list is needed",
    "list_type": "a list is needed",
    "string_type": "a text is needed",
    "bool_type": "true or false is needed",
    "int_type": "a whole number is needed",
    "float_type": "a number is needed",
    "missing": "it is required",
    "extra_forbidden": "there is no such field",
    "string_too_short": "it must not be empty",
    "string_too_long": "it must have at most {max_length} characters",
    "too_long": "it must have at most {max_length} entries",
    "greater_than": "it must be above {gt}",
    "less_than_equal": "it must be at most {le}",
    "enum": "it must be {expected}",
    "literal_error": "it must be {expected}",
}
"""By pydantic's type of error; in braces what it tells of it."""


class Malformed(InvalidRequest):
    """A text is no JSON. ``line`` is where, from 1."""

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.line = line


def parsed(text: str) -> object:
    """The JSON value that ``text`` is.

    Raises:
        Malformed: it is none.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise Malformed(f"it is no valid JSON ({where})", error.lineno) from None
    except (ValueError, RecursionError):
        raise Malformed("it is no valid JSON: something in it is too long or too deep") from None


def told(error: ValidationError, at: str = "") -> str:
    """The first thing that ``error`` finds, with its path below ``at``."""
    first = error.errors(include_url=False, include_input=False)[0]
    path = at
    for step in first["loc"]:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    template = _REASONS.get(first["type"])
    reason = plain(first["msg"]) if template is None else template.format_map(first.get("ctx", {}))
    return cut(visible(f"{path}: {reason}" if path else reason), _MAX)


def unreadable(error: OSError) -> str:
    """Why a file cannot be read."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    return f"it cannot be read ({(error.strerror or type(error).__name__).lower()})"


def plain(message: str) -> str:
    """What the library says where there is no word for it here."""
    message = message.removeprefix("Value error, ").removeprefix("Assertion failed, ").partition(", unable to parse")[0]
    return message.replace("Input should be", "it must be", 1).replace("Input should", "it must", 1)
