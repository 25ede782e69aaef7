"""Agent definitions."""

from collections.abc import Sequence

from deputy_agents.definition.definition import Definition
from deputy_protocol import definition as wire_definition


def definition_to_wire(definition: Definition, all_tools: Sequence[str]) -> wire_definition.DefinitionInfo:
    """``all_tools`` are the existing tools: a definition that names none may use any."""
    return wire_definition.DefinitionInfo(
        name=definition.name,
        description=definition.description,
        icon=definition.icon,
        mode=wire_definition.DefinitionMode(definition.mode.value),
        tools=tuple(name for name in definition.tools or all_tools if definition.allows(name)),
        max_iterations=definition.max_iterations,
        model=definition.model,
        source=definition.source,
    )
