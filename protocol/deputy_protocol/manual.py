"""The reference pages, generated from the JSON Schema document and the docstrings of the package."""

import json
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from inspect import cleandoc
from types import ModuleType
from typing import cast

import deputy_protocol
from deputy_protocol import (
    agent,
    capabilities,
    checkpoint,
    command,
    context,
    definition,
    editor,
    errors,
    event,
    metrics,
    model,
    permission,
    process,
    progress,
    review,
    rule,
    session,
    settings,
    user_input,
)
from deputy_protocol.schema import GENERATED, Schema, one_line

_METHOD_SECTIONS: dict[str, tuple[str, ModuleType]] = {
    "session": ("Sessions and turns", session),
    "agent": ("Agents", agent),
    "review": ("Review of changes", review),
    "checkpoint": ("Checkpoints and rewind", checkpoint),
    "permission": ("Permission requests", permission),
    "input": ("Input requests", user_input),
    "rule": ("Permission rules", rule),
    "model": ("Models", model),
    "definition": ("Agent definitions", definition),
    "context": ("Context", context),
    "process": ("Background processes", process),
    "metrics": ("Metrics", metrics),
    "editor": ("Editor", editor),
    "event": ("Events", event),
}
_SETTING_SECTIONS = {
    "api": "API connection",
    "agents": "Sub-agents",
    "budgets": "Budgets",
    "limits": "Limits",
    "web": "Web access",
    "permissions": "Permissions",
    "shell": "Shell commands",
    "review": "Review of changes",
    "sessions": "Stored sessions",
}
_ENVELOPE = frozenset({"type", "sessionId", "agentId", "run", "time", "seq", "agentSeq", "afterSeq"})
_SENDERS = {"client_to_server": "client", "server_to_client": "server"}
_SCALARS = frozenset({"string", "integer", "number", "boolean", "object"})


def protocol_manual(contract: Schema) -> str:
    """`docs/protocol.md`."""
    properties = [shape for schema in contract["$defs"].values() for shape in schema.get("properties", {}).values()]
    shared = {name for name in _references(properties) if not _is_settings(name)}
    return "\n\n".join(_Manual(contract, shared).protocol()) + "\n"


def settings_manual(contract: Schema) -> str:
    """`docs/settings.md`."""
    return "\n\n".join(_Manual(contract, frozenset()).settings()) + "\n"


