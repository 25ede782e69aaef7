"""Facts about the project and the machine, and their text for a model."""

import platform
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

from deputy_agents.project.git_state import GitState
from deputy_agents.project.layout import Folder, Layout
from deputy_agents.text import visible

TITLE: Final = "# Environment"
"""The first line of every text."""
_MAX_NAME: Final = 80
"""Characters of a name that are shown."""
_MAX_CHANGED: Final = 15
"""Changed files that are named."""


@dataclass(frozen=True, slots=True)
class Facts:
    """``folder`` is the one that ``git`` and ``layout`` describe. Both are ``None`` if they are not known."""

    today: date
    folder: Path
    git: GitState | None = None
    layout: Layout | None = None


def describe(facts: Facts) -> str:
    """Markdown of at most about 10,000 characters, usually below 2,000. Names are escaped and cut."""
    lines = [
        TITLE,
        "When this was written. It is information, not a task.",
        f"- Date: {facts.today:%Y-%m-%d}",
        f"- System: {platform.system()} {platform.release()} ({platform.machine()}); commands run in bash",
    ]
    if facts.git is not None:
        lines += _git_lines(facts.git)
    if facts.layout is not None and facts.layout.files:
        lines += _layout_lines(facts.layout, facts.folder)
    return "\n".join(lines)


def describe_changes(before: Facts, now: Facts) -> str:
    """What an agent that knows ``before`` must know; empty if nothing of date and branch has changed."""
    lines: list[str] = []
    if now.today != before.today:
        lines.append(f"- Date: {now.today:%Y-%m-%d}")
    if now.git is not None and before.git is not None and now.git.branch != before.git.branch:
        lines.append(f"- Git branch: {_branch(now.git)}, before: {_branch(before.git)}")
    return "\n".join([TITLE, "Changed since the last prompt:", *lines]) if lines else ""


def _git_lines(git: GitState) -> list[str]:
    distance = [f"{count} {word}" for count, word in ((git.ahead, "ahead"), (git.behind, "behind")) if count]
    upstream = f" ({_name(git.upstream)}: {', '.join(distance)})" if git.upstream and distance else ""
    lines = [f"- Git branch: {_branch(git)}{upstream}"]
    if git.changed:
        named = ", ".join(
            f"{letters.replace('.', ' ').strip()} {_name(path)}" for letters, path in git.changed[:_MAX_CHANGED]
        )
        more = len(git.changed) - _MAX_CHANGED
        and_more = f" and {more}{'' if git.complete else ' or more'} others" if more > 0 else ""
        lines.append(f"- Uncommitted: {named}{and_more}")
    else:
        lines.append("- Uncommitted: nothing")
    return lines


def _layout_lines(layout: Layout, folder: Path) -> list[str]:
    lines: list[str] = []
    if layout.languages:
        lines.append("- Languages: " + ", ".join(f"{name} ({_files(count)})" for name, count in layout.languages))
    lines.append(f"- {folder} has {_files(layout.files)}, without ignored ones:")
    lines += [f"  - {_folder_line(one)}" for one in layout.folders]
    if layout.names:
        lines.append(f"  - {', '.join(map(_name, layout.names))}")
    if layout.more:
        lines.append(f"  - and {layout.more} more")
    return lines


def _folder_line(folder: Folder) -> str:
    entries = ", ".join(map(_name, folder.entries))
    more = f" and {folder.more} more" if folder.more else ""
    return f"{_name(folder.name)}/ ({_files(folder.files)}): {entries}{more}"


def _branch(git: GitState) -> str:
    return _name(git.branch) if git.branch is not None else f"none, at commit {_name(git.commit)}"


def _name(text: str) -> str:
    shown = visible(text)
    return shown if len(shown) <= _MAX_NAME else f"{shown[: _MAX_NAME - 1]}…"


def _files(count: int) -> str:
    return f"{count:,} {'file' if count == 1 else 'files'}"
