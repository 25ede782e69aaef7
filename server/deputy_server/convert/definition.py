"""Agent definitions."""

from collections.abc import Sequence

from deputy_agents.definition.definition import Definition
from deputy_protocol import definition as wire_definition


def definition_info(kind: Definition, all_tools: Sequence[str]) -> wire_definition.DefinitionInfo:
    """``all_tools`` are those that there are: a definition that names none may be given any."""
    return wire_definition.DefinitionInfo(
        name=kind.name,
        description=kind.description,
        icon=kind.icon,
        mode=wire_definition.DefinitionMode(kind.mode.value),
        tools=tuple(name for name in kind.tools or all_tools if kind.allows(name)),
        max_iterations=kind.max_iterations,
        model=kind.model,
        source=kind.source,
    )