class _Manual:
    """Renders the contract as paragraphs of Markdown.

    The types named in ``shared`` have their own sections, to which tables link. The fields of all other payloads are
    shown with their method.
    """

    def __init__(self, contract: Schema, shared: AbstractSet[str]) -> None:
        self._contract = contract
        self._types: dict[str, Schema] = contract["$defs"]
        self._shared = shared

    def protocol(self) -> Iterator[str]:
        yield from _title(f"The Deputy protocol, version {self._contract['protocolVersion']}")
        yield _doc(deputy_protocol).partition("\n\n")[2]
        yield "## Negotiation"
        yield _doc(capabilities)
        for side, schema in cast("dict[str, Schema]", self._contract["capabilities"]).items():
            yield self._payload(f"The {side}'s object", schema)
        yield from self._methods()
        yield from ("## Work-done progress", _doc(progress))
        yield from self._commands()
        yield from self._errors()
        yield from ("## Settings", _doc(settings), "All settings are described in [settings.md](settings.md).")
        yield from self._type_sections()

    def settings(self) -> Iterator[str]:
        groups = {field: name for field, name in self._setting_types("Settings") if _is_settings(name)}
        yield from _title("Settings")
        yield _doc(settings)
        yield "In VS Code, all settings have the prefix `deputy.`."
        yield "## General"
        yield from self._setting_tables("Settings", without=groups.keys())
        for field, name in groups.items():
            yield from (f"## {_SETTING_SECTIONS[field]}", self._about(name))
            yield from self._setting_tables(name, f"{field}.")
        yield "## Environment variables"
        yield _table(("variable", "meaning"), ((f"`{name}`", text) for name, text in settings.ENVIRONMENT.items()))

    def _methods(self) -> Iterator[str]:
        methods: dict[str, Schema] = self._contract["methods"]
        yield "## Methods"
        rows = ((_link(name), _SENDERS[e["direction"]], e["kind"], e["description"]) for name, e in methods.items())
        yield _table(("method", "sent by", "kind", "meaning"), rows)
        for resource, (heading, module) in _METHOD_SECTIONS.items():
            yield from (f"## {heading}", _doc(module))
            for name, entry in methods.items():
                if name.split("/")[1] == resource:
                    yield from self._method(name, entry)

    def _method(self, name: str, entry: Schema) -> Iterator[str]:
        yield f"### {name}"
        yield f"{entry['kind'].capitalize()}, sent by the {_SENDERS[entry['direction']]}. {entry['description']}"
        if _name(entry["params"]) == "EventParams":
            yield from self._event_sections()
        else:
            yield self._payload("Params", entry["params"])
        if "result" in entry:
            yield self._payload("Result", entry["result"])

    def _event_sections(self) -> Iterator[str]:
        names = [_name(choice) for choice in self._types["EventParams"]["oneOf"]]
        tags = {name: self._types[name]["properties"]["type"]["const"] for name in names}
        rows = ((_link(tag, f"event-{tag}"), self._delivery(name), self._about(name)) for name, tag in tags.items())
        yield _table(("type", "delivery", "meaning"), rows)
        for name, tag in tags.items():
            # "Event" keeps the anchor different from that of a type of the same name.
            yield from (f"#### Event {tag}", self._about(name), self._fields(name, without=_ENVELOPE))

    def _delivery(self, name: str) -> str:
        fields: Schema = self._types[name]["properties"]
        return "durable" if "seq" in fields else "lossy" if "agentId" in fields else "derived"

    def _commands(self) -> Iterator[str]:
        yield from ("## Commands", _doc(command))
        for name, entry in cast("dict[str, Schema]", self._contract["commands"]).items():
            # "Command" keeps the anchor different from that of the method of the same name.
            yield from (f"### Command {name}", entry["description"])
            yield self._payload("Argument", entry["argument"])
            yield self._payload("Result", entry["result"])

    def _errors(self) -> Iterator[str]:
        yield from ("## Errors", _doc(errors))
        entries: dict[str, Schema] = self._contract["errors"]
        rows = ((str(entry["code"]), f"`{name}`", entry["description"]) for name, entry in entries.items())
        yield _table(("code", "name", "meaning"), rows)
        for entry in entries.values():
            if "data" in entry:
                yield self._payload(f"`data` of {entry['code']}", entry["data"])

    def _type_sections(self) -> Iterator[str]:
        yield "## Types"
        for name in sorted(self._shared):
            yield from (f"### {name}", self._about(name))
            values: list[str] | None = self._types[name].get("enum")
            yield "One of " + _either(f"`{value}`" for value in values) + "." if values else self._fields(name)

    def _payload(self, lead: str, schema: Schema) -> str:
        name = _name(schema)
        if not self._types[name].get("properties"):
            return f"{lead}: an object without fields."
        return f"{lead}: {_link(name)}." if name in self._shared else f"{lead}:\n\n{self._fields(name)}"

    def _fields(self, name: str, without: AbstractSet[str] = frozenset()) -> str:
        required: list[str] = self._types[name].get("required", [])
        rows = [
            (f"`{field}`" if field in required else f"`{field}?`", self._type(shape), _meaning(shape))
            for field, shape in cast("dict[str, Schema]", self._types[name]["properties"]).items()
            if field not in without
        ]
        return _table(("field", "type", "meaning"), rows) if rows else "No further fields."

    def _setting_tables(self, name: str, prefix: str = "", without: AbstractSet[str] = frozenset()) -> Iterator[str]:
        """A table of the settings of a type, then a table of fields for each setting that is a list of objects."""
        yield _table(("setting", "type", "default", "meaning"), self._setting_rows(name, prefix, without))
        for field, item in self._setting_types(name, "items"):
            if field not in without and _is_settings(item):
                yield from (f"### Entries of `{prefix}{field}`", self._about(item), self._fields(item))

    def _setting_rows(self, name: str, prefix: str, without: AbstractSet[str] = frozenset()) -> Iterator[Sequence[str]]:
        """A row for each setting of a type. Names of nested groups become prefixes."""
        for field, shape in cast("dict[str, Schema]", self._types[name]["properties"]).items():
            if field in without:
                continue
            if _is_settings(_name(shape)):
                yield from self._setting_rows(_name(shape), f"{prefix}{field}.")
            else:
                yield f"`{prefix}{field}`", self._type(shape), _default(shape), shape.get("description", "")

    def _setting_types(self, name: str, part: str = "") -> Iterator[tuple[str, str]]:
        """The fields of a type, with the name of the type that they, or a ``part`` of them, refer to."""
        for field, shape in cast("dict[str, Schema]", self._types[name]["properties"]).items():
            yield field, _name(shape.get(part, {}) if part else shape)

    def _type(self, shape: Schema) -> str:
        """The type as text."""
        match shape:
            case {"$ref": _}:
                return self._reference(_name(shape))
            case {"const": value}:
                return f"`{value}`"
            case {"anyOf": choices} | {"oneOf": choices}:
                return _either(self._type(choice) for choice in choices)
            case {"type": "array", "items": items}:
                return f"list of {self._items(items)}"
            case {"type": "object", "additionalProperties": dict()}:
                return f"object with values of type {self._type(shape['additionalProperties'])}"
            case {"type": str(kind)}:
                return kind + _bound(shape)
            case _:
                return "any"

    def _items(self, shape: Schema) -> str:
        """The type of the items of a list as text: in the plural where it has one, in brackets if it is a union."""
        text = self._type(shape)
        if text in _SCALARS:
            return f"{text}s"
        return text if "$ref" in shape or "type" in shape else f"({text})"

    def _reference(self, name: str) -> str:
        if name in self._shared:
            return _link(name)
        values: list[str] | None = self._types[name].get("enum")
        return _either(f"`{value}`" for value in values) if values else "object"

    def _about(self, name: str) -> str:
        return self._types[name]["description"]


