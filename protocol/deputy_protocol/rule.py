"""Permission rules allow or deny tool calls, or make them ask for approval. Any matching `deny` rule wins, then any
`ask` rule, then any `allow` rule. If no rule matches, the permission mode decides."""

from enum import StrEnum

from deputy_protocol.base import Flag, Params, Wire


class RuleAction(StrEnum):
    """What a rule decides."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Rule(Wire):
    """A rule in force."""

    rule_id: str
    tool: str
    """Name of a tool, or `*` for all tools."""
    pattern: str | None = None
    """Glob pattern for the target of the tool call: a path relative to its root, a command, a host, or the name of an
    agent definition. When absent, the rule matches every target."""
    action: RuleAction
    source: str
    """Origin of the rule: `session` (an answer of the user), `settings`, or the path of a file."""
    saved: Flag | None = None
    """True when the rule can be removed from the file that it is in."""


class RuleListParams(Params):
    """The session whose rules to list."""

    session_id: str


class RuleRemoveParams(Params):
    """The rule to remove."""

    session_id: str
    rule_id: str
    saved: Flag = False
    """Remove the rule from the file that it is in, and so from every session. When false, a rule of a file or of the
    settings is removed for this session only."""


class RuleListResult(Wire):
    """The rules in force."""

    rules: tuple[Rule, ...]
