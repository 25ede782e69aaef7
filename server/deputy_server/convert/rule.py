"""Permission rules."""

from deputy_agents.domain.rule import Rule
from deputy_protocol import rule as wire_rule


def rule_to_wire(rule: Rule, *, saved: bool = False) -> wire_rule.Rule:
    return wire_rule.Rule(
        rule_id=rule.rule_id,
        tool=rule.tool,
        pattern=rule.pattern,
        action=wire_rule.RuleAction(rule.decision.value),
        source=rule.source,
        saved=saved or None,
    )
