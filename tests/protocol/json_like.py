"""JSON that a schema of the contract allows, for property tests."""

from typing import Any

from hypothesis import strategies as st

TEXT = st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def allowed(schema: dict[str, Any], types: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that ``schema`` allows; ``types`` are the ``$defs`` that it refers to."""
    match schema:
        case {"$ref": ref}:
            return allowed(types[ref.rpartition("/")[2]], types)
        case {"const": value}:
            return st.just(value)
        case {"enum": values}:
            return st.sampled_from(values)
        case {"anyOf": choices} | {"oneOf": choices}:
            return st.one_of([allowed(choice, types) for choice in choices])
        case {"type": "array"}:
            return st.lists(allowed(schema["items"], types), min_size=schema.get("minItems", 0), max_size=2)
        case {"type": "object", "properties": properties}:
            required = set(schema.get("required", ()))
            fields = {name: allowed(shape, types) for name, shape in properties.items()}
            return st.fixed_dictionaries(
                {name: fields[name] for name in fields if name in required},
                optional={name: fields[name] for name in fields if name not in required},
            )
        case {"type": "object", "additionalProperties": dict(values)}:
            names = allowed(schema["propertyNames"], types) if "propertyNames" in schema else TEXT
            return st.dictionaries(names, allowed(values, types), max_size=2)
        case {"type": "object"}:
            return st.dictionaries(TEXT, JSON, max_size=2)
        case {"type": kind}:
            return _scalar(kind, schema)
        case _:
            return JSON


def _scalar(kind: str, schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "pattern" in schema:
        return st.from_regex(schema["pattern"].rstrip("$") + r"\Z").filter(bool)
    low = schema.get("exclusiveMinimum", schema.get("minimum", -9))
    strategies = {
        "string": TEXT,
        "integer": st.integers(low, 1_000_000),
        "number": st.floats(low, 1e6, exclude_min="exclusiveMinimum" in schema),
        "boolean": st.booleans(),
        "null": st.none(),
    }
    return strategies[kind]
