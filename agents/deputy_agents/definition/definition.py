"""The agent definition, as a value."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import Rule, names_tool

SMALL = "small"
"""The model name that stands for the configured small model."""


BUILT_IN = ("primary", "general", "code_search", "code_review", "planner")
"""Names of the definitions that Deputy ships, in the order in which they are listed."""


SERVERS = "mcp__"
"""How the names of the tools of MCP servers begin."""


FOLDERS = (".deputy/agents", ".claude/agents")
"""Where definitions lie, below a workspace root or the user's home; the nearest first."""


class Mode(StrEnum):
    """Who may be of a definition: the session's own agent, a child, or both."""

    PRIMARY = "primary"
    SUBAGENT = "subagent"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Definition:
    """A kind of agent.

    ``tools`` names the tools that it is offered, or ``None`` for all that its access allows (a child without
    them gets its parent's); ``disallowed_tools`` are taken from these. Names that start with ``mcp__`` may be
    patterns, see :meth:`allows`. ``model`` is a model name, :data:`SMALL`, or ``None`` for the parent's.
    ``timeout`` is in seconds of running time. ``input_schema`` (JSON Schema of an object) makes it a tool of the
    primary's own, and ``result_format`` is the template of that tool's result (see ``typed``). ``source`` says
    where it was found: ``built-in`` or a path; ``own`` is one that the user has at home.

    ``servers`` are the MCP servers that it has, where it names them: by name, with what ``.mcp.json`` says of one for
    those that it brings along, ``None`` for those that the session has anyway.
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
    temperature: float | None = None
    timeout: float | None = None
    permission_mode: PermissionMode | None = None
    rules: tuple[Rule, ...] = ()
    input_schema: Mapping[str, object] | None = None
    result_format: str | None = None
    source: str = "built-in"
    own: bool = False
    servers: Mapping[str, object] | None = None

    @property
    def is_subagent(self) -> bool:
        return self.mode is not Mode.PRIMARY

    def allows(self, tool: str) -> bool:
        """Whether an agent of this kind may be offered ``tool``. ``mcp__server`` stands for every tool of that
        server, and ``*`` in such a name for any text."""
        if any(names_tool(entry, tool) for entry in self.disallowed_tools):
            return False
        if self.servers is not None and tool.startswith(SERVERS):
            return self._has_of_server(tool, self.servers)
        return self.tools is None or any(names_tool(entry, tool) for entry in self.tools)

    def _has_of_server(self, tool: str, servers: Collection[str]) -> bool:
        """``servers`` says of which servers it has tools; where ``tools`` names some of one, only these."""
        server = next((name for name in servers if names_tool(f"{SERVERS}{name}", tool)), None)
        if server is None:
            return False
        named = [entry for entry in self.tools or () if f"{entry}__".startswith(f"{SERVERS}{server}__")]
        return not named or any(names_tool(entry, tool) for entry in named)

    def model_for(self, parent: str, small: str | None) -> str:
        """The name of its model, where ``parent`` is that of its parent and ``small`` the configured small one."""
        if self.model == SMALL:
            return small or parent
        return self.model or parent
