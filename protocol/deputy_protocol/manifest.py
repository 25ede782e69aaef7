"""The server's settings in the manifest of the VS Code extension. All else in the manifest is written by hand."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from deputy_protocol.schema import Schema
from deputy_protocol.settings import PLANNED

_ROOT = Path(__file__).resolve().parents[2]
MANIFEST = "editors/vscode/package.json"
_TITLE = "Server"
_NOT_FOR_USERS = frozenset({"token", "trusted"})
"""The editor itself says whether it trusts a folder; the token is for connections that it does not make."""
_MACHINE = frozenset({"api", "baseUrl", "roots"})
"""What runs programs, or says where the key and the files go: never taken from the settings of a folder."""
_CARRIED = ("default", "enum", "minimum", "exclusiveMinimum", "items")


def manifest(contract: Schema) -> str:
    """`editors/vscode/package.json`, with the settings as the contract has them."""
    written = json.loads((_ROOT / MANIFEST).read_text("utf-8"))
    server = {"title": _TITLE, "properties": dict(_settings(contract["$defs"], contract["$defs"]["Settings"]))}
    groups: list[Schema] = written["contributes"]["configuration"]
    groups[:] = [*(group for group in groups if group["title"] != _TITLE), server]
    names = [name for group in groups for name in group["properties"]]
    written["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"] = names
    return json.dumps(written, indent=2, ensure_ascii=False) + "\n"


def _settings(types: Schema, schema: Schema, prefix: str = "") -> Iterator[tuple[str, Schema]]:
    for field, shape in cast("dict[str, Schema]", schema["properties"]).items():
        name = f"{prefix}{field}"
        if name in PLANNED or name in _NOT_FOR_USERS:
            continue
        full = _resolved(types, shape)
        if "properties" in full:
            yield from _settings(types, full, f"{name}.")
        else:
            yield f"deputy.{name}", _property(name, full)


def _property(name: str, shape: Schema) -> Schema:
    """A setting that has no default is null until it is set: the server decides then."""
    optional = "default" not in shape
    kind = shape["type"]
    return {
        "type": [kind, "null"] if optional else kind,
        **{key: _plain(shape[key]) for key in _CARRIED if key in shape},
        **({"default": None} if optional else {}),
        "scope": "machine" if name.partition(".")[0] in _MACHINE else "window",
        "markdownDescription": shape.get("description", ""),
    }


def _resolved(types: Schema, shape: Schema) -> Schema:
    """A shape with what it refers to in place, its own words first."""
    match shape:
        case {"$ref": str(ref)}:
            own = {key: value for key, value in shape.items() if key != "$ref"}
            return _resolved(types, types[ref.rpartition("/")[2]]) | own
        case {"items": dict()}:
            return shape | {"items": _resolved_items(types, shape["items"])}
        case _:
            return shape


def _resolved_items(types: Schema, items: Schema) -> Schema:
    full = _resolved(types, items)
    if "properties" not in full:
        return full
    fields = cast("dict[str, Schema]", full["properties"])
    return full | {"properties": {field: _resolved(types, shape) for field, shape in fields.items()}}


def _plain(value: object) -> object:
    """Whole numbers as npm writes them."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
