"""Reads ``.deputy/settings.json``, which is JSON with comments: permission rules, hooks and MCP servers. The file in a
workspace root applies to the workspace, the one in the user's home folder to all workspaces."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.hook import Hook
from deputy_agents.domain.problem import Problem
from deputy_agents.domain.rule import Rule
from deputy_agents.files import disk
from deputy_agents.guidance.jsonc import line_of, parse_jsonc
from deputy_agents.guidance.mcp_config import parse_mcp_servers
from deputy_agents.guidance.mcp_entry import McpServerSource
from deputy_agents.guidance.rules import ask_always, parse_rules
from deputy_agents.hooks.config import parse_hooks
from deputy_agents.validation_errors import InvalidJson

FILE: Final = (".deputy", "settings.json")
LOCAL_FILE: Final = (".deputy", "settings.local.json")
"""The personal file in a workspace, for the user's answers there."""


@dataclass(frozen=True, slots=True)
class WorkspaceSettings:
    """The settings of one folder, or of several folders combined, and problems in the files."""

    rules: tuple[Rule, ...] = ()
    hooks: tuple[Hook, ...] = ()
    mcp_servers: tuple[McpServerSource, ...] = ()
    problems: tuple[Problem, ...] = ()

    def __add__(self, other: "WorkspaceSettings") -> "WorkspaceSettings":
        return WorkspaceSettings(
            self.rules + other.rules,
            self.hooks + other.hooks,
            self.mcp_servers + other.mcp_servers,
            self.problems + other.problems,
        )


def read_user_settings(folder: Path) -> WorkspaceSettings:
    """Read the user's own settings in ``folder``, such as ``~/.deputy``. Blocks."""
    return read_workspace_settings(folder, from_home=True, parts=FILE[-1:])


def read_workspace_settings(root: Path, *, from_home: bool = False, parts: tuple[str, ...] = FILE) -> WorkspaceSettings:
    """Read the settings file ``parts`` below ``root``; ``from_home`` if it is the user's own. Blocks."""
    file = str(root.joinpath(*parts))
    try:
        found = disk.read_text(root, parts)
        settings: object = {} if found is None else parse_jsonc(found.text)
    except (ToolError, InvalidJson) as error:
        rules, problems = ask_always(file, error)
        return WorkspaceSettings(rules, problems=problems)
    rules, rule_problems = parse_rules(settings, file)
    text = "" if found is None else found.text
    hooks, hook_problems = parse_hooks(settings, file, lambda keys: line_of(text, keys))
    mcp_servers, mcp_problems = parse_mcp_servers(settings, file, trusted=from_home)
    return WorkspaceSettings(rules, hooks, mcp_servers, rule_problems + hook_problems + mcp_problems)
