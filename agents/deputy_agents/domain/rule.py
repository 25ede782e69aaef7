"""What is asked of the permission gate, and rules about it, as values."""

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase


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


class DecisionKind(StrEnum):
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
    decision: DecisionKind
    pattern: str | None = None
    source: str = SESSION


def names_tool(entry: str, tool: str) -> bool:
    """Whether ``entry`` means ``tool``. ``mcp__server`` stands for every tool of that server, and ``*`` in such a name
    for any text."""
    if not entry.startswith("mcp__"):
        return entry == tool
    return fnmatchcase(tool, entry) or tool.startswith(f"{entry}__")
