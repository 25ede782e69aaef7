"""The system prompt of an agent: its definition's text and where it works. It is the same for every request of a run,
so that a provider's prompt cache holds."""

from collections.abc import Sequence
from pathlib import Path

from deputy_agents.definition.definition import Definition
from deputy_agents.domain.access import Access
from deputy_agents.domain.settings import Root


def system_prompt(
    definition: Definition, cwd: Path, roots: Sequence[Path], further: Sequence[Root], access: Access, *, is_child: bool
) -> str:
    """Markdown."""
    lines = [definition.prompt, "", "# Where you work", f"- Current folder: {cwd}"]
    lines += [f"- Workspace root: {root}" for root in roots]
    lines += [f"- Further folder{'' if root.writable else ', to read only'}: {root.path}" for root in further]
    if is_child:
        lines.append(_ACCESS[access])
    return "\n".join(lines)


_ACCESS = {
    Access.READ_ONLY: "- You can search and read, and change nothing.",
    Access.DEFAULT: "- You can search, read, and propose edits; the user decides about each.",
}
