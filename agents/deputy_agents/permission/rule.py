"""What is asked of the gate, and rules about it: a tool, a pattern over what it touches, and an effect.

As text a rule is ``edit_file(src/**)``, ``shell`` or ``*``.

A pattern matches the whole subject, from the root on: ``**/.env`` is a ``.env`` at any depth, ``.env`` the one at the
top. In paths ``*`` and ``?`` stop at a slash, ``**`` crosses it and ``**/`` may stand for nothing; in other subjects
(commands, hosts, names) ``*`` matches anything. A backslash takes the next character as it is.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from deputy_agents.errors import InvalidRequest
from deputy_agents.ids import new_id


class Action(StrEnum):
    """What a call would do, as the gate sees it."""

    SESSION = "session"
    """Touches only the session: listing agents, submitting a result, the plan."""
    READ = "read"
    """Reads a file inside the roots that is no secret, or searches."""
    READ_SECRET = "read_secret"
    EDIT = "edit"
    EDIT_PROTECTED = "edit_protected"
    """Changes a file that other programs obey or run, such as a Git hook: as good as a command."""
    EXECUTE = "execute"
    FETCH = "fetch"
    SPAWN = "spawn"
    """Starts a child that may change things."""
    SPAWN_READ_ONLY = "spawn_read_only"


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """One thing that a call needs. ``subject`` is what rule patterns match: a path relative to its root with
    forward slashes, a simple command, a host, the name of a definition. Of a file that is not beneath the main root,
    ``path`` is the whole path: patterns of settings match that as well, those of lasting answers that alone."""

    tool: str
    action: Action
    subject: str
    path: str = ""


class Effect(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


SESSION = "session"
"""The source of rules that answers of the user have made."""


@dataclass(frozen=True, slots=True)
class Rule:
    """``tool`` is a tool's name or ``*``; ``pattern`` a glob over the subject, or ``None`` for any."""

    rule_id: str
    tool: str
    effect: Effect
    pattern: str | None = None
    source: str = SESSION


_PATHS = frozenset({Action.READ, Action.READ_SECRET, Action.EDIT, Action.EDIT_PROTECTED})
_TOKEN = re.compile(
    r"\\(?P<literal>.)|(?P<deep>(?<![^/])\*\*/)|(?P<any>\*\*)|(?P<star>\*)|(?P<one>\?)|(?P<plain>.)",
    re.DOTALL,
)
_IN_PATHS = {"deep": r"(?:.*/)?", "any": r".*", "star": r"[^/]*", "one": r"[^/]"}
_IN_TEXT = {"deep": r".*/", "any": r".*", "star": r".*", "one": r"."}
_RULE = re.compile(r"(?P<tool>\*|[\w.-]+)(?:\((?P<pattern>.*)\))?", re.DOTALL)
_SPECIAL = re.compile(r"[\\*?]")


def matches(rule: Rule, request: AccessRequest) -> bool:
    """Whether ``rule`` speaks about ``request``."""
    if rule.tool not in ("*", request.tool):
        return False
    if rule.pattern is None:
        return True
    pattern = _compiled(rule.pattern, request.action in _PATHS)
    return any(pattern.fullmatch(name) for name in _names(rule, request))


def _names(rule: Rule, request: AccessRequest) -> tuple[str, ...]:
    if not request.path:
        return (request.subject,)
    return (request.path,) if rule.source == SESSION else (request.subject, request.path)


def escaped(subject: str) -> str:
    """The pattern that matches ``subject`` and nothing else."""
    return _SPECIAL.sub(r"\\\g<0>", subject)


def rule_text(rule: Rule) -> str:
    """The rule as people write it; :func:`parse_rule` reads it back."""
    return rule.tool if rule.pattern is None else f"{rule.tool}({rule.pattern})"


def parse_rule(text: str, effect: Effect, source: str = SESSION) -> Rule:
    """The rule that ``text`` describes, under a fresh id.

    Raises:
        InvalidRequest: ``text`` is neither a tool's name nor ``tool(pattern)``.
    """
    found = _RULE.fullmatch(text.strip())
    if found is None or found["pattern"] == "":
        raise InvalidRequest(f"{text!r} is no rule; write tool or tool(pattern), as in edit_file(src/**).", "rules")
    return Rule(new_id(), found["tool"], effect, found["pattern"], source)


def lasting_rule(request: AccessRequest, effect: Effect, source: str = SESSION) -> Rule:
    """The rule that remembers an answer about exactly this tool and subject."""
    return Rule(new_id(), request.tool, effect, escaped(request.path or request.subject), source)


@lru_cache(maxsize=1024)
def _compiled(pattern: str, in_paths: bool) -> re.Pattern[str]:
    wild = _IN_PATHS if in_paths else _IN_TEXT

    def translated(token: re.Match[str]) -> str:
        kind = token.lastgroup or ""
        return wild.get(kind) or re.escape(token["literal"] or token["plain"])

    return re.compile(_TOKEN.sub(translated, pattern), re.DOTALL)
