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
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from fnmatch import fnmatchcase
from functools import lru_cache

from deputy_agents.domain.errors import InvalidRequest
from deputy_agents.domain.ids import new_id


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
    OUTSIDE = "outside"
    """A command reads or writes a file outside the roots, or one whose place is only known when it runs."""
    EXECUTE = "execute"
    FETCH = "fetch"
    CONNECT = "connect"
    """Starts, or connects to, a program of others that gives agents tools."""
    CALL = "call"
    """Uses a tool of such a program, which may do anything."""
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
    known: str | None = None
    """The beginning of the subject that stands whatever the rest becomes when it runs; ``None``: all of it."""
    computed: bool = False
    """It holds what is computed when it runs: no pattern covers that, unless it allows everything."""
    also: tuple[tuple[str, str | None], ...] = ()
    """Other ways to write the same, each with what is known of it: rules that deny or ask are about those, too."""
    lasting: str | None = None
    """The pattern that a lasting permission gets; ``None``: that of exactly this subject."""


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
    if rule.effect is not Effect.ALLOW and any(pattern.fullmatch(name) for name, _ in request.also):
        return Match.YES
    if request.known is None:
        return Match.YES if as_written else Match.NO
    stem, rest = _stem(rule.pattern)
    if rule.effect is Effect.ALLOW:
        covers = not request.computed and bool(rest) and not rest.strip("*") and request.known.startswith(stem)
        return Match.YES if covers or (as_written and not rest) else Match.NO
    if as_written:
        return Match.YES
    begun = (request.known, *(known for _, known in request.also if known is not None))
    return Match.MAYBE if any(stem.startswith(known) or known.startswith(stem) for known in begun) else Match.NO


def names_tool(entry: str, tool: str) -> bool:
    """Whether ``entry`` means ``tool``. ``mcp__server`` stands for every tool of that server, and ``*`` in such a name
    for any text."""
    if not entry.startswith("mcp__"):
        return entry == tool
    return fnmatchcase(tool, entry) or tool.startswith(f"{entry}__")


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
    """The rule that remembers an answer about this tool and subject: exactly this one, or what ``lasting`` says where
    that is allowed; of a tool of others, every call. A command that is denied stays so with further words behind it."""
    if request.action is Action.CALL:
        return Rule(new_id(), request.tool, effect, None, source)
    pattern = escaped(request.path or request.subject)
    if effect is Effect.ALLOW:
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
