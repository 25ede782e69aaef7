"""Typed definitions as tools: the input of the definition, plus the ``timeout`` that every delegation tool has."""

from collections.abc import Mapping
from dataclasses import dataclass

from deputy_agents.definition.definition import Definition
from deputy_agents.definition.schema import check_input, properties
from deputy_agents.definition.typed import parse_input, schema_of
from deputy_agents.ports.model import ToolSpec
from deputy_agents.text import cut

DESCRIPTION_LENGTH = 2000
"""Characters of a description that the model gets; the user sees the full description."""

TIMEOUT = "Limit in seconds of running time. Omit it for the default."
_TIMEOUT: Mapping[str, object] = {"timeout": {"type": "number", "exclusiveMinimum": 0, "description": TIMEOUT}}


@dataclass(frozen=True, slots=True)
class TypedArgs:
    """``fields`` are those of the definition, with defaults filled in; ``timeout`` is in seconds."""

    fields: Mapping[str, object]
    timeout: float | None = None


def spec_of(definition: Definition) -> ToolSpec:
    """The tool specification of a definition with an input schema."""
    schema = schema_of(definition)
    if _takes_timeout(definition):
        schema = {**schema, "properties": {**properties(schema), **_TIMEOUT}}
    return ToolSpec(definition.name, cut(definition.description, DESCRIPTION_LENGTH), schema)


def parse_typed(definition: Definition, input: Mapping[str, object]) -> TypedArgs:
    """Validate the input.

    Raises:
        ToolError: the input is invalid; the message names each invalid field.
    """
    if not _takes_timeout(definition):
        return TypedArgs(parse_input(definition, input))
    own = {name: value for name, value in input.items() if name not in _TIMEOUT}
    limit = {name: value for name, value in input.items() if name in _TIMEOUT}
    seconds = check_input({"type": "object", "properties": _TIMEOUT}, limit).get("timeout")
    return TypedArgs(parse_input(definition, own), float(seconds) if isinstance(seconds, int | float) else None)


def _takes_timeout(definition: Definition) -> bool:
    """False if the definition has a field of that name."""
    return "timeout" not in properties(schema_of(definition))
