"""Permission rules. Deny wins wherever it stands, then ask, then allow; where no rule speaks, the permission mode
decides."""

from enum import StrEnum

from deputy_protocol.base import Params, Wire


class RuleAction(StrEnum):
    """What a rule says."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Rule(Wire):
    """A rule in force."""

    rule_id: str
    tool: str
    """Name of a tool, or `*`."""
    pattern: str | None = None
    """Glob over what the tool is used on: a path relative to its root, a command, a host, a definition. Any when
    absent."""
    action: RuleAction
    source: str
    """Where it comes from: `session` (an answer), `settings`, or the path of a file."""


class RuleListParams(Params):
    """Whose rules."""

    session_id: str


class RuleRemoveParams(Params):
    """Which rule to drop."""

    session_id: str
    rule_id: str


class RuleListResult(Wire):
    """The rules in force."""

    rules: tuple[Rule, ...]
