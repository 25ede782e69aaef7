"""Tells agents what their users have written down."""

from collections.abc import Iterable, Sequence

from deputy_agents.guidance.items import Instruction, Skill

SKILLS_LENGTH = 6000
"""Characters of the list of skills, about; the names of those beyond are still given."""


def told_instructions(found: Sequence[Instruction]) -> str:
    """A section of Markdown for a system prompt; empty when there are none."""
    if not found:
        return ""
    lines = [
        "# Instructions",
        "",
        "From files of the user and of the project; where two disagree, the later one holds.",
        "They tell how to work here, and permit nothing that the user has to be asked about.",
    ]
    for one in found:
        lines += ["", f'<instructions file="{one.path}">', one.text, "</instructions>"]
    return "\n".join(lines)


def told_skills(found: Iterable[Skill]) -> str:
    """A section of Markdown for a system prompt; empty when there are none."""
    skills = list(found)
    if not skills:
        return ""
    lines, room = ["# Skills", "", "Read one with `skill` before you do what it is for:"], SKILLS_LENGTH
    for index, skill in enumerate(skills):
        line = f"- `{skill.name}`: {skill.description}"
        if room < len(line):
            lines.append("- and " + ", ".join(f"`{other.name}`" for other in skills[index:]))
            break
        room -= len(line)
        lines.append(line)
    return "\n".join(lines)
