"""Permission rules, and the requests that they decide."""

from dataclasses import dataclass
from enum import StrEnum

from deputy_agents.patterns.glob import TEXT, compile_glob
from deputy_agents.patterns.linear import PatternError


class Action(StrEnum):
    """What a tool call would do, in the categories of the gate."""

    SESSION = "session"
    """Affects only the session: lists agents, submits a result, changes the plan."""
    READ = "read"
    """Searches, or reads a file inside the roots that is not a secret."""
    READ_SECRET = "read_secret"
    EDIT = "edit"
    EDIT_PROTECTED = "edit_protected"
    """Changes a file that other programs run or follow, such as a Git hook: equivalent to a command."""
    CONFIGURE = "configure"
    """Changes Deputy's own configuration. Every change of it needs approval: no rule and no mode allows it."""
    OUTSIDE = "outside"
    """A command that reads or writes a file outside the roots, or one whose path is known only when it runs."""
    EXECUTE = "execute"
    READ_COMMAND = "read_command"
    """Runs a command that is known to only read files of the workspace."""
    FETCH = "fetch"
    CONNECT = "connect"
    """Starts or connects to an MCP server."""
    CALL = "call"
    """Calls a tool of an MCP server, which may do anything."""
    SPAWN = "spawn"
    """Starts a sub-agent that may change something."""
    SPAWN_READ_ONLY = "spawn_read_only"


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """One permission that a tool call needs. Rule patterns match ``subject``: a path relative to its root with forward
    slashes, a simple command, a host, or the name of an agent definition. For a file outside the main root, ``path`` is
    the absolute path: patterns in settings match it too, and patterns of lasting answers match only it."""

    tool: str
    action: Action
    subject: str
    path: str = ""
    known: str | None = None
    """The part at the start of the subject that is known before the call runs. ``None``: all of it."""
    computed: bool = False
    """Part of the subject is computed when the call runs. No pattern covers it, except one that allows everything."""
    also: tuple[tuple[str, str | None], ...] = ()
    """Equivalent subjects, each with its known part. Rules that deny or ask apply to them too."""
    mentioned: tuple[str, ...] = ()
    """Texts with commands that the subject may run. Rules that deny or ask about one of them ask."""
    spelled: str = ""
    """The beginning of the subject that a rule must spell out, without wildcards, to allow it."""
    lasting: str | None = None
    """The pattern of the rule for a lasting answer. ``None``: the pattern of exactly this subject."""
    confined: bool = False
    """It is done in the sandbox, so no mode asks about it."""
    part_of: "AccessRequest | None" = None
    """The request for all of a line that is not understood, so that this seems to be a part of it and may be another
    thing. A lasting approval is for that line alone, and covers this request."""


class DecisionKind(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class RuleScope(StrEnum):
    """How long an answer to a permission request lasts: for this call, or as a rule for the session, for the project in
    a personal file of the project, or for every project."""

    ONCE = "once"
    SESSION = "session"
    PROJECT = "project"
    USER = "user"


SESSION = "session"
"""The source of rules that the user added by a lasting answer."""


@dataclass(frozen=True, slots=True)
class Rule:
    """``tool`` is the name of a tool or ``*``. ``pattern`` is a glob for the subject; ``None`` matches any."""

    rule_id: str
    tool: str
    decision: DecisionKind
    pattern: str | None = None
    source: str = SESSION


def names_tool(entry: str, tool: str) -> bool:
    """Whether ``entry`` names ``tool``. ``mcp__server`` names every tool of that MCP server; ``*`` in such a name
    matches any text."""
    if not entry.startswith("mcp__"):
        return entry == tool
    if tool.startswith(f"{entry}__"):
        return True
    try:
        return compile_glob(entry, TEXT).matches(tool)
    except PatternError:  # with so many wildcards it is longer than any name
        return False
