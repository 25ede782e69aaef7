"""JSON values of unknown shape: parsing of messages, and safe access to their fields."""

import json
import re
from typing import TypeAlias, TypeGuard, cast

from deputy_agents.text import well_formed

JsonObject: TypeAlias = dict[str, object]


MAX_VALUES = 300_000
"""Maximum number of values in one message. Long strings are cheap to parse; many small values block all clients."""

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_SURROGATES = (re.compile(rb"\\u[dD][89a-fA-F]"), re.compile(rb"\xed[\xa0-\xbf]"))
"""A surrogate as an escape sequence, and as the bytes that an invalid encoder writes."""


class NotJson(ValueError):
    """The message cannot be parsed; the text is a sentence that states why."""


def parse_json(body: bytes) -> object:
    """Parse a message. A lone surrogate, which JSON can carry but files and other messages cannot, becomes the
    replacement character, as with any decoder.

    Raises:
        NotJson: the message cannot be parsed, or has more than :data:`MAX_VALUES` values.
    """
    if _exceeds_max_values(body):
        raise NotJson(f"The message has more than {MAX_VALUES} values.")
    try:
        message: object = json.loads(body, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        raise NotJson("The message is not valid JSON.") from None
    return _without_surrogates(message) if any(pattern.search(body) for pattern in _SURROGATES) else message


def _exceeds_max_values(body: bytes) -> bool:
    """Whether there are more than :data:`MAX_VALUES` values, in time linear in the length."""
    if _count_separators(body) <= MAX_VALUES:
        return False
    quotes = body.count(b'"') - body.count(b'\\"')
    return quotes > 4 * MAX_VALUES or _count_separators(_STRING.sub(b"", body)) > MAX_VALUES


def _count_separators(data: bytes) -> int:
    return sum(map(data.count, (b",", b"[", b"{")))


def _reject_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _without_surrogates(value: object) -> object:
    match value:
        case str():
            return well_formed(value)
        case list():
            return [_without_surrogates(one) for one in cast("list[object]", value)]
        case dict():
            return {well_formed(key): _without_surrogates(one) for key, one in cast("JsonObject", value).items()}
        case _:
            return value


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Whether ``value``, which was parsed from JSON, is an object."""
    return isinstance(value, dict)


def dig(value: object, *keys: str) -> object:
    """Return the value at a path of keys, or ``None`` where the path does not exist."""
    for key in keys:
        if not is_object(value):
            return None
        value = value.get(key)
    return value


def items(value: object) -> list[object]:
    """Return the elements of an array; of any other value, an empty list."""
    return cast(list[object], value) if isinstance(value, list) else []
