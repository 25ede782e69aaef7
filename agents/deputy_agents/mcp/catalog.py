"""The state of an MCP server, and its catalog of tools, resources and prompts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from deputy_agents.mcp.schema import ModelSchema
from deputy_agents.ports.model import ToolSpec


class McpServerState(StrEnum):
    """The state of an MCP server. Values are part of the wire."""

    NEW = "new"
    """It was not checked yet whether the MCP server may start."""
    AWAITING_APPROVAL = "asked"
    """The user was asked and has not answered."""
    DENIED = "refused"
    NEEDS_SIGN_IN = "needs_sign_in"
    """The user has to sign in before it can run."""
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PromptInfo:
    """A prompt of an MCP server. ``arguments`` are in its order; the value is true for required ones."""

    name: str
    description: str = ""
    arguments: Mapping[str, bool] = field(default_factory=dict[str, bool])


@dataclass(frozen=True, slots=True)
class McpCatalog:
    """The tools of an MCP server by the names that agents use (each spec has the original name), URIs of resources, and
    prompts. ``ignored`` has a sentence with the reason for each unusable tool, ``renamed`` the schemas of tools with
    parameters that models see under other names."""

    tools: Mapping[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])
    resources: tuple[str, ...] = ()
    prompts: tuple[PromptInfo, ...] = ()
    ignored: tuple[str, ...] = ()
    renamed: Mapping[str, ModelSchema] = field(default_factory=dict[str, ModelSchema])
