"""The permission mode and the rules of one session, and the policy of each agent that follows from them."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from anyio import to_thread

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.problem import Problem
from deputy_agents.domain.rule import SESSION, AccessRequest, DecisionKind, Rule, RuleScope
from deputy_agents.guidance.library import Library
from deputy_agents.guidance.rule_files import RuleFiles
from deputy_agents.permission.decide import Policy, child_policy, decide
from deputy_agents.permission.inbox import Inbox
from deputy_agents.run.agent import Agent
from deputy_agents.session.clients import SessionSettings
from deputy_agents.session.record_keeper import RecordKeeper

logger = logging.getLogger(__name__)

_NOT_SAVED = "The rules of your answer could not be saved, so they apply to this session only."


class SessionPermissions:
    """Every change takes effect at once: open permission requests are decided again. The rules that answers have added
    are kept in the session's record."""

    def __init__(self, settings: SessionSettings, keeper: RecordKeeper, library: Library, inbox: Inbox) -> None:
        self._settings = settings
        self._keeper = keeper
        self._library = library
        self._inbox = inbox
        self._mode = self._initial_mode()
        self._files = RuleFiles(library)
        self.problems: tuple[Problem, ...] = ()
        """Why answers of the user were not saved."""
        self._disabled: set[Rule] = set()
        """Rules of the settings that the user has removed for this session."""
        library.may_read = self._may_read

    @property
    def mode(self) -> PermissionMode:
        """How much runs without asking. A workspace that is not trusted is in plan mode."""
        return self._mode if self._settings.current.trusted else PermissionMode.PLAN

    @mode.setter
    def mode(self, mode: PermissionMode) -> None:
        self._mode = mode
        self._keeper.change(replace(self._keeper.record, permission_mode=mode))
        self._inbox.recheck()

    def client_changed(self) -> None:
        """The session runs with the settings of another client: what the previous one preset no longer holds."""
        self._mode = self._initial_mode()
        self._disabled.clear()
        self._inbox.recheck()

    def rules(self) -> tuple[Rule, ...]:
        """The rules in force: of the settings, the user, the workspace, and those that answers have added."""
        settings, library = self._settings.current, self._library
        # A workspace may only restrict, unless the user has vouched for it.
        of_workspace = (
            rule
            for rule in library.workspace_settings.rules
            if settings.vouched or rule.decision is not DecisionKind.ALLOW
        )
        written = (
            *settings.permissions.rules,
            *library.user_settings.rules,
            *library.answered_rules,
            *of_workspace,
        )
        return (*(rule for rule in written if rule not in self._disabled), *self._keeper.record.rules)

    def forget(self, rule_id: str) -> None:
        """Removes a rule from this session; one of the settings stays in force in other sessions.

        Raises:
            InvalidRequest: no such rule is in force.
        """
        rule = self._rule(rule_id)
        added = self._keeper.record.rules
        if rule in added:
            self._keep(tuple(one for one in added if one != rule))
        else:
            self._disabled.add(rule)
        self._inbox.recheck()

    def remember(self, rules: Sequence[Rule]) -> None:
        """Adds rules for the rest of the session, each once."""
        added = list(self._keeper.record.rules)
        for rule in rules:
            if all(replace(rule, rule_id=old.rule_id) != old for old in added):
                added.append(rule)
        self._keep(tuple(added))
        self._inbox.recheck()

    async def save(self, rules: Sequence[Rule], scope: RuleScope) -> None:
        """Adds rules to a file of the user, for this project or for all. If that fails, they hold for the session, and
        :attr:`problems` has the cause."""
        try:
            await to_thread.run_sync(self._files.add, rules, scope)
        except InvalidRequest as error:
            logger.warning("rules were not saved: %s", error)
            self.problems = (*self.problems, Problem(self._files.name(scope), 1, f"{_NOT_SAVED} {error}"))
            self.remember([replace(rule, source=SESSION) for rule in rules])
            return
        await self._library.refresh_settings()
        self._inbox.recheck()

    async def forget_saved(self, rule_id: str) -> None:
        """Removes a rule from the file that it is in, and so from every session.

        Raises:
            InvalidRequest: no such rule is in force, it is in no file of the user or the project, or the file cannot be
                written.
        """
        rule = self._rule(rule_id)
        await to_thread.run_sync(self._files.remove, rule)
        await self._library.refresh_settings()
        self._inbox.recheck()

    def is_saved(self, rule: Rule) -> bool:
        """Whether :meth:`forget_saved` can remove ``rule``."""
        return self._files.has(rule)

    def _rule(self, rule_id: str) -> Rule:
        rule = next((rule for rule in self.rules() if rule.rule_id == rule_id), None)
        if rule is None:
            raise InvalidRequest(f"There is no rule {rule_id}.", "ruleId")
        return rule

    def policy(self, agent: Agent) -> Policy:
        """The policy in force for ``agent``: never more than that of its parent."""
        if agent.parent is None:
            return Policy(self.mode, self.rules())
        parent = self.policy(agent.parent)
        definition = agent.definition
        return child_policy(Policy(definition.permission_mode or parent.mode, definition.rules), parent)

    def _initial_mode(self) -> PermissionMode:
        """The mode that the user has chosen for this session, else that of the client's settings."""
        return self._keeper.record.permission_mode or self._settings.current.permission_mode

    def _may_read(self, request: AccessRequest) -> bool:
        """Whether every agent may read a file without asking, unless the rules of its definition are stricter."""
        return decide(Policy(self.mode, self.rules()), request).kind is DecisionKind.ALLOW

    def _keep(self, rules: tuple[Rule, ...]) -> None:
        self._keeper.update(replace(self._keeper.record, rules=rules))
