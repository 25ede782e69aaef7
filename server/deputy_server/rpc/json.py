"""JSON values of unknown shape: how a message is read, and how it is looked at safely."""

import json
import re
from typing import TypeAlias, TypeGuard, cast

from deputy_agents.text import readable

JsonObject: TypeAlias = dict[str, object]


MAX_VALUES = 300_000
"""Values that one message may hold. Long texts are cheap to take; many small values hold up all other clients."""

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_HALVES = (re.compile(rb"\\u[dD][89a-fA-F]"), re.compile(rb"\xed[\xa0-\xbf]"))
"""How half of a surrogate pair is written, and how no encoder should write it."""


class NotJson(ValueError):
    """It cannot be read. The text is a sentence that says why."""


def read(body: bytes) -> object:
    """What a message says. Half of a surrogate pair, which JSON can carry but no file and no other message, becomes the
    sign for what is no character, as with any decoder.

    Raises:
        NotJson: the message cannot be read, or holds more than :data:`MAX_VALUES` values.
    """
    if _holds_many(body):
        raise NotJson(f"The message holds more than {MAX_VALUES} values.")
    try:
        message: object = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise NotJson("The message is not valid JSON.") from None
    return _readable(message) if any(half.search(body) for half in _HALVES) else message


def _holds_many(body: bytes) -> bool:
    """Whether it has more than :data:`MAX_VALUES` values: found out in a time that depends on its length alone."""
    if _separators(body) <= MAX_VALUES:
        return False
    quotes = body.count(b'"') - body.count(b'\\"')
    return quotes > 4 * MAX_VALUES or _separators(_STRING.sub(b"", body)) > MAX_VALUES


def _separators(data: bytes) -> int:
    return sum(map(data.count, (b",", b"[", b"{")))


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _readable(value: object) -> object:
    match value:
        case str():
            return readable(value)
        case list():
            return [_readable(one) for one in cast("list[object]", value)]
        case dict():
            return {readable(key): _readable(one) for key, one in cast("JsonObject", value).items()}
        case _:
            return value


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Whether ``value``, which was read from JSON, is an object (whose keys are strings then)."""
    return isinstance(value, dict)


def dig(value: object, *keys: str) -> object:
    """The value at the end of a path of keys, or ``None`` where the path breaks off."""
    for key in keys:
        if not is_object(value):
            return None
        value = value.get(key)
    return value


def items(value: object) -> list[object]:
    """The elements of an array; of anything else, none."""
    return cast(list[object], value) if isinstance(value, list) else []
