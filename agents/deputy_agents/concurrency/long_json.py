"""JSON of values with long texts. No other thread can run while a text is encoded, so long ones are encoded in
parts."""

from collections.abc import Iterator, Mapping
from typing import cast

from pydantic_core import to_json

PART = 2**17
"""Characters that are encoded at once."""


def json_parts(value: object) -> Iterator[bytes]:
    """``value`` as JSON, which may be long, in parts.

    Raises:
        ValueError: it is not JSON, such as half a surrogate pair.
    """
    if text_length(value) <= PART:
        yield to_json(value)
        return
    match value:
        case str():
            yield b'"'
            for at in range(0, len(value), PART):
                yield to_json(value[at : at + PART])[1:-1]
            yield b'"'
        case Mapping():
            for index, (name, field) in enumerate(cast("Mapping[str, object]", value).items()):
                yield (b"," if index else b"{") + to_json(name) + b":"
                yield from json_parts(field)
            yield b"}"
        case _:
            for index, item in enumerate(cast("list[object]", value)):
                yield b"," if index else b"["
                yield from json_parts(item)
            yield b"]"


def text_length(value: object) -> int:
    """Characters of the texts in ``value``, without names."""
    match value:
        case str():
            return len(value)
        case Mapping():
            return sum(map(text_length, cast("Mapping[str, object]", value).values()))
        case list() | tuple():
            return sum(map(text_length, cast("list[object]", value)))
        case _:
            return 0
