"""What ``.deputy/settings.json`` of a folder says: permission rules, hooks and MCP servers. A workspace has one,
beside the agents that it defines, and the user's home folder, for all workspaces."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.hook import Hook
from deputy_agents.domain.problem import Problem
from deputy_agents.domain.rule import Rule
from deputy_agents.files import disk
from deputy_agents.guidance.mcp_config import servers_of
from deputy_agents.guidance.mcp_entry import Source
from deputy_agents.guidance.rules import asking, rules_of
from deputy_agents.hooks.config import hooks_of
from deputy_agents.validation_errors import Malformed, parsed

FILE: Final = (".deputy", "settings.json")


@dataclass(frozen=True, slots=True)
class Written:
    """Of one folder, or of several together; ``problems`` are what is wrong with it."""

    rules: tuple[Rule, ...] = ()
    hooks: tuple[Hook, ...] = ()
    servers: tuple[Source, ...] = ()
    problems: tuple[Problem, ...] = ()

    def __add__(self, other: "Written") -> "Written":
        return Written(
            self.rules + other.rules,
            self.hooks + other.hooks,
            self.servers + other.servers,
            self.problems + other.problems,
        )


def written_in(root: Path, *, own: bool = False) -> Written:
    """What the file below ``root`` says; ``own`` when that is the user's home. Blocks."""
    file = str(root.joinpath(*FILE))
    try:
        found = disk.read_text(root, FILE)
        whole: object = {} if found is None else parsed(found.text)
    except (ToolError, Malformed) as error:
        rules, problems = asking(file, error)
        return Written(rules, problems=problems)
    rules, problems = rules_of(whole, file)
    hooks, wrong = hooks_of(whole, file)
    servers, unnamed = servers_of(whole, file, own=own)
    return Written(rules, hooks, servers, problems + wrong + unnamed)
