"""Agent definitions: what kinds of agents there are, as data.

:class:`Definition` is the value; the files beside this module hold the built-in ones (Markdown with YAML
frontmatter), and ``loader`` reads them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Mode(StrEnum):
    """Who may be of a definition: the session's own agent, a child, or both."""

    PRIMARY = "primary"
    SUBAGENT = "subagent"
    ALL = "all"


class Access(StrEnum):
    """What a child may touch. ``READ_ONLY`` offers no tool that changes anything."""

    READ_ONLY = "read_only"
    DEFAULT = "default"


class PermissionMode(StrEnum):
    """How much the gate allows without asking, in rising order. A child runs under the lower of its own and
    its parent's."""

    PLAN = "plan"
    DEFAULT = "default"
    ACCEPT_EDITS = "accept_edits"
    BYPASS = "bypass"

    @property
    def rank(self) -> int:
        return list(PermissionMode).index(self)

    def met_with(self, other: "PermissionMode") -> "PermissionMode":
        """The lower of the two."""
        return min(self, other, key=lambda mode: mode.rank)


@dataclass(frozen=True, slots=True)
class Definition:
    """A kind of agent.

    ``tools`` names the tools that it is offered, or ``None`` for all that its access allows (a child without
    them gets its parent's). ``model`` is a model name, ``"small"`` for the configured small model, or ``None``
    for the parent's. ``timeout`` is in seconds of running time. ``input_schema`` (JSON Schema of an object)
    makes it a tool of the primary's own. ``source`` says where it was found: ``built-in`` or a path.
    """

    name: str
    description: str
    prompt: str
    mode: Mode = Mode.SUBAGENT
    icon: str | None = None
    tools: tuple[str, ...] | None = None
    max_iterations: int = 50
    model: str | None = None
    temperature: float | None = None
    timeout: float | None = None
    permission_mode: PermissionMode | None = None
    input_schema: Mapping[str, object] | None = None
    result_format: str | None = None
    source: str = "built-in"
