"""Describes the available sub-agents in the system prompt of the primary agent."""

from collections.abc import Iterable

from deputy_agents.definition.definition import Definition
from deputy_agents.text import clean, cut

DESCRIPTION_LENGTH = 400
"""Characters per sub-agent. Descriptions written for other programs may contain whole dialogues."""

SECTION_LENGTH = 8000
"""Approximate characters of the section. Sub-agents beyond it are listed by name only."""


def summary(definition: Definition) -> str:
    """The description on one line, without examples, at most :data:`DESCRIPTION_LENGTH` characters."""
    text = clean(definition.description).partition("<example")[0]
    return cut(" ".join(text.split()), DESCRIPTION_LENGTH)


def describe(definitions: Iterable[Definition]) -> str:
    """A Markdown section for a system prompt; empty if ``definitions`` contain no sub-agents."""
    agents = [definition for definition in definitions if definition.is_subagent]
    if not agents:
        return ""
    lines = ["# Sub-agents"]
    for heading, group in (
        ("Call each of these as a tool of its name:", [agent for agent in agents if agent.input_schema is not None]),
        ("Pass one of these names as `subagent_type`:", [agent for agent in agents if agent.input_schema is None]),
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
