"""Permission rules as text, and matching of rules to access requests.

A rule has a tool, an optional pattern for the subject, and a decision. As text it is ``edit_file(src/**)``, ``shell``
or ``*``.

A pattern matches the complete subject, paths from the root: ``**/.env`` is a ``.env`` at any depth, ``.env`` the one in
the root. In paths, ``*`` and ``?`` do not match a slash, ``**`` does, and ``**/`` also matches nothing. In other
subjects (commands, hosts, names), ``*`` matches anything, and `` *`` at the end also matches nothing: ``git status *``
is ``git status`` with any further words or none. A backslash escapes the next character.

A command can contain parts that are only known when it runs: ``rm *.py``, ``echo $HOME``. An allow rule matches only if
it covers every possible value; a deny or ask rule leads to a permission request as soon as it may apply.
"""

import re
from enum import Enum, auto
from functools import lru_cache

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.rule import SESSION, AccessRequest, Action, DecisionKind, Rule, names_tool


class Match(Enum):
    """Whether a rule applies to a request."""

    NO = auto()
    MAYBE = auto()
    """It depends on the value of the subject when the command runs."""
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
    """Whether ``rule`` applies to ``request``. Deny and ask rules always apply to the subject as written. If parts of
    the subject are only known when the command runs, an allow rule does so only if its pattern is exactly that text."""
    if rule.tool != "*" and not names_tool(rule.tool, request.tool):
        return Match.NO
    in_paths = request.action in _PATHS
    if rule.pattern is None or rule.pattern == ("**" if in_paths else "*"):
        return Match.YES
    pattern = _compiled(rule.pattern, in_paths)
    as_written = any(pattern.fullmatch(name) for name in _subjects(rule, request))
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
    beginnings = (request.known, *(known for _, known in request.also if known is not None))
    return Match.MAYBE if any(stem.startswith(known) or known.startswith(stem) for known in beginnings) else Match.NO


def _subjects(rule: Rule, request: AccessRequest) -> tuple[str, ...]:
    if not request.path:
        return (request.subject,)
    return (request.path,) if rule.source == SESSION else (request.subject, request.path)


def escape_pattern(subject: str) -> str:
    """The pattern that matches only ``subject``."""
    return _SPECIAL.sub(r"\\\g<0>", subject)


def rule_text(rule: Rule) -> str:
    """The rule as users write it; :func:`parse_rule` is the inverse."""
    return rule.tool if rule.pattern is None else f"{rule.tool}({rule.pattern})"


def parse_rule(text: str, decision: DecisionKind, source: str = SESSION) -> Rule:
    """The rule that ``text`` describes, with a new id.

    Raises:
        InvalidRequest: ``text`` is neither a tool name nor ``tool(pattern)``.
    """
    found = _RULE.fullmatch(text.strip())
    if found is None or found["pattern"] == "":
        raise InvalidRequest(
            f"{text!r} is not a valid rule. Use tool or tool(pattern), such as edit_file(src/**).", "rules"
        )
    return Rule(new_id(), found["tool"], decision, found["pattern"], source)


def lasting_rule(request: AccessRequest, decision: DecisionKind, source: str = SESSION) -> Rule:
    """The rule for a lasting answer to ``request``. It applies to exactly this subject, with three exceptions: an
    allowed request with a pattern ``lasting`` uses that pattern, a denied command stays denied with further words
    after it, and a rule for a tool of an MCP server applies to every call of the tool."""
    if request.action is Action.CALL:
        return Rule(new_id(), request.tool, decision, None, source)
    pattern = escape_pattern(request.path or request.subject)
    if decision is DecisionKind.ALLOW:
        pattern = request.lasting or pattern
    elif request.action is Action.EXECUTE:
        pattern += _FURTHER_WORDS
    return Rule(new_id(), request.tool, decision, pattern, source)


def _stem(pattern: str) -> tuple[str, str]:
    """The literal beginning of a pattern, and the rest from its first wildcard on."""
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
