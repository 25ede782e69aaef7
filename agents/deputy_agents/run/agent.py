"""One agent as the runtime holds it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from deputy_agents.definition.definition import Definition
from deputy_agents.domain.access import Access
from deputy_agents.domain.event import AgentInfo, AgentRef
from deputy_agents.domain.message import Message, Usage
from deputy_agents.run.context_window import ContextWindow
from deputy_agents.run.state import Context
from deputy_agents.tool.base import ReadMarks, Tool
from deputy_agents.tool.delegate import DelegationTool

AnyTool: TypeAlias = Tool | DelegationTool


@dataclass(frozen=True, slots=True)
class Setup:
    """What an agent works with: built from its definition, its access, its parent, the settings and the workspace.
    It is replaced as a whole when one of these changes."""

    system: str
    """The system prompt."""
    tools: Mapping[str, AnyTool]
    context: Context


AT_REST = Setup("", {}, Context())
"""The setup of an agent that does not run: it gets its own again when it is resumed."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What every request of an agent starts with: its model, its system prompt and its tools. ``digest`` identifies
    them after a restart; ``tokens`` is the size of the prompt and the tools. ``parts`` is empty after a restart."""

    digest: str = ""
    tokens: int = 0
    parts: tuple[object, ...] = ()


@dataclass(slots=True)
class Agent:
    """Identity, setup and history of one agent. ``history`` is what its model has been sent and has answered; as long
    as ``recall`` is set, only what is new of it. A session keeps all agents that it ever had, so those that have ended
    keep little."""

    info: AgentInfo
    definition: Definition
    cwd: Path
    setup: Setup
    run: int = 1
    parent: "Agent | None" = None
    history: list[Message] = field(default_factory=list[Message])
    context_window: ContextWindow = field(default_factory=ContextWindow)
    """Which part of the history the model is sent."""
    frame: Frame = field(default_factory=Frame)
    """Of the last request."""
    marks: ReadMarks = field(default_factory=ReadMarks)
    usage: Usage = field(default_factory=Usage)
    last_usage: Usage | None = None
    """Of the last reply."""
    tool_calls: int = 0
    """Of the last run."""
    replies: int = 0
    """Replies of its model in all runs."""
    calls: int = 0
    """Tool calls of its model in all runs."""
    call_ids: set[str] = field(default_factory=set[str])
    """Of the calls in the history."""
    fallback: str | None = None
    """The model that replaces its own until the end of the turn or run."""
    result: str | None = ""
    """The complete result of the last run; ``None`` if only the store has it."""
    recall: Callable[[], Awaitable[None]] | None = None
    """Reads the history from the store, if it is not in memory."""
    notes: tuple[str, ...] = ()
    """Messages of the user that its model had not received before a restart; its next run starts with them."""

    @property
    def id(self) -> str:
        return self.info.agent_id

    @property
    def model(self) -> str:
        """The name of the model that it uses now."""
        return self.fallback or self.info.model

    @property
    def is_child(self) -> bool:
        return self.info.parent_id is not None

    @property
    def ref(self) -> AgentRef:
        """The agent with its ancestors, as a permission request names it."""
        ancestry = (*self.parent.ref.ancestry, (self.parent.id, self.parent.info.label)) if self.parent else ()
        info = self.info
        return AgentRef(info.agent_id, info.label, info.definition, info.model, info.depth, ancestry)

    @property
    def system(self) -> str:
        return self.setup.system

    @property
    def tools(self) -> Mapping[str, AnyTool]:
        return self.setup.tools

    @property
    def context(self) -> Context:
        return self.setup.context

    @property
    def writes(self) -> bool:
        """Whether its access lets it change things."""
        return self.info.access is not Access.READ_ONLY

    def rest(self) -> None:
        """Frees what only a run needs."""
        self.setup = AT_REST
        self.frame = replace(self.frame, parts=())

    async def remember(self) -> None:
        """Returns when the history is complete.

        Raises:
            StoreError: it cannot be read.
        """
        if self.recall is not None:
            await self.recall()

    def title(self, text: str) -> str:
        """``text`` as users see it: the calls of a sub-agent start with its label."""
        return f"[{self.info.label}] {text}" if self.is_child else text
