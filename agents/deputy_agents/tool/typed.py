"""Typed definitions as tools: the input of the definition, plus the options that every delegation tool has."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from deputy_agents.definition.definition import Definition
from deputy_agents.definition.schema import properties
from deputy_agents.definition.typed import parse_input, schema_of
from deputy_agents.ports.model import ToolSpec
from deputy_agents.text import cut
from deputy_agents.tool.spawn_options import SpawnOptions, option_fields, parse_options

DESCRIPTION_LENGTH = 2000
"""Characters of a description that the model gets; the user sees the full description."""


@dataclass(frozen=True, slots=True)
class TypedArgs:
    """``fields`` are those of the definition, with defaults filled in."""

    fields: Mapping[str, object]
    options: SpawnOptions = field(default_factory=SpawnOptions)


def spec_of(definition: Definition) -> ToolSpec:
    """The tool specification of a definition with an input schema."""
    schema = schema_of(definition)
    schema = {**schema, "properties": {**properties(schema), **_options(definition)}}
    return ToolSpec(definition.name, cut(definition.description, DESCRIPTION_LENGTH), schema)


def parse_typed(definition: Definition, input: Mapping[str, object]) -> TypedArgs:
    """Validate the input.

    Raises:
        ToolError: the input is invalid; the message names each invalid field.
    """
    options = _options(definition)
    own = {name: value for name, value in input.items() if name not in options}
    given = {name: value for name, value in input.items() if name in options}
    return TypedArgs(parse_input(definition, own), parse_options(given))


def _options(definition: Definition) -> Mapping[str, object]:
    """The options of delegation tools, except those whose names the fields of the definition have."""
    return option_fields(without=properties(schema_of(definition)))
