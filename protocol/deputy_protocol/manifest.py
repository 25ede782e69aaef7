"""The settings, version and addresses in the manifest of the VS Code extension. The rest of it is written by hand."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from deputy_protocol.release import identity
from deputy_protocol.schema import Schema

_ROOT = Path(__file__).resolve().parents[2]
MANIFEST = "editors/vscode/package.json"
_TITLE = "Server"
_NOT_FOR_USERS = frozenset({"token", "trusted"})
"""Settings that the extension sets itself: VS Code decides whether a folder is trusted, and only connections over TCP
need a token."""
_MACHINE = frozenset(
    {
        *("api", "baseUrl", "hooks", "mcpServers", "providers", "roots"),
        *("sessions.keepDays", "shell.env", "shell.isolation", "shell.sandboxHosts", "web.allowPrivate"),
    }
)
"""Settings, or groups of them, that run programs, decide where the key and the files go, or delete something. They
never apply from the settings of a workspace. `editors/vscode/src/state/reach.ts` classifies every setting."""
_COPIED = ("default", "enum", "minimum", "exclusiveMinimum", "items")


def manifest(contract: Schema) -> str:
    """`editors/vscode/package.json`, with settings, version and addresses replaced."""
    package = json.loads((_ROOT / MANIFEST).read_text("utf-8")) | identity()
    server = {"title": _TITLE, "properties": dict(_settings(contract["$defs"], contract["$defs"]["Settings"]))}
    groups: list[Schema] = package["contributes"]["configuration"]
    groups[:] = [*(group for group in groups if group["title"] != _TITLE), server]
    names = [name for group in groups for name in group["properties"]]
    package["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"] = names
    return json.dumps(package, indent=2, ensure_ascii=False) + "\n"


def _settings(types: Schema, schema: Schema, prefix: str = "") -> Iterator[tuple[str, Schema]]:
    for field, shape in cast("dict[str, Schema]", schema["properties"]).items():
        name = f"{prefix}{field}"
        if name in _NOT_FOR_USERS:
            continue
        full = _resolved(types, shape)
        if "properties" in full:
            yield from _settings(types, full, f"{name}.")
        else:
            yield f"deputy.{name}", _property(name, full)


def _property(name: str, shape: Schema) -> Schema:
    """A setting without a default is null until the user sets it; the server then decides."""
    optional = "default" not in shape
    kind = shape["type"]
    return {
        "type": [kind, "null"] if optional else kind,
        **{key: _plain(shape[key]) for key in _COPIED if key in shape},
        **({"default": None} if optional else {}),
        "scope": "machine" if {name, name.partition(".")[0]} & _MACHINE else "window",
        "markdownDescription": shape.get("description", ""),
    }


def _resolved(types: Schema, shape: Schema) -> Schema:
    """``shape`` with its reference resolved. Its own keys take precedence over those of the referenced type."""
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
    """Whole numbers without a fraction, as npm writes them."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
