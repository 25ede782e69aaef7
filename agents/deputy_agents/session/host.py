"""The services of one session for its drivers and tools."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from deputy_agents.domain.file_change import Approval, FileChange
from deputy_agents.domain.hook import Hook
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.model_card import Effort, ThinkingMode
from deputy_agents.domain.rule import Rule, RuleScope
from deputy_agents.domain.settings import Settings
from deputy_agents.events.event_log import EventLog
from deputy_agents.files.encoding import FileVersion
from deputy_agents.files.workspace import Workspace
from deputy_agents.guidance.library import Library
from deputy_agents.permission.decide import Policy
from deputy_agents.permission.inbox import Inbox
from deputy_agents.ports.clock import Clock
from deputy_agents.ports.editor import Editors
from deputy_agents.ports.model import Model
from deputy_agents.run.agent import Agent
from deputy_agents.run.rejected_options import RejectedOptions
from deputy_agents.session.change_tracker import ChangeTracker
from deputy_agents.session.clients import SessionSettings
from deputy_agents.session.coverage import Coverage
from deputy_agents.session.histories import Histories
from deputy_agents.session.permissions import SessionPermissions
from deputy_agents.session.record_keeper import RecordKeeper
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
        settings: SessionSettings,
        log: EventLog,
        inbox: Inbox,
        workspace: Workspace,
        library: Library,
        permissions: SessionPermissions,
        changes: ChangeTracker,
        coverage: Coverage,
        background_processes: BackgroundProcesses,
        roster: Roster,
        histories: Histories,
        keeper: RecordKeeper,
    ) -> None:
        self.log = log
        self.inbox = inbox
        self.workspace = workspace
        self.background_processes = background_processes
        self.editors = Editors()
        """The connected editors, which tools can ask about the code."""
        self._services = services
        self._settings = settings
        self._library = library
        self._permissions = permissions
        self._changes = changes
        self._coverage = coverage
        self._roster = roster
        self._histories = histories
        self._keeper = keeper
        self.rejected_options = RejectedOptions()

    @property
    def chosen_effort(self) -> Effort | None:
        return self._keeper.record.effort

    @property
    def thinking(self) -> ThinkingMode:
        return self._keeper.record.thinking or self.settings.thinking

    @property
    def session_id(self) -> str:
        return self.log.session_id

    @property
    def clock(self) -> Clock:
        return self._services.clock

    @property
    def settings(self) -> Settings:
        return self._settings.current

    def hooks(self) -> Sequence[Hook]:
        of_workspace = self._library.workspace_settings.hooks if self.settings.vouched else ()
        return (*self.settings.hooks, *self._library.user_settings.hooks, *of_workspace)

    def model(self, agent: Agent) -> Model:
        return self._settings.model(agent.model)

    def policy(self, agent: Agent) -> Policy:
        return self._permissions.policy(agent)

    def remember(self, rules: Sequence[Rule]) -> None:
        self._permissions.remember(rules)

    async def save(self, rules: Sequence[Rule], scope: RuleScope) -> None:
        await self._permissions.save(rules, scope)

    def session_view(self, agent: Agent) -> SessionView:
        return LiveSessionView(self.log, self._roster, self._histories, agent)

    @asynccontextmanager
    async def changing(
        self, agent: Agent, tool_use_id: str, approved: Approval, path: Path, before: str | None, after: str
    ) -> AsyncGenerator[None]:
        change = self._change(agent, tool_use_id, approved, path, before, after)
        async with self._changes.making(change), self._coverage.writing(path):
            yield

    def covering(self, agent: Agent, tool_use_id: str, approved: Approval) -> AbstractAsyncContextManager[None]:
        return self._coverage.command(agent.id, partial(self._changed, agent, tool_use_id, approved))

    async def _changed(
        self,
        agent: Agent,
        tool_use_id: str,
        approved: Approval,
        files: Mapping[Path, tuple[FileVersion, FileVersion]],
        others: Sequence[str],
    ) -> None:
        changes: list[FileChange] = []
        for path, versions in files.items():
            (before, before_form), (after, after_form) = versions
            change = self._change(agent, tool_use_id, approved, path, before, after)
            changes.append(replace(change, before_form=before_form, after_form=after_form))
        await self._changes.record(changes, others)

    def _change(
        self, agent: Agent, tool_use_id: str, approved: Approval, path: Path, before: str | None, after: str | None
    ) -> FileChange:
        view = self.log.view
        turn_id = view.open_turn or (view.last_turn.turn_id if view.last_turn else "")
        return FileChange(
            change_id=new_id(),
            agent_id=agent.id,
            run=agent.run,
            tool_call_id=tool_use_id,
            path=str(path),
            before=before,
            after=after,
            time=self.clock.time(),
            turn_id=turn_id,
            approved=approved,
        )
