"""Agent definitions: the kinds of agents there are."""

from enum import StrEnum

from deputy_protocol.base import Positive, Wire


class DefinitionMode(StrEnum):
    """Who may be of a definition: the primary, a child, or both."""

    PRIMARY = "primary"
    SUBAGENT = "subagent"
    ALL = "all"


class DefinitionInfo(Wire):
    """A kind of agent."""

    name: str
    description: str
    icon: str | None = None
    mode: DefinitionMode
    tools: tuple[str, ...]
    """Names of the tools that it may be given."""
    max_iterations: Positive
    model: str | None = None
    """That of the parent when absent."""
    source: str
    """`built-in`, or where it was found."""


class DefinitionListResult(Wire):
    """All definitions."""

    definitions: tuple[DefinitionInfo, ...]
