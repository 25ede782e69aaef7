"""Typed definitions as the model sees them."""

from deputy_agents.definition import Definition
from deputy_agents.definition.typed import schema_of
from deputy_agents.ports import ToolSpec
from deputy_agents.text import cut

DESCRIPTION_LENGTH = 2000
"""Characters; the whole description is for people."""


def spec_of(definition: Definition) -> ToolSpec:
    """The tool that a definition with an input schema is."""
    return ToolSpec(definition.name, cut(definition.description, DESCRIPTION_LENGTH), schema_of(definition))
