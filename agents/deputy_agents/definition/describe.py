"""Tells the primary which sub-agents there are."""

from collections.abc import Iterable

from deputy_agents.definition.definition import Definition
from deputy_agents.text import clean, cut

DESCRIPTION_LENGTH = 400
"""Characters per sub-agent. Descriptions written for other programs carry whole dialogues."""

SECTION_LENGTH = 8000
"""Characters of the section, about; the names of those beyond are still given."""


def summary(definition: Definition) -> str:
    """Its description on one line, without examples, at most :data:`DESCRIPTION_LENGTH` characters."""
    text = clean(definition.description).partition("<example")[0]
    return cut(" ".join(text.split()), DESCRIPTION_LENGTH)


def describe(definitions: Iterable[Definition]) -> str:
    """A section of Markdown for a system prompt; empty when there are no sub-agents among ``definitions``."""
    agents = [definition for definition in definitions if definition.is_subagent]
    if not agents:
        return ""
    lines = ["# Sub-agents"]
    for heading, group in (
        ("Each of these is a tool of its name:", [agent for agent in agents if agent.input_schema is not None]),
        ("These are named as `subagent_type`:", [agent for agent in agents if agent.input_schema is None]),
    ):
        if group:
            lines += ["", heading, *_listed(group, SECTION_LENGTH // 2)]
    return "\n".join(lines)


def _listed(agents: list[Definition], room: int) -> list[str]:
    lines: list[str] = []
    for index, agent in enumerate(agents):
        line = f"- `{agent.name}`: {summary(agent)}"
        if room < len(line):
            return [*lines, "- and " + ", ".join(f"`{other.name}`" for other in agents[index:])]
        room -= len(line)
        lines.append(line)
    return lines
