"""What is asked of the gate, and rules about it: a tool, a pattern over what it touches, and an effect.

As text a rule is ``edit_file(src/**)``, ``shell`` or ``*``.

A pattern matches the whole subject, from the root on: ``**/.env`` is a ``.env`` at any depth, ``.env`` the one at the
top. In paths ``*`` and ``?`` stop at a slash, ``**`` crosses it and ``**/`` may stand for nothing; in other subjects
(commands, hosts, names) ``*`` matches anything, and `` *`` at the end nothing as well: ``git status *`` is
``git status`` with any further words or none. A backslash takes the next character as it is.

A command may hold what is only known when it runs: ``rm *.py``, ``echo $HOME``. A rule that allows counts only if it
covers whatever that becomes; one that denies or asks is reason to ask as soon as it may apply.
"""

import re
from enum import Enum, auto
from functools import lru_cache

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.rule import SESSION, AccessRequest, Action, DecisionKind, Rule, names_tool


class Match(Enum):
    """Whether a rule is about a request."""

    NO = auto()
    MAYBE = auto()
    """It depends on what the subject becomes when it runs."""
    YES = auto()


_PATHS = frozenset({Action.READ, Action.READ_SECRET, Action.EDIT, Action.EDIT_PROTECTED, Action.OUTSIDE})
_TOKEN = re.compile(
    r"\\(?P<literal>.)|(?P<deep>(?<![^/])\*\*/)|(?P<any>\*\*)|(?P<star>\*)|(?P<one>\?)|(?P<plain>.)",
    re.DOTALL,
)
_IN_PATHS = {"deep": r"(?:.*/)?", "any": r".*", "star": r"[^/]*", "one": r"[^/]"}
_IN_TEXT = {"deep": r".*/", "any": r".*", "star": r".*", "one": r"."}
_RULE = re.compile(r"(?P<tool>\*|[\w.-]+\*?)(?:\((?P<pattern>.*)\))?", re.DOTALL)
_SPECIAL = re.compile(r"[\\*?]")
_FURTHER_WORDS = " *"


def matches(rule: Rule, request: AccessRequest) -> Match:
    """Whether ``rule`` is about ``request``. Its subject as written always counts for a rule that denies or asks, and
    for one that allows if the pattern is that very text."""
    if rule.tool != "*" and not names_tool(rule.tool, request.tool):
        return Match.NO
    in_paths = request.action in _PATHS
    if rule.pattern is None or rule.pattern == ("**" if in_paths else "*"):
        return Match.YES
    pattern = _compiled(rule.pattern, in_paths)
    as_written = any(pattern.fullmatch(name) for name in _names(rule, request))
    if rule.decision is not DecisionKind.ALLOW and any(pattern.fullmatch(name) for name, _ in request.also):
        return Match.YES
    if request.known is None:
        return Match.YES if as_written else Match.NO
    stem, rest = _stem(rule.pattern)
    if rule.decision is DecisionKind.ALLOW:
        covers = not request.computed and bool(rest) and not rest.strip("*") and request.known.startswith(stem)
        return Match.YES if covers or (as_written and not rest) else Match.NO
    if as_written:
        return Match.YES
    begun = (request.known, *(known for _, known in request.also if known is not None))
    return Match.MAYBE if any(stem.startswith(known) or known.startswith(stem) for known in begun) else Match.NO


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


def parse_rule(text: str, effect: DecisionKind, source: str = SESSION) -> Rule:
    """The rule that ``text`` describes, under a fresh id.

    Raises:
        InvalidRequest: ``text`` is neither a tool's name nor ``tool(pattern)``.
    """
    found = _RULE.fullmatch(text.strip())
    if found is None or found["pattern"] == "":
        raise InvalidRequest(f"{text!r} is no rule; write tool or tool(pattern), as in edit_file(src/**).", "rules")
    return Rule(new_id(), found["tool"], effect, found["pattern"], source)


def lasting_rule(request: AccessRequest, effect: DecisionKind, source: str = SESSION) -> Rule:
    """The rule that remembers an answer about this tool and subject: exactly this one, or what ``lasting`` says where
    that is allowed; of a tool of others, every call. A command that is denied stays so with further words behind it."""
    if request.action is Action.CALL:
        return Rule(new_id(), request.tool, effect, None, source)
    pattern = escaped(request.path or request.subject)
    if effect is DecisionKind.ALLOW:
        pattern = request.lasting or pattern
    elif request.action is Action.EXECUTE:
        pattern += _FURTHER_WORDS
    return Rule(new_id(), request.tool, effect, pattern, source)


def _stem(pattern: str) -> tuple[str, str]:
    """What every match begins with, and the rest of the pattern from its first wildcard on."""
    stem = ""
    for token in _TOKEN.finditer(pattern):
        if (char := token["literal"] or token["plain"]) is None:
            return stem, pattern[token.start() :]
        stem += char
    return stem, ""


@lru_cache(maxsize=1024)
def _compiled(pattern: str, in_paths: bool) -> re.Pattern[str]:
    if not in_paths and pattern.endswith(_FURTHER_WORDS) and not pattern.endswith("\\" + _FURTHER_WORDS):
        return re.compile(f"{_compiled(pattern.removesuffix(_FURTHER_WORDS), in_paths).pattern}(?: .*)?", re.DOTALL)
    wild = _IN_PATHS if in_paths else _IN_TEXT

    def translated(token: re.Match[str]) -> str:
        kind = token.lastgroup or ""
        return wild.get(kind) or re.escape(token["literal"] or token["plain"])

    return re.compile(_TOKEN.sub(translated, pattern), re.DOTALL)
