"""Input schemas of MCP servers in the form that model services accept, and arguments back in the form of the server.

Services accept JSON Schema of draft 2020-12, an object without alternatives at the top, and property names of a small
alphabet. MCP servers send all drafts and names such as ``filter[name]`` and ``@type``. :func:`model_schema` corrects
what it can, and drops what it cannot: the MCP server still validates the arguments.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TypeAlias, TypeGuard, cast

Json: TypeAlias = Mapping[str, object]

MAX_DEPTH = 64
"""Levels of a schema."""
MAX_NODES = 20_000
"""Values in a schema for a model."""
MAX_NAME = 64

_NAME = re.compile(rf"[a-zA-Z0-9_.-]{{1,{MAX_NAME}}}")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_.-]+")
_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_TYPE_ALIASES = {
    **dict.fromkeys(("int", "int32", "int64", "long"), "integer"),
    **dict.fromkeys(("float", "double", "decimal"), "number"),
    **dict.fromkeys(("str", "text"), "string"),
    **dict.fromkeys(("dict", "map", "record"), "object"),
    **dict.fromkeys(("list", "tuple", "set"), "array"),
    "bool": "boolean",
    "none": "null",
}
_SCHEMA = frozenset(
    {
        *("additionalProperties", "propertyNames", "contains", "not", "if", "then", "else", "contentSchema"),
        *("unevaluatedItems", "unevaluatedProperties"),
    }
)
_LISTS = ("allOf", "anyOf", "oneOf")
_MAPS = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
_BY_PROPERTY = frozenset({"properties", "dependentSchemas", "dependentRequired", "dependencies"})
"""Keywords whose keys are names of properties."""
_NUMBERS = frozenset({"maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"})
_COUNTS = frozenset(
    {
        *("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"),
        *("maxContains", "minContains"),
    }
)
_FLAGS = frozenset({"uniqueItems", "deprecated", "readOnly", "writeOnly"})
_TEXTS = frozenset(
    {"title", "description", "format", "contentEncoding", "contentMediaType", "pattern", "$comment", "$ref"}
)
_CLOSING = ("additionalProperties", "unevaluatedProperties")
_DROPPED = frozenset(
    {
        *("$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"),
        *("$vocabulary", "additionalItems"),
    }
)
"""Keywords of other drafts and of references that only whole documents have."""


class SchemaTooLarge(ValueError):
    """A schema is nested too deeply, or too large once its alternatives are merged."""


@dataclass(frozen=True, slots=True)
class ModelSchema:
    """A schema for a model. ``names`` maps property names that the model sees to those of the MCP server, where they
    differ."""

    schema: Json
    names: Mapping[str, str] = field(default_factory=dict[str, str])

    def arguments(self, given: Json) -> dict[str, object]:
        """Arguments of a model as the MCP server expects them."""
        return cast("dict[str, object]", self._restored(given, [self.schema])) if self.names else dict(given)

    def _restored(self, value: object, schemas: Iterable[object]) -> object:
        if isinstance(value, list):
            applicable = [one for schema in schemas for one in _applicable(schema, self.schema)]
            items = [one for schema in applicable for one in _item_schemas(schema)]
            return [self._restored(item, items) for item in cast("list[object]", value)]
        if not _is_object(value):
            return value
        applicable = [one for schema in schemas for one in _applicable(schema, self.schema)]
        restored: dict[str, object] = {}
        for key, item in value.items():
            known = [_properties(schema)[key] for schema in applicable if key in _properties(schema)]
            other = [schema.get("additionalProperties") for schema in applicable]
            other += [one for schema in applicable for one in _object(schema.get("patternProperties")).values()]
            restored[self.names.get(key, key) if known else key] = self._restored(item, known or other)
        return restored


def model_schema(schema: Json) -> ModelSchema:
    """``schema`` as model services accept it.

    Raises:
        SchemaTooLarge: it is nested too deeply or too large.
    """
    renamed = _new_names(schema)
    cleaned = _Cleaner(schema, renamed).schema(schema, 0)
    top = {**_Merger(cleaned).merged(_object(cleaned)), "type": "object"}
    if _is_large(top):
        raise SchemaTooLarge
    # The alternatives are gone, and references to them go too.
    top = _object(_Cleaner(top, {}).schema(top, 0))
    return ModelSchema(top, {new: old for old, new in renamed.items()})


def _is_large(schema: Json) -> bool:
    count = 0
    waiting: list[object] = [schema]
    while waiting:
        count += 1
        if count > MAX_NODES:
            return True
        one = waiting.pop()
        waiting += one.values() if _is_object(one) else _list(one)
    return False


# -- names -------------------------------------------------------------------------------------------------------------


def _new_names(schema: Json) -> dict[str, str]:
    """New names for all property names that services reject, each different from all others in the schema."""
    names = dict.fromkeys(_property_names(schema, 0))
    used = {name for name in names if _NAME.fullmatch(name)}
    renamed: dict[str, str] = {}
    for name in names:
        if name not in used:
            stem = _NOT_IN_NAMES.sub("_", name).strip("_")[: MAX_NAME - 4] or "field"
            new, number = stem, 1
            while new in used:
                number += 1
                new = f"{stem}_{number}"
            used.add(new)
            renamed[name] = new
    return renamed


def _property_names(node: object, depth: int) -> Iterator[str]:
    if depth > 2 * MAX_DEPTH:
        raise SchemaTooLarge
    if isinstance(node, list):
        for one in cast("list[object]", node):
            yield from _property_names(one, depth + 1)
    elif _is_object(node):
        for keyword, value in node.items():
            if keyword in _BY_PROPERTY and _is_object(value):
                yield from map(str, value)
            yield from _property_names(value, depth + 1)


# -- keywords ----------------------------------------------------------------------------------------------------------


class _Cleaner:
    """Corrects the keywords of a schema. ``root`` is what references are about."""

    def __init__(self, root: Json, renamed: Mapping[str, str]) -> None:
        self._root = root
        self._renamed = renamed

    def schema(self, node: object, depth: int) -> Json | bool:
        """A valid schema for ``node``."""
        if depth > MAX_DEPTH:
            raise SchemaTooLarge
        if isinstance(node, bool):
            return node
        if not _is_object(node):
            return {}
        cleaned: dict[str, object] = {}
        for keyword, value in node.items():
            if (kept := self._keyword(keyword, value, depth)) is not None:
                cleaned[keyword] = kept
        self._convert_items(node, cleaned, depth)
        self._convert_exclusive(node, cleaned)
        if required := self._required(node):
            cleaned["required"] = required
        else:
            cleaned.pop("required", None)
        return cleaned

    def _keyword(self, keyword: str, value: object, depth: int) -> object | None:
        """A valid value of a keyword; ``None``: without it."""
        if keyword in _DROPPED or keyword in ("items", "prefixItems", "required"):
            return None
        if keyword in _SCHEMA:
            return self.schema(value, depth + 1) if _is_schema(value) else None
        if keyword in _LISTS:
            branches = [self.schema(one, depth + 1) for one in _list(value) if _is_schema(one)]
            return branches or None
        if keyword in _MAPS:
            return self._map(keyword, value, depth) if _is_object(value) else None
        if keyword in ("dependentRequired", "dependencies"):
            return self._dependencies(keyword, value, depth) if _is_object(value) else None
        return self._simple(keyword, value)

    def _simple(self, keyword: str, value: object) -> object | None:
        if keyword == "type":
            return _types(value)
        if keyword == "$ref":
            return self._reference(value)
        if keyword in _TEXTS:
            return value if isinstance(value, str) else None
        if keyword in _NUMBERS:
            return value if _is_number(value) else None
        if keyword == "multipleOf":
            return value if _is_number(value) and value > 0 else None
        if keyword in _COUNTS:
            return int(value) if _is_number(value) and value >= 0 and value == int(value) else None
        if keyword in _FLAGS:
            return value if isinstance(value, bool) else None
        if keyword in ("enum", "examples"):
            return _list(value) or None
        known = keyword in ("const", "default")
        return value if known or not isinstance(value, list | dict) else None

    def _map(self, keyword: str, value: Json, depth: int) -> Json:
        named = _BY_PROPERTY & {keyword}
        return {
            (self._renamed.get(key, key) if named else key): self._titled(keyword, key, self.schema(one, depth + 1))
            for key, one in value.items()
        }

    def _titled(self, keyword: str, key: str, schema: Json | bool) -> Json | bool:
        """Tells the model the name that descriptions use."""
        if keyword == "properties" and key in self._renamed and _is_object(schema):
            return {**schema, "title": key}
        return schema

    def _dependencies(self, keyword: str, value: Json, depth: int) -> Json:
        found: dict[str, object] = {}
        for key, one in value.items():
            if isinstance(one, list):
                found[self._renamed.get(key, key)] = self._names(cast("list[object]", one))
            elif keyword == "dependencies":
                found[self._renamed.get(key, key)] = self.schema(one, depth + 1)
        return found

    def _names(self, names: Iterable[object]) -> list[str]:
        texts = dict.fromkeys(name for name in names if isinstance(name, str))
        return [self._renamed.get(name, name) for name in texts]

    def _required(self, node: Json) -> list[str]:
        """The names of required properties; draft 3 marks the properties themselves."""
        marked = [name for name, one in _properties(node).items() if _is_object(one) and one.get("required") is True]
        return self._names([*_list(node.get("required")), *marked])

    def _convert_items(self, node: Json, cleaned: dict[str, object], depth: int) -> None:
        """A list of schemas in ``items`` is called ``prefixItems`` in draft 2020-12, and ``additionalItems`` is
        ``items``."""
        items, prefix = node.get("items"), _list(node.get("prefixItems"))
        if isinstance(items, list):
            prefix, items = cast("list[object]", items), node.get("additionalItems")
        if _is_schema(items):
            cleaned["items"] = self.schema(items, depth + 1)
        if prefix:
            cleaned["prefixItems"] = [self.schema(one, depth + 1) for one in prefix]

    def _convert_exclusive(self, node: Json, cleaned: dict[str, object]) -> None:
        """In draft 4, ``exclusiveMinimum`` says that ``minimum`` is not included."""
        for exclusive, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if node.get(exclusive) is True and limit in cleaned:
                cleaned[exclusive] = cleaned.pop(limit)

    def _reference(self, value: object) -> str | None:
        """A reference within the schema, with new names; ``None`` for all others."""
        if not isinstance(value, str) or _target(value, self._root) is None:
            return None
        tokens = value.split("/")
        for index, token in enumerate(tokens):
            if index and tokens[index - 1] in _BY_PROPERTY:
                tokens[index] = _escaped(self._renamed.get(_unescaped(token), _unescaped(token)))
        return "/".join(tokens)


def _types(value: object) -> str | list[str] | None:
    names = [
        one.lower()
        for one in (cast("list[object]", value) if isinstance(value, list) else [value])
        if isinstance(one, str)
    ]
    valid = list(dict.fromkeys(name for one in names if (name := _TYPE_ALIASES.get(one, one)) in _TYPES))
    if not valid or len(valid) < len(set(names)):
        return None  # an unknown type such as "any" allows everything
    return valid if isinstance(value, list) else valid[0]


# -- the top -----------------------------------------------------------------------------------------------------------


class _Merger:
    """Replaces the reference and the alternatives at the top of a schema by their fields. ``root`` is what references
    are about."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._done: dict[int, Json] = {}

    def merged(self, node: Json) -> Json:
        if id(node) not in self._done:
            self._done[id(node)] = {}  # what a cycle leads to
            self._done[id(node)] = self._merge(node)
        return self._done[id(node)]

    def _merge(self, node: Json) -> Json:
        rest = {key: value for key, value in node.items() if key not in (*_LISTS, "$ref")}
        branches = {
            keyword: [self.merged(one) for one in _list(node.get(keyword)) if _is_object(one)] for keyword in _LISTS
        }
        if (target := _target(node.get("$ref"), self._root)) is not None:
            branches["allOf"].append(self.merged(target))
        if not any(branches.values()):
            return rest
        properties: dict[str, object] = dict(_properties(node))
        required = dict.fromkeys(_names_in(node))
        for keyword, parts in branches.items():
            combining = "allOf" if keyword == "allOf" else "anyOf"
            for name in dict.fromkeys(name for part in parts for name in _properties(part)):
                combined = _combined(combining, (_properties(one)[name] for one in parts if name in _properties(one)))
                properties[name] = _combined("allOf", (properties[name], combined)) if name in properties else combined
            required |= dict.fromkeys(_common_names(parts, every=keyword != "allOf"))
        # Each branch may close itself for the fields of the others.
        rest = {key: value for key, value in rest.items() if key not in _CLOSING}
        texts = {key: part[key] for part in branches["allOf"] for key in ("title", "description") if key in part}
        return {**texts, **rest, "properties": properties, **({"required": list(required)} if required else {})}


