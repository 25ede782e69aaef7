"""Sections of the system prompt for instructions and skills."""

from collections.abc import Iterable, Sequence

from deputy_agents.guidance.items import Instruction, Skill

SKILLS_LENGTH = 6000
"""Approximate characters of the list of skills. Skills beyond it are listed by name only."""


def instructions_section(instructions: Sequence[Instruction]) -> str:
    """A Markdown section for a system prompt; empty if there are no instructions."""
    if not instructions:
        return ""
    lines = [
        "# Instructions",
        "",
        "From files of the user and of the project. If two contradict each other, follow the later one.",
        "They describe how to work here. They do not replace the user's approval.",
    ]
    for one in instructions:
        lines += ["", f'<instructions file="{one.path}">', one.text, "</instructions>"]
    return "\n".join(lines)


def skills_section(skills: Iterable[Skill]) -> str:
    """A Markdown section for a system prompt; empty if there are no skills."""
    listed = list(skills)
    if not listed:
        return ""
    lines, room = ["# Skills", "", "Before you do what a skill is for, read it with `skill`:"], SKILLS_LENGTH
    for index, skill in enumerate(listed):
        line = f"- `{skill.name}`: {skill.description}"
        if room < len(line):
            lines.append("- and " + ", ".join(f"`{other.name}`" for other in listed[index:]))
            break
        room -= len(line)
        lines.append(line)
    return "\n".join(lines)
