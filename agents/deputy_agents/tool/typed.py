"""Typed definitions as the model sees them: the definition's own input, and a time limit as every door takes one."""

from collections.abc import Mapping
from dataclasses import dataclass

from deputy_agents.definition.definition import Definition
from deputy_agents.definition.schema import check_input, properties
from deputy_agents.definition.typed import parse_input, schema_of
from deputy_agents.ports.model import ToolSpec
from deputy_agents.text import cut

DESCRIPTION_LENGTH = 2000
"""Characters; the whole description is for people."""

TIMEOUT = "Limit in seconds of running time. Leave out for the default."
_TIMEOUT: Mapping[str, object] = {"timeout": {"type": "number", "exclusiveMinimum": 0, "description": TIMEOUT}}


@dataclass(frozen=True, slots=True)
class TypedArgs:
    """``fields`` are the definition's own, defaults filled in; ``timeout`` is in seconds."""

    fields: Mapping[str, object]
    timeout: float | None = None


def spec_of(definition: Definition) -> ToolSpec:
    """The tool that a definition with an input schema is."""
    schema = schema_of(definition)
    if _takes_timeout(definition):
        schema = {**schema, "properties": {**properties(schema), **_TIMEOUT}}
    return ToolSpec(definition.name, cut(definition.description, DESCRIPTION_LENGTH), schema)


def parse_typed(definition: Definition, input: Mapping[str, object]) -> TypedArgs:
    """
    Raises:
        ToolError: naming each field that does not fit.
    """
    if not _takes_timeout(definition):
        return TypedArgs(parse_input(definition, input))
    own = {name: value for name, value in input.items() if name not in _TIMEOUT}
    limit = {name: value for name, value in input.items() if name in _TIMEOUT}
    seconds = check_input({"type": "object", "properties": _TIMEOUT}, limit).get("timeout")
    return TypedArgs(parse_input(definition, own), float(seconds) if isinstance(seconds, int | float) else None)


def _takes_timeout(definition: Definition) -> bool:
    """Unless a field of its own has that name."""
    return "timeout" not in properties(schema_of(definition))
