"""Input schemas of MCP servers become schemas that services accept, and arguments return to the server's names."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.mcp.listing import MAX_SCHEMA
from deputy_agents.mcp.schema import SchemaTooLarge, model_schema
from tests.support.api_rules import broken_schema

NAMES = st.sampled_from(
    [
        *("filter[name]", "filter.name", "filter_name", "@type", "$top", "type", "properties", "a b", "a/b", "a~b", ""),
        *("größe", "x" * 65, "\u202e", "items", "required", "$ref", "page[size]", "page_size"),
    ]
)
SCALARS = (
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.sampled_from(["any", "string", "", "object"])
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
KEYWORDS = st.sampled_from(
    [
        *("type", "required", "enum", "const", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "pattern"),
        *(
            "minLength",
            "maxItems",
            "uniqueItems",
            "multipleOf",
            "title",
            "description",
            "format",
            "default",
            "nullable",
        ),
        *("$schema", "$id", "id", "$anchor", "$ref", "examples", "dependentRequired", "additionalItems", "$comment"),
        *("readOnly", "$dynamicRef", "x-order", "extends", "disallow", "divisibleBy", "contentSchema"),
    ]
)
REFERENCES = st.sampled_from(
    [
        *("#", "#/", "#/$defs/a", "#/$defs/b", "#/definitions/a", "#/properties/filter[name]", "#/properties/a~1b"),
        *("#/oneOf/0", "#/anyOf/0/properties/@type", "#nowhere", "https://schemas.example/x", "other.json"),
    ]
)


def with_subschemas(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Schemas with ``inner`` ones in all places, and nonsense in some."""
    some = inner | ANYTHING
    named = st.dictionaries(NAMES, some, max_size=4)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "any", "array", "int", ["string", "null"], ["object", "any"], 5, None]),
            "properties": named | ANYTHING,
            "required": st.lists(NAMES, max_size=4) | ANYTHING,
            "items": some | st.lists(some, max_size=2),
            **{key: st.lists(some, max_size=3) | ANYTHING for key in ("anyOf", "oneOf", "allOf", "prefixItems")},
            **{key: st.dictionaries(st.sampled_from("ab"), some, max_size=2) for key in ("$defs", "definitions")},
            **dict.fromkeys(("dependencies", "dependentSchemas", "patternProperties"), named),
            **dict.fromkeys(("additionalProperties", "not", "if", "then", "contains", "propertyNames"), some),
            "$ref": REFERENCES,
        },
    )


def merged(*parts: object) -> dict[str, object]:
    return {key: value for part in parts if isinstance(part, dict) for key, value in part.items()}


SCHEMAS = st.builds(
    merged,
    st.dictionaries(KEYWORDS, ANYTHING, max_size=4),
    st.recursive(st.dictionaries(KEYWORDS, ANYTHING, max_size=3), with_subschemas, max_leaves=10),
    with_subschemas(st.dictionaries(KEYWORDS, ANYTHING, max_size=3)),
)


@given(SCHEMAS)
def test_every_schema_becomes_one_that_services_accept(schema: dict[str, object]) -> None:
    schema = json.loads(json.dumps(schema))
    adapted = model_schema(schema)
    assert list(broken_schema(adapted.schema)) == []
    assert set(adapted.names.values()).isdisjoint(adapted.names)
    json.dumps(adapted.schema)


@st.composite
def objects_with_arguments(draw: st.DrawFn, depth: int = 3) -> tuple[dict[str, object], object]:
    """A schema of an object, and a value for it with all its properties."""
    properties: dict[str, object] = {}
    value: dict[str, object] = {}
    for name in draw(st.lists(NAMES, unique=True, max_size=4)):
        kind = draw(st.sampled_from(["string", "object", "list", "choice", "map"])) if depth else "string"
        if kind == "string":
            properties[name], value[name] = {"type": "string"}, draw(st.text(max_size=3))
            continue
        schema, inner = draw(objects_with_arguments(depth - 1))
        match kind:
            case "object":
                properties[name], value[name] = schema, inner
            case "list":
                properties[name], value[name] = {"type": "array", "items": schema}, [inner, inner]
            case "choice":
                properties[name], value[name] = {"anyOf": [{"type": "null"}, schema]}, inner
            case _:
                properties[name], value[name] = {"type": "object", "additionalProperties": schema}, {"any@key": inner}
    return {"type": "object", "properties": properties, "required": list(properties)}, value


@given(objects_with_arguments())
def test_arguments_return_to_the_names_of_the_server(pair: tuple[dict[str, object], dict[str, object]]) -> None:
    schema, value = pair
    adapted = model_schema(schema)
    new = {old: name for name, old in adapted.names.items()}

    def as_a_model_sends_it(value: object, schema: object) -> object:
        """Follows the original schema."""
        match value, schema:
            case list(), {"items": items}:
                return [as_a_model_sends_it(one, items) for one in value]
            case dict(), {"anyOf": [_, choice]}:
                return as_a_model_sends_it(value, choice)
            case dict(), {"additionalProperties": inner}:
                return {key: as_a_model_sends_it(one, inner) for key, one in value.items()}
            case dict(), {"properties": properties}:
                return {new.get(key, key): as_a_model_sends_it(one, properties[key]) for key, one in value.items()}
            case _:
                return value

    sent = as_a_model_sends_it(value, schema)
    assert adapted.arguments(sent) == value  # pyright: ignore[reportArgumentType]


