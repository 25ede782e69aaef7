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
from collections.abc import Iterable
from enum import Enum, auto

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.ids import new_id
from deputy_agents.domain.rule import SESSION, AccessRequest, Action, DecisionKind, Rule, names_tool
from deputy_agents.files.sensitive import names_part, protected_part
from deputy_agents.patterns.glob import PATH, TEXT, Glob, compile_glob, split, wildcards
from deputy_agents.patterns.linear import PatternError
from deputy_agents.text import cut


class Match(Enum):
    """Whether a rule applies to a request."""

    NO = auto()
    MAYBE = auto()
    """It depends on the value of the subject when the command runs."""
    YES = auto()


_PATHS = frozenset(
    {Action.READ, Action.READ_SECRET, Action.EDIT, Action.EDIT_PROTECTED, Action.CONFIGURE, Action.OUTSIDE}
)
_RULE = re.compile(r"(?P<tool>\*|[\w.-]+\*?)(?:\((?P<pattern>.*)\))?", re.DOTALL)
_SPECIAL = re.compile(r"[\\*?]")
_FURTHER_WORDS = " *"
MAX_WILDCARDS_OF_A_FILE = 500


def matches(rule: Rule, request: AccessRequest) -> Match:
    """Whether ``rule`` applies to ``request``. Deny and ask rules always apply to the subject as written. If parts of
    the subject are only known when the command runs, an allow rule does so only if its pattern is exactly that text."""
    if _allows_line_of(rule, request):
        return Match.YES
    if rule.tool != "*" and not names_tool(rule.tool, request.tool):
        return Match.NO
    if rule.decision is DecisionKind.ALLOW and not _may_allow(rule, request):
        return Match.NO
    in_paths = request.action in _PATHS
    if rule.pattern is None or rule.pattern == ("**" if in_paths else "*"):
        return Match.YES
    try:
        pattern = _compiled(rule.pattern, in_paths)
    except PatternError:  # possible in settings of a client only: other rules are checked when they are read
        return Match.NO if rule.decision is DecisionKind.ALLOW else Match.MAYBE
    as_written = any(pattern.matches(name) for name in _subjects(rule, request))
    if rule.decision is not DecisionKind.ALLOW and any(pattern.matches(name) for name, _ in request.also):
        return Match.YES
    if rule.decision is not DecisionKind.ALLOW and not as_written and _is_mentioned(rule.pattern, request):
        return Match.MAYBE
    if request.known is None:
        return Match.YES if as_written else Match.NO
    stem, rest = split(rule.pattern, PATH)
    if rule.decision is DecisionKind.ALLOW:
        covers = not request.computed and bool(rest) and not rest.strip("*") and request.known.startswith(stem)
        return Match.YES if covers or (as_written and not rest) else Match.NO
    if as_written:
        return Match.YES
    beginnings = (request.known, *(known for _, known in request.also if known is not None))
    return Match.MAYBE if any(stem.startswith(known) or known.startswith(stem) for known in beginnings) else Match.NO


def can_allow(request: AccessRequest) -> bool:
    """Whether a rule can allow ``request``."""
    return request.action is not Action.CONFIGURE


def _may_allow(rule: Rule, request: AccessRequest) -> bool:
    """A rule allows changes of a protected file only if it names what is protected, such as ``.github/**``; a broad one
    like ``src/**`` is about other files."""
    if request.spelled and rule.pattern not in (None, "*"):
        return split(rule.pattern or "", TEXT)[0].startswith(request.spelled)
    if request.action is not Action.EDIT_PROTECTED:
        return can_allow(request)
    if rule.pattern is None:
        return False
    segments = _literal_segments(rule.pattern)
    if None not in segments:
        return True
    part = protected_part(request.subject)
    return part is not None and names_part(filter(None, segments), part)


def _allows_line_of(rule: Rule, request: AccessRequest) -> bool:
    """Whether ``rule`` allows exactly the line of which ``request`` is a part."""
    line = request.part_of
    if line is None or rule.decision is not DecisionKind.ALLOW or not can_allow(request):
        return False
    return rule.tool == line.tool and split(rule.pattern or "", TEXT) == (line.subject, "")


def _is_mentioned(pattern: str, request: AccessRequest) -> bool:
    """Whether a command that ``pattern`` matches is between other words of a text that the request mentions."""
    if not request.mentioned:
        return False
    try:
        anywhere = _compiled(f"* {pattern.removesuffix(_FURTHER_WORDS)}{_FURTHER_WORDS}", in_paths=False)
    except PatternError:
        return True
    return any(anywhere.matches(f" {text}") for text in request.mentioned)


def _literal_segments(pattern: str) -> list[str | None]:
    """The parts of a pattern for paths; ``None`` for one with a wildcard, except that ``*`` at its start is left out:
    ``*.code-workspace`` names this ending."""
    segments: list[str | None] = []
    for part in pattern.split("/"):
        stem, rest = split(part.removeprefix("*"), PATH)
        segments += [None] if rest or part.startswith("*") else []
        segments += [stem] if stem and not rest else []
    return segments


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
    try:
        check_pattern(found["pattern"])
    except PatternError as error:
        raise InvalidRequest(f"The pattern of {cut(text, 100)!r} is not valid: {error}.", "rules") from None
    return Rule(new_id(), found["tool"], decision, found["pattern"], source)


def check_pattern(pattern: str | None) -> None:
    """Raises PatternError: a rule cannot have ``pattern``, because it exceeds a limit."""
    if pattern is not None:
        compile_glob(pattern, PATH)


def check_size(rules: Iterable[Rule]) -> None:
    """Raises PatternError: matching the patterns of all ``rules``, which are those of a file, would take long."""
    if sum(wildcards(rule.pattern, PATH) for rule in rules if rule.pattern is not None) > MAX_WILDCARDS_OF_A_FILE:
        raise PatternError(f"the patterns of all rules have more than {MAX_WILDCARDS_OF_A_FILE} wildcards")


def lasting_rules(requests: Iterable[AccessRequest], decision: DecisionKind) -> tuple[Rule, ...]:
    """The rules for a lasting answer to ``requests``: one for each, or for the line of which it is a part if that is
    allowed."""
    if decision is DecisionKind.ALLOW:
        requests = dict.fromkeys(request.part_of or request for request in requests)
    return tuple(lasting_rule(request, decision) for request in requests)


def lasting_rule(request: AccessRequest, decision: DecisionKind, source: str = SESSION) -> Rule:
    """The rule for a lasting answer to ``request``. It applies to exactly this subject, with three exceptions: an
    allowed request with a pattern ``lasting`` uses that pattern, a denied command stays denied with further words
    after it, and a rule for a tool of an MCP server applies to every call of the tool."""
    if request.action is Action.CALL:
        return Rule(new_id(), request.tool, decision, None, source)
    pattern = escape_pattern(request.path or request.subject)
    if decision is DecisionKind.ALLOW:
        pattern = request.lasting or pattern
    elif request.action in (Action.EXECUTE, Action.READ_COMMAND):
        pattern += _FURTHER_WORDS
    return Rule(new_id(), request.tool, decision, pattern, source)


def _compiled(pattern: str, in_paths: bool) -> Glob:
    if in_paths:
        return compile_glob(pattern, PATH)
    words = pattern.removesuffix(_FURTHER_WORDS)
    is_escaped = (len(words) - len(words.rstrip("\\"))) % 2 == 1
    if words == pattern or is_escaped:
        return compile_glob(pattern, TEXT)
    return compile_glob(words, TEXT, "(?: .*)?")
