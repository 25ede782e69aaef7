"""The types of the contract as annotations for the Lua language server, generated from the JSON Schema document."""

from collections.abc import Iterator
from typing import cast

from deputy_protocol.schema import GENERATED, Schema, one_line

_PLAIN = {"string": "string", "integer": "integer", "number": "number", "boolean": "boolean", "null": "nil"}


def lua_types(contract: Schema) -> str:
    """`editors/nvim/lua/deputy/types.lua`."""
    parts = ["\n".join(_definition(name, shape)) for name, shape in contract["$defs"].items()]
    return "\n\n".join([f"---@meta\n-- {GENERATED}", *parts]) + "\n"


def _definition(name: str, shape: Schema) -> Iterator[str]:
    if about := one_line(shape.get("description")):
        yield f"---{about}"
    if "properties" not in shape:
        yield f"---@alias deputy.{name} {_type(shape)}"
        return
    yield f"---@class deputy.{name}"
    required: list[str] = shape.get("required", [])
    for field, inner in cast("dict[str, Schema]", shape["properties"]).items():
        optional = "" if field in required else "?"
        yield f"---@field {field}{optional} {_type(inner)} {one_line(inner.get('description'))}".rstrip()


def _type(shape: Schema) -> str:
    match shape:
        case {"$ref": str(ref)}:
            return f"deputy.{ref.rpartition('/')[2]}"
        case {"const": value}:
            return _literal(value)
        case {"enum": [*values]}:
            return "|".join(map(_literal, values))
        case {"anyOf": [*choices]} | {"oneOf": [*choices]}:
            return "|".join(map(_type, choices))
        case {"type": "array"}:
            inner = _type(shape["items"])
            return f"({inner})[]" if "|" in inner else f"{inner}[]"
        case {"type": "object", "additionalProperties": dict()}:
            return f"table<string, {_type(shape['additionalProperties'])}>"
        case {"type": "object"}:
            return "table<string, any>"
        case {"type": str(kind)}:
            return _PLAIN[kind]
        case _:
            return "any"


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value).lower()
