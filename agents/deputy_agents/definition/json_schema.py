"""The validator of JSON Schema, with bounds: patterns match in linear time, and a validation has limited steps.

A schema comes from a file that anyone may have written, and its input from a model. References can make a short schema
branch without end.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from deputy_agents.patterns.ecma import compile_pattern
from deputy_agents.patterns.linear import PatternError
from deputy_agents.text import cut

if TYPE_CHECKING:
    from jsonschema import FormatChecker
    from jsonschema.exceptions import ValidationError

MAX_STEPS: Final = 100_000
"""Keywords that one validation evaluates; a search for a pattern counts by its effort."""

_EFFORT_OF_A_STEP: Final = 300
_ITEMS_OF_A_STEP: Final = 8
_STEPS: Final = {"$ref": 10, "$dynamicRef": 10, "enum": 2}
"""The steps of keywords that take longer than others."""

_Keyword: TypeAlias = Callable[[Any, Any, Any, Any], "Iterable[ValidationError] | None"]
_steps: ContextVar[list[int]] = ContextVar("steps")


class TooManySteps(Exception):
    """The validation would take too long."""


def find_errors(schema: Mapping[str, object], input: object, limit: int) -> "list[ValidationError]":
    """The errors of ``input``, at most ``limit``.

    Raises:
        TooManySteps: the validation has exceeded its limit.
        PatternError: a pattern of the schema is not supported.
    """
    from referencing import Registry

    registry: Registry[Any] = Registry()  # empty: the default registry fetches unknown references
    validator: Any = _validator_class()(schema, registry=registry)
    token = _steps.set([MAX_STEPS])
    try:
        return list(islice(validator.iter_errors(input), limit))
    finally:
        _steps.reset(token)


@cache
def format_checker() -> "FormatChecker":
    """Checks the patterns in schemas. The cause of an error is a PatternError."""
    from jsonschema import FormatChecker

    checker = FormatChecker(())

    @checker.checks("regex", raises=PatternError)
    def is_pattern(value: object) -> bool:  # pyright: ignore[reportUnusedFunction]
        return not isinstance(value, str) or bool(compile_pattern(value))

    return checker


@cache
def _validator_class() -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend  # pyright: ignore[reportUnknownVariableType]

    known = cast("Mapping[str, _Keyword]", Draft202012Validator.VALIDATORS)
    own: Mapping[str, _Keyword] = {
        "additionalProperties": _additional_properties,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "uniqueItems": _unique_items,
    }
    keywords = {name: _counted(keyword, _STEPS.get(name, 1)) for name, keyword in {**known, **own}.items()}
    return extend(Draft202012Validator, keywords)  # pyright: ignore[reportUnknownVariableType]


def _counted(keyword: _Keyword, steps: int) -> _Keyword:
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> "Iterator[ValidationError]":
        items = len(cast("Sequence[object]", value)) if isinstance(value, list | dict) else 0
        _spend(steps * (1 + items // _ITEMS_OF_A_STEP))
        yield from keyword(validator, value, instance, schema) or ()

    return counted


def _spend(steps: int) -> None:
    remaining = _steps.get()
    remaining[0] -= steps
    if remaining[0] < 0:
        raise TooManySteps


def _contains(text: str, pattern: str) -> bool:
    compiled = compile_pattern(pattern)
    _spend(1 + len(text) * compiled.size // _EFFORT_OF_A_STEP)
    return compiled.linear.search(text)


def _pattern(_validator: Any, value: str, instance: Any, _schema: Any) -> "Iterator[ValidationError]":
    from jsonschema.exceptions import ValidationError

    if isinstance(instance, str) and not _contains(instance, value):
        yield ValidationError(f"{cut(instance, 100)!r} does not match {value!r}")


def _pattern_properties(
    validator: Any, value: Mapping[str, Any], instance: Any, _schema: Any
) -> "Iterator[ValidationError]":
    if not isinstance(instance, dict):
        return
    for name, one in cast("dict[str, object]", instance).items():
        for pattern, subschema in value.items():
            if _contains(name, pattern):
                yield from validator.descend(one, subschema, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]
) -> "Iterator[ValidationError]":
    from jsonschema.exceptions import ValidationError

    if not isinstance(instance, dict):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, one in cast("dict[str, object]", instance).items():
        if name in known or any(_contains(name, pattern) for pattern in patterns):
            continue
        if value is False:
            yield ValidationError(f"Additional properties are not allowed ({name!r} was unexpected)")
        else:
            yield from validator.descend(one, value, path=name)


def _unique_items(_validator: Any, value: bool, instance: Any, _schema: Any) -> "Iterator[ValidationError]":
    from jsonschema.exceptions import ValidationError

    if value and isinstance(instance, list):
        items = cast("list[object]", instance)
        if len(set(map(_key, items))) < len(items):
            yield ValidationError(f"{items!r} has non-unique elements")


def _key(value: object) -> object:
    """A key that is equal for equal JSON values: 1 and 1.0 are equal, 1 and true are not."""
    match value:
        case bool():
            return (bool, value)
        case list():
            return tuple(map(_key, cast("list[object]", value)))
        case dict():
            return frozenset((name, _key(one)) for name, one in cast("dict[str, object]", value).items())
        case _:
            return value
