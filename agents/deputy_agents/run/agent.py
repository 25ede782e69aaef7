"""One agent as the runtime holds it, and what the runtime needs of its session."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

from deputy_agents.definition.definition import Definition
from deputy_agents.domain.access import Access
from deputy_agents.domain.event import AgentInfo, AgentRef, Body
from deputy_agents.domain.hook import Hook
from deputy_agents.domain.message import Message, Usage
from deputy_agents.domain.outcome import CancelReason, Ending
from deputy_agents.domain.rule import Rule
from deputy_agents.domain.settings import Settings
from deputy_agents.events.event_log import EventLog
from deputy_agents.files.workspace import Workspace
from deputy_agents.permission.decide import Policy
from deputy_agents.permission.inbox import Inbox
from deputy_agents.ports.clock import Clock
from deputy_agents.ports.editor import Editors
from deputy_agents.ports.model import Model
from deputy_agents.run.context_window import Memory
from deputy_agents.run.effect import FinishTurn
from deputy_agents.run.state import Context
from deputy_agents.shell.background import Background
from deputy_agents.tool.base import ReadMarks, SessionView, Tool
from deputy_agents.tool.delegate import Accepted, DelegationTool, SpawnSpec

AnyTool: TypeAlias = Tool | DelegationTool


@dataclass(slots=True)
class Agent:
    """Identity, means and memory of one agent. ``history`` is what its model has been told."""

    info: AgentInfo
    ref: AgentRef
    definition: Definition
    cwd: Path
    system: str
    tools: Mapping[str, AnyTool]
    context: Context
    run: int = 1
    parent: "Agent | None" = None
    history: list[Message] = field(default_factory=list[Message])
    memory: Memory = field(default_factory=Memory)
    """What of the history the model is sent."""
    frame: object = None
    """Model, prompt and tools of the last request."""
    marks: ReadMarks = field(default_factory=ReadMarks)
    usage: Usage = field(default_factory=Usage)
    tool_calls: int = 0
    replies: int = 0
    """Of its model, in all runs."""
    call_ids: set[str] = field(default_factory=set[str])
    result: str = ""
    """The whole result of the last run."""

    @property
    def id(self) -> str:
        return self.info.agent_id

    @property
    def is_child(self) -> bool:
        return self.info.parent_id is not None

    @property
    def writes(self) -> bool:
        """It may change things, by what it was given."""
        return self.info.access is not Access.READ_ONLY

    def title(self, text: str) -> str:
        """``text`` as people see it: a child's calls are headed by its label."""
        return f"[{self.info.label}] {text}" if self.is_child else text


class Host(Protocol):
    """What a driver asks of its session. What is not ``async`` returns at once."""

    @property
    def session_id(self) -> str: ...
    @property
    def log(self) -> EventLog: ...
    @property
    def inbox(self) -> Inbox: ...
    @property
    def workspace(self) -> Workspace: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def commands(self) -> Background: ...
    @property
    def editors(self) -> Editors: ...

    def hooks(self) -> Sequence[Hook]:
        """The hooks that hold now."""
        ...

    def mcp_tools(self, definition: str = "") -> Mapping[str, Tool]:
        """The tools of the MCP servers that run, by name: of those for all agents, or of those that are for the agents
        of ``definition`` alone."""
        ...

    def model(self, agent: Agent) -> Model: ...

    def policy(self, agent: Agent) -> Policy:
        """The policy that holds for ``agent`` now."""
        ...

    def remember(self, rules: Sequence[Rule]) -> None:
        """Adds rules for the rest of the session."""
        ...

    def session_view(self, agent: Agent) -> SessionView:
        """The session as the tools of ``agent`` may look at it."""
        ...

    def changing(
        self, agent: Agent, tool_use_id: str, path: Path, before: str | None, after: str
    ) -> AbstractAsyncContextManager[None]:
        """Around a change of a file by a call of ``agent``; the whole texts are kept, so that it can be taken back."""
        ...

    def over_budget(self, agent: Agent) -> bool:
        """Whether ``agent``, or its whole tree, has nothing left; it is then being cancelled."""
        ...

    async def equip(self, agent: Agent) -> None:
        """Gives ``agent`` the tools of the MCP servers of its definition; waits until the user has said whether these
        may run."""
        ...

    async def spawn(self, parent: Agent, tool_use_id: str, specs: Sequence[SpawnSpec]) -> tuple[Accepted, ...]:
        """Accepts the children of a door, in order; they start by themselves. While the agent is being cancelled
        fewer may be accepted, but never none: with none there is no answer but the cancel.

        Raises:
            ToolError: one cannot be accepted; then none is.
        """
        ...

    def cancel_children(self, agent_ids: Sequence[str], reason: CancelReason) -> None:
        """Begins to cancel; each child's end comes back as an input of its parent."""
        ...

    def background_ended(self, parent: Agent) -> None:
        """``parent`` was told of the end of a background child."""
        ...

    def turn_finished(self, agent: Agent, finish: FinishTurn) -> None: ...

    def run_ended(self, agent: Agent, ending: Ending) -> None:
        """The machine of a child has come to its end; its tasks may still be closing."""
        ...


def say(host: Host, agent: Agent, body: Body) -> None:
    """Emits an event of ``agent``."""
    host.log.emit(body, agent.id, agent.run)