def test_keys_that_services_reject_get_names_that_collide_with_no_other() -> None:
    keys = ["filter[name]", "filter_name", "filter(name)", "@type", "type", "größe", "[]", "x" * 70, "x" * 70 + "y"]
    adapted = model_schema({"type": "object", "properties": {key: {} for key in keys}, "required": keys})
    names = list(adapted.schema["properties"])  # pyright: ignore[reportArgumentType, reportUnknownVariableType]
    assert names[:8] == ["filter_name_2", "filter_name", "filter_name_3", "type_2", "type", "gr_e", "field", "x" * 60]
    assert adapted.schema["required"] == names
    assert adapted.arguments({name: index for index, name in enumerate(names)}) == {  # pyright: ignore[reportUnknownVariableType]
        key: index for index, key in enumerate(keys)
    }
    assert adapted.schema["properties"]["type_2"] == {"title": "@type"}  # pyright: ignore[reportIndexIssue]


def test_free_data_is_left_as_it_is() -> None:
    schema = {"type": "object", "properties": {"a[b]": {}, "data": {"type": "object"}}}
    adapted = model_schema(schema)
    assert adapted.arguments({"a_b": {"a_b": 1}, "data": {"a_b": 2}, "other": {"a_b": 3}}) == {
        "a[b]": {"a_b": 1},
        "data": {"a_b": 2},
        "other": {"a_b": 3},
    }


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        ({"type": "any"}, {}),
        ({"type": "String"}, {"type": "string"}),
        ({"type": ["int", "null"]}, {"type": ["integer", "null"]}),
        ({"type": ["string", "any"]}, {}),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        ({"minimum": 1, "exclusiveMinimum": False}, {"minimum": 1}),
        ({"maximum": "9", "minLength": 2.0}, {"minLength": 2}),
        ({"type": "array", "items": [{"type": "string"}]}, {"type": "array", "prefixItems": [{"type": "string"}]}),
        ({"enum": []}, {}),
        ({"$ref": "https://schemas.example/x", "description": "d"}, {"description": "d"}),
        ({"$id": "x", "$schema": "http://json-schema.org/draft-03/schema#", "nullable": True}, {"nullable": True}),
        ("a string", {}),
    ],
)
def test_what_is_invalid_is_corrected_or_dropped(given: object, becomes: dict[str, object]) -> None:
    adapted = model_schema({"type": "object", "properties": {"a": given}})
    assert adapted.schema == {"type": "object", "properties": {"a": becomes}}


def test_a_required_flag_of_a_property_becomes_a_required_name() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "any", "required": True}, "b": {"required": False}}}
    assert model_schema(schema).schema == {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]}


def test_alternatives_at_the_top_keep_their_fields() -> None:
    schema = {
        "type": "object",
        "properties": {"id": {"type": "string"}},
        "required": ["id"],
        "additionalProperties": False,
        "oneOf": [
            {"properties": {"kind": {"const": "a"}, "x[]": {"type": "integer"}}, "required": ["kind", "x[]"]},
            {"$ref": "#/$defs/b"},
        ],
        "allOf": [{"properties": {"limit": {"type": "integer"}}, "required": ["limit"]}],
        "$defs": {
            "b": {
                "properties": {"kind": {"const": "b"}, "y": {}},
                "required": ["kind"],
                "anyOf": [{"properties": {"z": {}}}],
            }
        },
    }
    top = dict(model_schema(schema).schema)
    del top["$defs"]
    assert top == {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "limit": {"type": "integer"},
            "kind": {"anyOf": [{"const": "a"}, {"const": "b"}]},
            "x": {"type": "integer", "title": "x[]"},
            "y": {},
            "z": {},
        },
        "required": ["id", "limit", "kind"],
    }
    assert model_schema({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"f": {}}}}}).schema["properties"] == {
        "f": {}
    }


def test_cycles_end_and_schemas_that_explode_are_rejected() -> None:
    cycle = {
        "anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/a"}],
        "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#"}]}},
    }
    assert model_schema(cycle).schema["type"] == "object"
    levels = {
        f"d{level}": {
            "anyOf": [
                {"allOf": [{"$ref": f"#/$defs/d{level - 1}"}, {"properties": {"x": {"title": f"{side}{level}"}}}]}
                for side in "ab"
            ]
        }
        for level in range(1, 60)
    }
    schema = {"$ref": "#/$defs/d59", "$defs": {"d0": {"properties": {"x": {}}}, **levels}}
    assert len(json.dumps(schema)) < MAX_SCHEMA
    with pytest.raises(SchemaTooLarge):
        model_schema(schema)
    deep: dict[str, object] = {}
    for _ in range(500):
        deep = {"properties": {"a": deep}}
    with pytest.raises(SchemaTooLarge):
        model_schema(deep)