def _title(text: str) -> Iterator[str]:
    yield f"<!-- {GENERATED} -->"
    yield f"# {text}"


def _doc(module: ModuleType) -> str:
    return cleandoc(module.__doc__ or "")


def _name(schema: Schema) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _references(node: object) -> Iterator[str]:
    """Names of all types that ``node`` refers to."""
    match node:
        case {"$ref": str(ref)}:
            yield ref.rpartition("/")[2]
        case dict():
            for value in cast("dict[str, object]", node).values():
                yield from _references(value)
        case list():
            for value in cast("list[object]", node):
                yield from _references(value)
        case _:
            pass


def _is_settings(name: str) -> bool:
    return name.endswith(("Settings", "Setting"))


def _bound(shape: Schema) -> str:
    match shape:
        case {"exclusiveMinimum": bound}:
            return f", greater than {bound}"
        case {"minimum": bound}:
            return f", at least {bound}"
        case _:
            return ""


def _default(shape: Schema) -> str:
    return f"`{json.dumps(shape['default']).removesuffix('.0')}`" if "default" in shape else ""


def _meaning(shape: Schema) -> str:
    default = _default(shape)
    return " ".join(part for part in (shape.get("description", ""), default and f"Default: {default}.") if part)


def _either(choices: Iterable[str]) -> str:
    *most, last = choices
    return f"{', '.join(most)} or {last}" if most else last


def _link(text: str, heading: str = "") -> str:
    """A link to a heading in the same document, using the anchor that Markdown renderers generate for it."""
    anchor = "".join(c for c in (heading or text).lower() if c.isalnum() or c in "-_")
    return f"[{text}](#{anchor})"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(one_line(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)
