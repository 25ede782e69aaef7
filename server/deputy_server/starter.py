"""The files that ``deputy init`` writes: a start for the agents, settings and instructions of a project."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from deputy_agents.files.ignore import is_ignored

_SETTINGS = """\
{
  // Settings of this folder for everyone who works in it with Deputy. Comments are allowed.
  // `deputy config list` shows what applies, `deputy config set NAME VALUE --project` changes this file.
  "permissions": {
    // Rules for all agents. "deny" and "ask" always apply; "allow" only if the user trusts this folder.
    "rules": [
      {"tool": "shell", "pattern": "git push *", "action": "ask"}
    ]
  },
  // Commands around tools and at the end of a turn, in a trusted folder. For example:
  // {"on": "turn_end", "run": "make test"}
  "hooks": [],
  // MCP servers by name. Each needs approval before it starts.
  "mcpServers": {}
}
"""

_AGENT = """\
---
name: change_reviewer
description: Reviews the changes that were made in this session and lists problems, the worst first.
mode: subagent
tools: [read_file, glob, grep, list_dir]
---
Review the changes that the task names.

1. Read each changed file, and what calls it.
2. List wrong behaviour first, then missing tests, then what is hard to read.
3. Give the path and line of each problem, and one sentence on how to solve it.

Do not list what is a matter of taste. If there is no problem, answer "No problems found."
"""

_INSTRUCTIONS = """\
# Instructions for agents

What an agent should know about this project before it changes anything. Replace the examples.

- Run the tests with `make test`, and the linter with `make lint`.
- Write tests for each change, beside the tests that are there.
- Do not edit generated files.
"""

FILES: Mapping[str, str] = {
    ".deputy/settings.json": _SETTINGS,
    ".deputy/agents/change_reviewer.md": _AGENT,
    "AGENTS.md": _INSTRUCTIONS,
}
"""The files by their paths in the project."""
_SAME_ROLE = {"AGENTS.md": ("AGENTS.md", "CLAUDE.md")}
"""Files that make a file of the starter unnecessary."""


def missing_files(folder: Path) -> dict[str, str]:
    """The files that ``folder`` has not yet, nor others in their role."""
    return {
        name: text
        for name, text in FILES.items()
        if not any(
            (folder / other).exists() or (folder / other).is_symlink() for other in _SAME_ROLE.get(name, (name,))
        )
    }


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Create ``files``. None is overwritten, and none is left incomplete.

    Raises:
        OSError: a file exists by now, or cannot be written.
    """
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        file = folder / name
        try:
            with file.open("x", encoding="utf-8") as opened:
                opened.write(text)
        except FileExistsError:
            raise
        except OSError as error:
            with suppress(OSError):
                file.unlink(missing_ok=True)  # the next `deputy init` would keep an incomplete one
            raise OSError(error.errno, error.strerror, str(file)) from None


def git_hint(folder: Path) -> str:
    """What to do so that the files reach others through Git; empty outside a repository."""
    repository = next((one for one in (folder, *folder.parents) if (one / ".git").exists()), None)
    if repository is None:
        return ""
    parts = (*folder.relative_to(repository).parts, ".deputy", "settings.json")
    if is_ignored(repository, parts, 0):
        return "Git ignores .deputy, so nobody else gets these files. To share them, add !.deputy/ to .gitignore."
    return "To share these files with everyone who works here, commit them: git add .deputy AGENTS.md"
