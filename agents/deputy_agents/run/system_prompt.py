"""The system prompt of an agent: the prompt of its definition, and the folders in which it works. It is the same for
every request of a run, which keeps the provider's prompt cache valid."""

from collections.abc import Sequence
from pathlib import Path

from deputy_agents.definition.definition import Definition
from deputy_agents.domain.access import Access
from deputy_agents.domain.settings import Root


def system_prompt(
    definition: Definition,
    cwd: Path,
    roots: Sequence[Path],
    additional: Sequence[Root],
    access: Access,
    *,
    is_child: bool,
) -> str:
    """Returns Markdown."""
    lines = [definition.prompt, "", "# Where you work"]
    lines.append(f"- Current folder: {cwd}" if roots or additional else _NO_FOLDER)
    lines += [f"- Workspace root: {root}" for root in roots]
    lines += [f"- Additional folder{'' if root.writable else ' (read-only)'}: {root.path}" for root in additional]
    if is_child:
        lines.append(_ACCESS[access])
    return "\n".join(lines)


_NO_FOLDER = (
    "- The user has opened no folder: there are no files to read or change, and no commands to run. If the task needs "
    "them, ask the user to open a folder and to start a new session."
)
_ACCESS = {
    Access.READ_ONLY: "- You can search and read, but change nothing.",
    Access.DEFAULT: "- You can search, read, and propose edits. The user approves or denies each edit.",
}
