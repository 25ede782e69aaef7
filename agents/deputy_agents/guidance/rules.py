"""Permission rules in the settings file of a workspace or of the user.

::

{"permissions": {"rules": [{"tool": "shell", "pattern": "git push *", "action": "deny"}]}}

A foreign folder must not grant permissions: deny and ask rules of a workspace always apply, allow rules only if the
user has marked the workspace as trusted. Rules of the user always apply.
"""

from collections.abc import Collection
from typing import Final, cast

from deputy_agents.domain.problem import Problem
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.patterns.linear import PatternError
from deputy_agents.permission.rule_patterns import check_pattern, check_size
from deputy_agents.text import cut
from deputy_agents.validation_errors import InvalidJson

MAX_RULES: Final = 500

_RULE_FIELDS: Final = ("tool", "pattern", "action")
_PERMISSION_FIELDS = ("rules", "reconnectGrace", "readingCommands")
_FORM: Final = 'must be {"permissions": {"rules": [{"tool": "...", "pattern": "...", "action": "deny"}]}}'


class _InvalidRules(ValueError):
    """The rules do not have the documented form."""


def parse_rules(settings: object, file: str) -> tuple[tuple[Rule, ...], tuple[Problem, ...]]:
    """The rules in ``settings``, the JSON value of ``file``, and problems."""
    try:
        return _rules(settings, file), ()
    except _InvalidRules as error:
        return ask_always(file, error)


def ask_always(file: str, error: Exception) -> tuple[tuple[Rule, ...], tuple[Problem, ...]]:
    """The rules to use while those of ``file`` cannot be read: every tool call needs approval, because the file may
    contain deny rules."""
    line = error.line if isinstance(error, InvalidJson) else 1
    what = str(error).removeprefix(f"{file} ").removesuffix(".")
    reason = f"{cut(what, 200)}. Until this is fixed, every tool call needs approval."
    return (Rule(f"{file}#", "*", DecisionKind.ASK, source=file),), (Problem(file, line, reason),)


def _rules(settings: object, file: str) -> tuple[Rule, ...]:
    permissions = _field(settings, "permissions", {})
    listed = _field(permissions, "rules", [])
    _check_names(permissions, _PERMISSION_FIELDS, "permissions")
    if not isinstance(listed, list) or len(cast("list[object]", listed)) > MAX_RULES:
        raise _InvalidRules(f"rules must be a list of at most {MAX_RULES}")
    rules = tuple(_rule(index, one, file) for index, one in enumerate(cast("list[object]", listed)))
    try:
        check_size(rules)
    except PatternError as error:
        raise _InvalidRules(str(error)) from None
    return rules


def _rule(index: int, one: object, file: str) -> Rule:
    tool, pattern, action = (_field(one, name, None) for name in _RULE_FIELDS)
    _check_names(one, _RULE_FIELDS, f"rule {index + 1}")
    if not isinstance(tool, str) or not tool.strip() or not isinstance(pattern, str | None):
        raise _InvalidRules(f"rule {index + 1}: tool must be a name, pattern a string or absent")
    if action not in list(DecisionKind):
        raise _InvalidRules(f"rule {index + 1}: action must be allow, ask or deny")
    try:
        check_pattern(pattern)
    except PatternError as error:
        raise _InvalidRules(f"rule {index + 1}: the pattern is not valid: {error}") from None
    return Rule(f"{file}#{index + 1}", tool, DecisionKind(cast("str", action)), pattern, file)


def _check_names(value: object, known: Collection[str], where: str) -> None:
    """Reject unknown fields: ignoring a misspelt field could make a rule match more, or drop it."""
    if unknown := sorted(cast("dict[str, object]", value).keys() - set(known)):
        raise _InvalidRules(f"{where}: unknown field {unknown[0]!r}; the fields are {', '.join(known)}")


def _field(value: object, name: str, default: object) -> object:
    if not isinstance(value, dict):
        raise _InvalidRules(_FORM)
    return cast("dict[str, object]", value).get(name, default)
