"""Permission rules in the settings file of a workspace, or of the user.

::

    {"permissions": {"rules": [{"tool": "shell", "pattern": "git push *", "action": "deny"}]}}

Who opens somebody else's folder must not be given away by it: rules that deny or ask always hold, and rules that allow
only where the user has said that the workspace is trusted. The user's own count as they are.
"""

from collections.abc import Collection
from typing import Final, cast

from deputy_agents.domain.problem import Problem
from deputy_agents.domain.rule import DecisionKind, Rule
from deputy_agents.text import cut
from deputy_agents.validation_errors import Malformed

MAX_RULES: Final = 500

_RULE_FIELDS: Final = ("tool", "pattern", "action")
_FORM: Final = 'it must be {"permissions": {"rules": [{"tool": "...", "pattern": "...", "action": "deny"}]}}'


class _Malformed(ValueError):
    """The file is not of its form."""


def rules_of(whole: object, file: str) -> tuple[tuple[Rule, ...], tuple[Problem, ...]]:
    """The rules that the JSON value of ``file`` holds, and what is wrong with them."""
    try:
        return _rules(whole, file), ()
    except _Malformed as error:
        return asking(file, error)


def asking(file: str, error: Exception) -> tuple[tuple[Rule, ...], tuple[Problem, ...]]:
    """What holds while the rules of ``file`` cannot be read: everything asks, as there may be a denial among them."""
    line = error.line if isinstance(error, Malformed) else 1
    reason = f"{cut(str(error), 200)}. Until it is mended, everything asks."
    return (Rule(f"{file}#", "*", DecisionKind.ASK, source=file),), (Problem(file, line, reason),)


def _rules(whole: object, file: str) -> tuple[Rule, ...]:
    permissions = _field(whole, "permissions", {})
    listed = _field(permissions, "rules", [])
    _check_names(permissions, {"rules"}, "permissions")
    if not isinstance(listed, list) or len(cast("list[object]", listed)) > MAX_RULES:
        raise _Malformed(f"rules must be a list of at most {MAX_RULES}")
    return tuple(_rule(index, one, file) for index, one in enumerate(cast("list[object]", listed)))


def _rule(index: int, one: object, file: str) -> Rule:
    tool, pattern, action = (_field(one, name, None) for name in _RULE_FIELDS)
    _check_names(one, _RULE_FIELDS, f"rule {index + 1}")
    if not isinstance(tool, str) or not tool.strip() or not isinstance(pattern, str | None):
        raise _Malformed(f"rule {index + 1}: tool must be a name, pattern a text or absent")
    if action not in list(DecisionKind):
        raise _Malformed(f"rule {index + 1}: action must be allow, ask or deny")
    return Rule(f"{file}#{index + 1}", tool, DecisionKind(cast("str", action)), pattern, file)


def _check_names(value: object, known: Collection[str], where: str) -> None:
    """A field that is misspelt must not make a rule wider, or away with it."""
    if unknown := sorted(cast("dict[str, object]", value).keys() - set(known)):
        raise _Malformed(f"{where}: there is no {unknown[0]!r}, only {', '.join(known)}")


def _field(value: object, name: str, default: object) -> object:
    if not isinstance(value, dict):
        raise _Malformed(_FORM)
    return cast("dict[str, object]", value).get(name, default)
