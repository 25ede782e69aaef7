"""The types of the contract in TypeScript, generated from the JSON Schema document."""

import json
from collections.abc import Iterator
from typing import cast

from deputy_protocol.schema import GENERATED, Schema

_SCALARS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_TABLES = {
    "ClientRequests": ("client_to_server", "request", "Requests sent by the client."),
    "ServerRequests": ("server_to_client", "request", "Requests sent by the server."),
    "ServerNotifications": ("server_to_client", "notification", "Notifications sent by the server."),
}


def typescript(contract: Schema) -> str:
    """`editors/vscode/src/protocol.ts`."""
    parts = [f"// {GENERATED}", f"export const PROTOCOL_VERSION = {contract['protocolVersion']};", _errors(contract)]
    types = cast("dict[str, Schema]", contract["$defs"])
    parts += [_declaration(name, types[name]) for name in sorted(types)]
    parts += [_table(contract, name) for name in _TABLES]
    parts.append(_commands(contract))
    return "\n\n".join(parts) + "\n"


def _errors(contract: Schema) -> str:
    lines = (
        f"  /** {entry['description']} */\n  {name}: {entry['code']},"
        for name, entry in cast("dict[str, Schema]", contract["errors"]).items()
    )
    return "\n".join(("/** Error codes. */", "export const ErrorCode = {", *lines, "} as const;"))


def _declaration(name: str, schema: Schema) -> str:
    about = f"/** {schema['description']} */\n"
    if "properties" not in schema:
        empty = schema.get("type") == "object"
        return f"{about}export type {name} = {'Record<string, never>' if empty else _type(schema)};"
    return f"{about}export interface {name} {{\n" + "\n".join(_fields(schema)) + "\n}"


def _fields(schema: Schema) -> Iterator[str]:
    required: list[str] = schema.get("required", [])
    for field, shape in cast("dict[str, Schema]", schema["properties"]).items():
        if text := shape.get("description"):
            yield f"  /** {text} */"
        yield f"  readonly {field}{'' if field in required else '?'}: {_type(shape)};"


def _type(shape: Schema) -> str:
    match shape:
        case {"$ref": str(ref)}:
            return ref.rpartition("/")[2]
        case {"const": value}:
            return json.dumps(value)
        case {"enum": list()}:
            return " | ".join(json.dumps(value) for value in cast("list[object]", shape["enum"]))
        case {"anyOf": choices} | {"oneOf": choices}:
            return " | ".join(_type(choice) for choice in choices)
        case {"type": "array", "items": items}:
            inner = _type(items)
            return f"readonly ({inner})[]" if " " in inner else f"readonly {inner}[]"
        case {"type": "object", "additionalProperties": dict()}:
            return f"Readonly<Record<string, {_type(shape['additionalProperties'])}>>"
        case {"type": "object"}:
            return "Readonly<Record<string, unknown>>"
        case {"type": str(kind)}:
            return _SCALARS[kind]
        case _:
            return "unknown"


def _table(contract: Schema, name: str) -> str:
    direction, kind, about = _TABLES[name]
    methods = cast("dict[str, Schema]", contract["methods"])
    lines = (
        f"  /** {entry['description']} */\n  {json.dumps(method)}: {_signature(entry, 'params')};"
        for method, entry in methods.items()
        if (entry["direction"], entry["kind"]) == (direction, kind)
    )
    return "\n".join((f"/** {about} */", f"export interface {name} {{", *lines, "}"))


def _commands(contract: Schema) -> str:
    lines = (
        f"  /** {entry['description']} */\n  {json.dumps(command)}: {_signature(entry, 'argument')};"
        for command, entry in cast("dict[str, Schema]", contract["commands"]).items()
    )
    return "\n".join(("/** Commands of `workspace/executeCommand`. */", "export interface Commands {", *lines, "}"))


def _signature(entry: Schema, given: str) -> str:
    result = f"; result: {_type(entry['result'])}" if "result" in entry else ""
    return f"{{ {given}: {_type(entry[given])}{result} }}"
