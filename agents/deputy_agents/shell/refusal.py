"""What the sandbox refused to a command, as one line of text. Shared with the broker, so it must load fast."""

PROTECTED = "protected"
"""A change of a protected file."""
OUTSIDE = "outside"
"""A change outside the workspace."""
SHARED = "shared"
"""A change of a file that has several names, some of which may be outside the workspace or protected."""
NETWORK = "network"
"""A connection beyond the sandbox."""

_SENTENCES = {
    PROTECTED: "change {}, which is protected",
    OUTSIDE: "change {}, which is outside the workspace",
    SHARED: "change {}, which has other names too",
    NETWORK: "connect to {}",
}


def refusal_line(kind: str, what: str) -> str:
    """``what`` is a path or an address. It may come from the command, so line breaks in it are escaped."""
    return f"{kind} {what!r}\n" if not what.isprintable() else f"{kind} {what}\n"


def describe_refusal(line: str) -> str | None:
    """What the command was not allowed to do, as words that follow "to"; ``None`` if ``line`` is no refusal."""
    kind, _, what = line.partition(" ")
    return _SENTENCES[kind].format(what) if kind in _SENTENCES and what else None
