"""The agent definition value."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from deputy_agents.domain.model_card import Effort
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import Rule, names_tool

SMALL = "small"
"""The model name that means the configured small model."""

BUILT_IN = ("primary", "general", "code_search", "code_review", "planner")
"""Names of the built-in definitions, in listing order."""

MCP_PREFIX = "mcp__"
"""Prefix of the names of MCP tools."""

FOLDERS = (".deputy/agents", ".claude/agents")
"""Folders of definitions, below a workspace root or the user's home. Earlier ones have precedence."""


class Mode(StrEnum):
    """Who can use a definition: the primary agent, sub-agents, or both."""

    PRIMARY = "primary"
    SUBAGENT = "subagent"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Definition:
    """An agent definition.

    ``tools`` are the names of its tools; ``None`` means the tools of the parent, or for a primary agent all that its
    access allows. ``disallowed_tools`` are removed from them. Names that start with ``mcp__`` may be patterns, see
    :meth:`allows`. ``model`` is a model name, :data:`SMALL`, or ``None`` for the model of the parent; ``effort`` is
    ``None`` for that of the parent. ``timeout`` is in
    seconds of running time. ``input_schema`` (JSON Schema of an object) makes the agent a typed one: the primary agent
    calls it as a tool of its name, and ``result_format`` is the template of the tool result (see ``typed``). ``source``
    is ``built-in`` or the path of the file. ``from_home`` is true for a definition in the user's home.

    ``mcp_servers`` are the MCP servers that the agent can use, by name; ``None`` means all. The value is the server's
    entry in the format of ``.mcp.json`` if the definition contains it, ``None`` for a server of the session.
    """

    name: str
    description: str
    prompt: str
    mode: Mode = Mode.SUBAGENT
    icon: str | None = None
    tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] = ()
    max_iterations: int = 50
    model: str | None = None
    effort: Effort | None = None
    temperature: float | None = None
    timeout: float | None = None
    permission_mode: PermissionMode | None = None
    rules: tuple[Rule, ...] = ()
    input_schema: Mapping[str, object] | None = None
    result_format: str | None = None
    source: str = "built-in"
    from_home: bool = False
    mcp_servers: Mapping[str, object] | None = None

    @property
    def is_subagent(self) -> bool:
        return self.mode is not Mode.PRIMARY

    def allows(self, tool: str) -> bool:
        """Whether an agent with this definition can have ``tool``. An entry ``mcp__server`` means every tool of that
        MCP server, and ``*`` in such an entry matches any text."""
        if any(names_tool(entry, tool) for entry in self.disallowed_tools):
            return False
        if self.mcp_servers is not None and tool.startswith(MCP_PREFIX):
            return self._allows_mcp_tool(tool, self.mcp_servers)
        return self.tools is None or any(names_tool(entry, tool) for entry in self.tools)

    def _allows_mcp_tool(self, tool: str, mcp_servers: Collection[str]) -> bool:
        """Whether ``tool`` is a tool of one of ``mcp_servers``. If ``tools`` names tools of a server, only those."""
        server = next((name for name in mcp_servers if names_tool(f"{MCP_PREFIX}{name}", tool)), None)
        if server is None:
            return False
        named = [entry for entry in self.tools or () if f"{entry}__".startswith(f"{MCP_PREFIX}{server}__")]
        return not named or any(names_tool(entry, tool) for entry in named)

    def model_for(self, parent: str, small: str | None) -> str:
        """The model to use, given the model of the parent and the configured small model."""
        if self.model == SMALL:
            return small or parent
        return self.model or parent
