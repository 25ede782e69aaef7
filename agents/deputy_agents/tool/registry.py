"""The built-in tools, and the selection of tools for an agent."""

from collections.abc import Iterable, Iterator, Mapping

from deputy_agents.domain.access import Access
from deputy_agents.tool.base import Tool
from deputy_agents.tool.code import Diagnostics, Lookup
from deputy_agents.tool.edit import EditFile, WriteFile
from deputy_agents.tool.read import ListDir, ReadFile
from deputy_agents.tool.search import Glob, Grep
from deputy_agents.tool.shell import ProcessTool, Shell
from deputy_agents.tool.web import WebFetch, WebSearch
from deputy_agents.web.fetch import Fetcher

READ_ONLY = frozenset(
    {"read_file", "list_dir", "glob", "grep", "diagnostics", "lookup", "web_fetch", "web_search"},
)
"""The tools with effects outside the session that an agent with read-only access can have. Listed by name, not by kind:
an MCP server that declares its tool to be read-only does not make it harmless."""


def file_tools() -> tuple[Tool, ...]:
    """The tools for files of the workspace. They are stateless and can be shared by all agents."""
    return ReadFile(), ListDir(), Glob(), Grep(), EditFile(), WriteFile()


def code_tools() -> tuple[Tool, ...]:
    """The tools that query the editor about code. They are stateless."""
    return Diagnostics(), Lookup()


def command_tools() -> tuple[Tool, ...]:
    """The tools that run commands and manage background processes. They are stateless."""
    return Shell(), ProcessTool()


def web_tools(fetcher: Fetcher) -> tuple[Tool, ...]:
    return WebFetch(fetcher), WebSearch()


class Registry(Mapping[str, Tool]):
    """Tools by name, in the order in which models see them."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def offered(self, access: Access, listed: Iterable[str] | None = None) -> "Registry":
        """The tools for an agent with ``access``; ``listed`` are the names that its definition allows (``None``:
        all)."""
        allowed = self._tools.keys() if listed is None else frozenset(listed)
        if access is Access.READ_ONLY:
            allowed = READ_ONLY & allowed
        return Registry(tool for name, tool in self._tools.items() if name in allowed)
