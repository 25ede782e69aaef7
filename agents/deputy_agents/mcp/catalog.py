"""How far an MCP server is, and what it offers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from deputy_agents.ports.model import ToolSpec


class McpServerState(StrEnum):
    """How far a server is."""

    NEW = "new"
    """Nobody has looked yet whether it may be started."""
    ASKED = "asked"
    """The user has not said yet whether it may."""
    REFUSED = "refused"
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PromptInfo:
    """A prompt that a server has. ``arguments`` are in the order of the server; true for those that must be given."""

    name: str
    description: str = ""
    arguments: Mapping[str, bool] = field(default_factory=dict[str, bool])


@dataclass(frozen=True, slots=True)
class McpCatalog:
    """What a server has: tools, with the names that it gives them, by those that agents use; URIs of resources; and
    prompts. ``left_out`` tells of each tool that no agent is given why that is."""

    tools: Mapping[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])
    resources: tuple[str, ...] = ()
    prompts: tuple[PromptInfo, ...] = ()
    left_out: tuple[str, ...] = ()