def _combined(keyword: str, schemas: Iterable[object]) -> object:
    found: list[object] = []
    for one in schemas:
        if one not in found:
            found.append(one)
    return found[0] if len(found) == 1 else {keyword: found}


def _common_names(parts: Sequence[Json], *, every: bool) -> list[str]:
    """Names that are required in one of ``parts``, or in every one of them."""
    names = [_names_in(part) for part in parts]
    found = dict.fromkeys(name for some in names for name in some)
    return [name for name in found if not every or all(name in some for some in names)]


def _names_in(node: Json) -> list[str]:
    return [name for name in _list(node.get("required")) if isinstance(name, str)]


# -- reading -----------------------------------------------------------------------------------------------------------


def _applicable(schema: object, root: Json) -> Iterator[Json]:
    """The schemas that apply to the same value as ``schema``."""
    seen: list[object] = []
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if not _is_object(one) or any(one is other for other in seen):
            continue
        seen.append(one)
        yield one
        waiting += [part for keyword in _LISTS for part in _list(one.get(keyword))]
        waiting += [one.get(keyword) for keyword in ("if", "then", "else")]
        waiting += list(_object(one.get("dependentSchemas")).values())
        waiting += list(_object(one.get("dependencies")).values())
        waiting.append(_target(one.get("$ref"), root))


def _item_schemas(schema: Json) -> Sequence[object]:
    return [schema.get("items"), schema.get("contains"), *_list(schema.get("prefixItems"))]


def _target(reference: object, root: object) -> Json | None:
    """The schema that a reference within ``root`` is about."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    current = root
    for token in map(_unescaped, reference.split("/")[1:]):
        if _is_object(current) and token in current:
            current = current[token]
        elif isinstance(current, list) and token.isdecimal() and int(token) < len(cast("list[object]", current)):
            current = cast("list[object]", current)[int(token)]
        else:
            return None
    return current if _is_object(current) else None


def _unescaped(token: str) -> str:
    from urllib.parse import unquote

    return unquote(token).replace("~1", "/").replace("~0", "~")


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _properties(schema: Json) -> Json:
    return _object(schema.get("properties"))


def _object(value: object) -> Json:
    return value if _is_object(value) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _is_object(value: object) -> TypeGuard[Json]:
    return isinstance(value, dict)


def _is_schema(value: object) -> TypeGuard[Json | bool]:
    return isinstance(value, bool | dict)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
