"""Reads ``.deputy/settings.json``: permission rules, hooks and MCP servers. The file in a workspace root applies to the
workspace, the one in the user's home folder to all workspaces."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.hook import Hook
from deputy_agents.domain.problem import Problem
from deputy_agents.domain.rule import Rule
from deputy_agents.files import disk
from deputy_agents.guidance.mcp_config import parse_mcp_servers
from deputy_agents.guidance.mcp_entry import McpServerSource
from deputy_agents.guidance.rules import ask_always, parse_rules
from deputy_agents.hooks.config import parse_hooks
from deputy_agents.validation_errors import InvalidJson, parse_json

FILE: Final = (".deputy", "settings.json")


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


def read_workspace_settings(root: Path, *, from_home: bool = False) -> WorkspaceSettings:
    """Read the settings file below ``root``; ``from_home`` if that is the user's home folder. Blocks."""
    file = str(root.joinpath(*FILE))
    try:
        found = disk.read_text(root, FILE)
        settings: object = {} if found is None else parse_json(found.text)
    except (ToolError, InvalidJson) as error:
        rules, problems = ask_always(file, error)
        return WorkspaceSettings(rules, problems=problems)
    rules, rule_problems = parse_rules(settings, file)
    hooks, hook_problems = parse_hooks(settings, file)
    mcp_servers, mcp_problems = parse_mcp_servers(settings, file, trusted=from_home)
    return WorkspaceSettings(rules, hooks, mcp_servers, rule_problems + hook_problems + mcp_problems)
