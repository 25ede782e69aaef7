"""The options of a permission request, for clients that show each as a button: a button may be cut, consent may not."""

from collections.abc import Sequence

from deputy_agents.domain.event import Option, PermissionRequest
from deputy_agents.domain.rule import RuleScope

MAX_BUTTON = 60
"""Characters that any client shows on a button."""


def is_long(option: Option) -> bool:
    """Whether the rules that ``option`` adds need more room than a button has."""
    return option.scope is not RuleScope.ONCE and bool(option.rules) and len(option.name) > MAX_BUTTON


def button(option: Option) -> str:
    """The text of a button for ``option``. :func:`rule_lines` has the rules that it does not show."""
    if not is_long(option):
        return option.name
    count = len(option.rules)
    return f"{_verb(option)} ({count} rule{'' if count == 1 else 's'}, see above)"


def rule_lines(request: PermissionRequest) -> Sequence[str]:
    """For the options that do not fit on a button, what they add, complete and one rule in each line; options with the
    same rules share the lines."""
    verbs: dict[tuple[str, ...], list[str]] = {}
    for option in filter(is_long, request.options):
        verbs.setdefault(option.rules, []).append(_verb(option))
    return [
        line for rules, names in verbs.items() for line in (f"{' · '.join(names)}:", *(f"  {one}" for one in rules))
    ]


def _verb(option: Option) -> str:
    """What the option does, without its rules."""
    return option.name.partition(":")[0]
