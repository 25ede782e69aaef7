"""What a driver needs from the session around it, as protocols. Methods that are not ``async`` return at once."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from deputy_agents.domain.event import Body
from deputy_agents.domain.file_change import Approval
from deputy_agents.domain.hook import Hook
from deputy_agents.domain.model_card import Effort, ThinkingMode
from deputy_agents.domain.outcome import CancelReason, LimitReached
from deputy_agents.domain.rule import Rule, RuleScope
from deputy_agents.domain.settings import Settings
from deputy_agents.events.event_log import EventLog
from deputy_agents.files.workspace import Workspace
from deputy_agents.permission.decide import Policy
from deputy_agents.permission.inbox import Inbox
from deputy_agents.ports.clock import Clock
from deputy_agents.ports.editor import Editors
from deputy_agents.ports.model import Model
from deputy_agents.run.agent import Agent
from deputy_agents.run.effect import FinishTurn
from deputy_agents.run.rejected_options import RejectedOptions
from deputy_agents.shell.background import BackgroundProcesses
from deputy_agents.tool.base import SessionView
from deputy_agents.tool.delegate import Accepted, SpawnSpec


class Host(Protocol):
    """The services of a session: log, files, permissions, models. It has no access to the tree of agents."""

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
    def background_processes(self) -> BackgroundProcesses: ...
    @property
    def editors(self) -> Editors: ...

    def hooks(self) -> Sequence[Hook]:
        """The hooks in force."""
        ...

    @property
    def chosen_effort(self) -> Effort | None:
        """The effort that was chosen for the session."""
        ...

    @property
    def thinking(self) -> ThinkingMode:
        """When the models of the session think."""
        ...

    @property
    def rejected_options(self) -> RejectedOptions:
        """What models of the session have rejected."""
        ...

    def model(self, agent: Agent) -> Model: ...

    def policy(self, agent: Agent) -> Policy:
        """The permission policy in force for ``agent``."""
        ...

    def remember(self, rules: Sequence[Rule]) -> None:
        """Adds rules for the rest of the session."""
        ...

    async def save(self, rules: Sequence[Rule], scope: RuleScope) -> None:
        """Adds rules for the project or for every project of the user. Never raises."""
        ...

    def session_view(self, agent: Agent) -> SessionView:
        """The session as the tools of ``agent`` may see it."""
        ...

    def changing(
        self, agent: Agent, tool_use_id: str, approved: Approval, path: Path, before: str | None, after: str
    ) -> AbstractAsyncContextManager[None]:
        """Wraps a change of a file by a call of ``agent``. Both texts are kept, so that it can be undone."""
        ...

    def covering(self, agent: Agent, tool_use_id: str, approved: Approval) -> AbstractAsyncContextManager[None]:
        """Wraps a call of ``agent`` that may change files by other ways, such as a command. What it changes is recorded
        when it ends."""
        ...


class AgentTree(Protocol):
    """The owner of all drivers of a session."""

    async def spawn(self, parent: Agent, tool_use_id: str, specs: Sequence[SpawnSpec]) -> tuple[Accepted, ...]:
        """Accepts sub-agents, in order; they start by themselves. While ``parent`` is being cancelled fewer may be
        accepted, but never none: then only the cancel is left.

        Raises:
            ToolError: one cannot be accepted; then none is.
        """
        ...

    def cancel_children(self, agent_ids: Sequence[str], reason: CancelReason) -> None:
        """Starts to cancel; the parent receives each end as an input."""
        ...

    def end_at_limit(self, agent: Agent, limit: LimitReached) -> None:
        """Starts to end one agent; with the primary, its turn and everything below it."""
        ...

    def over_budget(self, agent: Agent) -> bool:
        """Whether the budget of ``agent`` or of the whole session is used up. If so, it is being cancelled."""
        ...


class PrimaryTurns(Protocol):
    """Who runs the turns of a primary agent. It attaches itself as :attr:`Driver.turns`."""

    def finished(self, finish: FinishTurn) -> None:
        """The machine of the primary has ended the running turn."""
        ...

    async def cancel(self, reason: CancelReason, limit: LimitReached | None = None) -> bool: ...

    def task_ended(self) -> None:
        """A background task or process of the primary has ended, and the primary has its notice."""
        ...


def emit(host: Host, agent: Agent, body: Body) -> None:
    """Emits an event of ``agent``."""
    host.log.emit(body, agent.id, agent.run)
