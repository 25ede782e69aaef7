"""Input schemas: what is rejected, and that no schema makes a validation long."""

import time

import pytest

from deputy_agents.definition.schema import SchemaError, check_input, check_schema
from deputy_agents.domain.errors import ToolError


def fields(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties}


def text(pattern: str) -> dict[str, object]:
    return {"type": "string", "pattern": pattern}


def errors(schema: dict[str, object], **input: object) -> str:
    try:
        check_input(check_schema(schema), input)
    except ToolError as error:
        return str(error)
    return ""


def doubling(depth: int, keyword: str) -> dict[str, object]:
    """A schema whose references branch into 2 ** ``depth``."""
    definitions = {
        f"d{level}": {keyword: [{"$ref": f"#/$defs/d{level + 1}"}] * 2} if level < depth else {"type": "string"}
        for level in range(depth + 1)
    }
    return {**fields(x={"$ref": "#/$defs/d0"}), "$defs": definitions}


def test_pattern_is_checked() -> None:
    assert errors(fields(x=text("^[a-z]+$")), x="abc") == ""
    assert errors(fields(x=text("^[a-z]+$")), x="ABC") == "x: 'ABC' does not match '^[a-z]+$'"


def test_pattern_properties_are_checked_and_no_additional_ones() -> None:
    schema = {"type": "object", "patternProperties": {"^x-": {"type": "number"}}, "additionalProperties": False}
    assert errors(schema, **{"x-a": 1}) == ""
    assert "x-a: 'no' is not of type 'number'" in errors(schema, **{"x-a": "no"})
    assert errors(schema, y=1) == "Additional properties are not allowed ('y' was unexpected)"
    assert "is not of type 'string'" in errors({"type": "object", "additionalProperties": {"type": "string"}}, y=1)


@pytest.mark.parametrize(
    ("items", "unique"),
    [([1, True, "1", [1], [True], {"a": 1}, {"a": True}, None], True), ([1, 1.0], False), ([{"a": 1}] * 2, False)],
)
def test_equal_items_are_found(items: list[object], unique: bool) -> None:
    assert (errors(fields(x={"type": "array", "uniqueItems": True}), x=items) == "") is unique


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (fields(x=text("(?=a)b")), r"the pattern \(\?=a\)b is not valid: lookaround and backreferences"),
        (fields(x={"items": {"anyOf": [text(r"(a)\1")]}}), "backreferences are not supported"),
        (fields(x={"patternProperties": {"(?!a)": {}}}), "lookaround"),
        (fields(x=text("a{99999}")), "it is too large"),
        (fields(x=text("(")), "unclosed group"),
        ({**fields(), "unevaluatedProperties": False}, "use additionalProperties"),
        ({**fields(), "$ref": "https://example.com/x"}, "same schema"),
    ],
)
def test_schema_that_cannot_be_applied_in_linear_time_is_rejected(schema: dict[str, object], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        check_schema(schema)


def test_deep_schema_is_rejected() -> None:
    schema: dict[str, object] = {}
    for _ in range(1500):
        schema = {"not": schema}
    with pytest.raises(SchemaError, match="deep"):
        check_schema(fields(x=schema))


def test_property_named_like_a_keyword_is_no_pattern() -> None:
    assert errors(fields(pattern={"type": "string", "default": "(?=x)"}), pattern="(") == ""
    assert errors(fields(x={"enum": [{"pattern": "(?=x)"}]}), x={"pattern": "(?=x)"}) == ""


@pytest.mark.parametrize(
    ("schema", "input"),
    [
        (fields(x=text("^(a+)+$")), "a" * 50_000 + "!"),
        (fields(x=text("^(a|aa)+$")), "a" * 50_000 + "!"),
        ({"type": "object", "patternProperties": {"^(y|x+)+$": {}}, "additionalProperties": False}, "x" * 5000),
        (fields(x={"patternProperties": {"^(a+)+$": {}}}), {"a" * 5000 + "!": 1}),
        (fields(x={"patternProperties": {"(a+)+$": {}}, "additionalProperties": False}), {"a" * 5000 + "!": 1}),
        (fields(x={"propertyNames": text("^(a+)+$")}), {"a" * 5000 + "!": 1}),
        (fields(x=text("^(.?){4999}$")), "a" * 1_000_000),
        (doubling(60, "allOf"), "a"),
        (doubling(60, "oneOf"), "a"),
        (fields(x={"type": "array", "uniqueItems": True}), [{str(number): 1} for number in range(30_000)]),
        (fields(x={"type": "array", "items": {"enum": list(range(1500))}}), [1499] * 100_000),
    ],
)
def test_no_schema_makes_a_validation_long(schema: dict[str, object], input: object) -> None:
    started = time.process_time()
    errors(schema, x=input)
    assert time.process_time() - started < 5


def test_validation_beyond_the_limit_is_an_error() -> None:
    assert errors(doubling(60, "allOf"), x="a") == "The input takes too long to validate. Pass less."


def test_large_valid_input_is_accepted() -> None:
    finding = {**fields(file=text("^[^/].*$"), line={"type": "integer", "minimum": 1}), "required": ["file", "line"]}
    schema = fields(findings={"type": "array", "items": finding})
    assert errors(schema, findings=[{"file": f"src/{number}.py", "line": 1} for number in range(3000)]) == ""
