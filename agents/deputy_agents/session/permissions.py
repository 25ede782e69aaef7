"""The permission mode and the rules of one session, and the policy of each agent that follows from them."""

from collections.abc import Sequence
from dataclasses import replace

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.permission_mode import PermissionMode
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.guidance.library import Library
from deputy_agents.permission.decide import Policy, child_policy
from deputy_agents.permission.inbox import Inbox
from deputy_agents.run.agent import Agent
from deputy_agents.session.record_keeper import RecordKeeper
from deputy_agents.session.services import Services


class SessionPermissions:
    """Every change takes effect at once: open permission requests are decided again. The rules that answers have added
    are kept in the session's record."""

    def __init__(self, services: Services, keeper: RecordKeeper, library: Library, inbox: Inbox) -> None:
        self._services = services
        self._keeper = keeper
        self._library = library
        self._inbox = inbox
        self._mode = keeper.record.permission_mode or services.settings.permission_mode
        self._disabled: set[Rule] = set()
        """Rules of the settings that the user has removed for this session."""

    @property
    def mode(self) -> PermissionMode:
        """How much runs without asking. A workspace that is not trusted is in plan mode."""
        return self._mode if self._services.settings.trusted else PermissionMode.PLAN

    @mode.setter
    def mode(self, mode: PermissionMode) -> None:
        self._mode = mode
        self._keeper.change(replace(self._keeper.record, permission_mode=mode))
        self._inbox.recheck()

    def rules(self) -> tuple[Rule, ...]:
        """The rules in force: of the settings, the user, the workspace, and those that answers have added."""
        settings, library = self._services.settings, self._library
        # A workspace may only restrict, unless the user has vouched for it.
        of_workspace = (
            rule
            for rule in library.workspace_settings.rules
            if settings.vouched or rule.decision is not DecisionKind.ALLOW
        )
        written = (*settings.permissions.rules, *library.user_settings.rules, *of_workspace)
        return (*(rule for rule in written if rule not in self._disabled), *self._keeper.record.rules)

    def forget(self, rule_id: str) -> None:
        """Removes a rule from this session; one of the settings stays in force in other sessions.

        Raises:
            InvalidRequest: no such rule is in force.
        """
        rule = next((rule for rule in self.rules() if rule.rule_id == rule_id), None)
        if rule is None:
            raise InvalidRequest(f"There is no rule {rule_id}.", "ruleId")
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

    def policy(self, agent: Agent) -> Policy:
        """The policy in force for ``agent``: never more than that of its parent."""
        if agent.parent is None:
            return Policy(self.mode, self.rules())
        parent = self.policy(agent.parent)
        definition = agent.definition
        return child_policy(Policy(definition.permission_mode or parent.mode, definition.rules), parent)

    def _keep(self, rules: tuple[Rule, ...]) -> None:
        self._keeper.update(replace(self._keeper.record, rules=rules))
