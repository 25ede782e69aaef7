"""Which tools there are, and which of them an agent is offered."""

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
"""What an agent with read-only access may be offered of the tools that touch the world. By name, not by kind: a tool
that somebody else brings does not become harmless by calling itself a reader."""


def file_tools() -> tuple[Tool, ...]:
    """The tools that work on files of the workspace. They hold no state and may be shared by all agents."""
    return ReadFile(), ListDir(), Glob(), Grep(), EditFile(), WriteFile()


def code_tools() -> tuple[Tool, ...]:
    """The tools that ask the editor about the code. They hold no state either."""
    return Diagnostics(), Lookup()


def command_tools() -> tuple[Tool, ...]:
    """The tools that run commands and look after those in the background. They hold no state either."""
    return Shell(), ProcessTool()


def web_tools(fetcher: Fetcher) -> tuple[Tool, ...]:
    """The tools that read from the web."""
    return WebFetch(fetcher), WebSearch()


class Registry(Mapping[str, Tool]):
    """Tools by name, in the order in which models are shown them."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def offered(self, access: Access, listed: Iterable[str] | None = None) -> "Registry":
        """What an agent with ``access`` gets of these tools; ``listed`` are the names that its definition allows
        (``None``: all)."""
        allowed = self._tools.keys() if listed is None else frozenset(listed)
        if access is Access.READ_ONLY:
            allowed = READ_ONLY & allowed
        return Registry(tool for name, tool in self._tools.items() if name in allowed)
