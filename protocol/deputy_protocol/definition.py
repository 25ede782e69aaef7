"""An agent definition describes an agent: its task, tools, model and limits. Some are built in; users write others as
Markdown files."""

from enum import StrEnum

from deputy_protocol.base import Positive, Wire


class DefinitionMode(StrEnum):
    """Where a definition can be used: for the primary agent, for sub-agents, or for both."""

    PRIMARY = "primary"
    SUBAGENT = "subagent"
    ALL = "all"


class DefinitionInfo(Wire):
    """An agent definition."""

    name: str
    description: str
    icon: str | None = None
    """A character to show in front of the name."""
    mode: DefinitionMode
    tools: tuple[str, ...]
    """Names of the tools that the agent may use."""
    max_iterations: Positive
    """Maximum number of model requests of one run."""
    model: str | None = None
    """Default: the parent's model."""
    source: str
    """`built-in`, or the path of the file."""


class DefinitionListResult(Wire):
    """All agent definitions."""

    definitions: tuple[DefinitionInfo, ...]
