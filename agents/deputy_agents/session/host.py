"""The services of one session for its drivers and tools."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from deputy_agents.domain.file_change import FileChange
from deputy_agents.domain.hook import Hook
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.rule import Rule
from deputy_agents.domain.settings import Settings
from deputy_agents.events.event_log import EventLog
from deputy_agents.files.workspace import Workspace
from deputy_agents.guidance.library import Library
from deputy_agents.permission.decide import Policy
from deputy_agents.permission.inbox import Inbox
from deputy_agents.ports.clock import Clock
from deputy_agents.ports.editor import Editors
from deputy_agents.ports.model import Model
from deputy_agents.run.agent import Agent
from deputy_agents.session.change_tracker import ChangeTracker
from deputy_agents.session.permissions import SessionPermissions
from deputy_agents.session.roster import Roster
from deputy_agents.session.services import Services
from deputy_agents.session.session_view import LiveSessionView
from deputy_agents.shell.background import BackgroundProcesses
from deputy_agents.tool.base import SessionView


class SessionHost:
    """Implements :class:`deputy_agents.run.host.Host`. It starts and owns nothing."""

    def __init__(
        self,
        services: Services,
        log: EventLog,
        inbox: Inbox,
        workspace: Workspace,
        library: Library,
        permissions: SessionPermissions,
        changes: ChangeTracker,
        background_processes: BackgroundProcesses,
        roster: Roster,
    ) -> None:
        self.log = log
        self.inbox = inbox
        self.workspace = workspace
        self.background_processes = background_processes
        self.editors = Editors()
        """The connected editors, which tools can ask about the code."""
        self._services = services
        self._library = library
        self._permissions = permissions
        self._changes = changes
        self._roster = roster

    @property
    def session_id(self) -> str:
        return self.log.session_id

    @property
    def clock(self) -> Clock:
        return self._services.clock

    @property
    def settings(self) -> Settings:
        return self._services.settings

    def hooks(self) -> Sequence[Hook]:
        of_workspace = self._library.workspace_settings.hooks if self.settings.vouched else ()
        return (*self.settings.hooks, *self._library.user_settings.hooks, *of_workspace)

    def model(self, agent: Agent) -> Model:
        return self._services.models(agent.info.model)

    def policy(self, agent: Agent) -> Policy:
        return self._permissions.policy(agent)

    def remember(self, rules: Sequence[Rule]) -> None:
        self._permissions.remember(rules)

    def session_view(self, agent: Agent) -> SessionView:
        return LiveSessionView(self.log, self._roster, agent)

    def changing(
        self, agent: Agent, tool_use_id: str, path: Path, before: str | None, after: str
    ) -> AbstractAsyncContextManager[None]:
        now = self.clock.time()
        change = FileChange(new_id(), agent.id, agent.run, tool_use_id, str(path), before, after, now)
        return self._changes.making(change)
