"""The globs of the search tools: without a slash they match at any depth, as in ``.gitignore``."""

import re
from collections.abc import Callable, Iterator

from deputy_agents.domain.errors import ToolError
from deputy_agents.patterns.glob import SEARCH, expression, tokens
from deputy_agents.patterns.linear import Linear, PatternError

_MAX_BRANCHES = 64
_MAX_EXPRESSION = 32 * 1024
_BRACES = re.compile(r"(?<!\\)\{([^{}]*,[^{}]*)\}")
_SPECIAL = re.compile(r"[\\*?\[\]{}]")
_NOTHING = "[a&&b]"


def matcher(glob: str) -> Callable[[str], bool]:
    """A predicate that tests whether a path (relative to the searched folder, forward slashes) matches ``glob``, or
    lies in a folder that does.

    Braces are alternatives (``*.{ts,tsx}``); a leading ``!`` negates the glob. Brackets are sets of characters, and
    also match their own text: ``app/[id]/*`` finds the files in a folder ``[id]``.

    Raises:
        ToolError: the glob is malformed or exceeds a limit.
    """
    expected = not glob.startswith("!")
    branches = expand_braces(glob.removeprefix("!"))
    try:
        expressions = "|".join(map(_at_any_depth, branches))
        if len(expressions) > _MAX_EXPRESSION:
            raise PatternError("it is too large")
        compiled = Linear(rf"(?s)\A(?:{expressions})\z")
    except PatternError as error:
        raise ToolError(f"Invalid glob: {error}.") from None
    return lambda path: compiled.search(path) is expected


def name_globs(glob: str) -> list[str]:
    """Globs of ripgrep for file names. The name of every file that matches ``glob`` matches one of them: a cheap first
    filter. The list is empty if there is none."""
    if glob.startswith("!"):
        return []
    names = [_name_glob(branch) for branch in expand_braces(glob)]
    return names if all(names) else []


def expand_braces(glob: str) -> list[str]:
    """The globs that ``glob`` with its braces stands for.

    Raises:
        ToolError: there are too many.
    """
    expanded: list[str] = []
    for branch in _expansions(glob):
        expanded.append(branch)
        if len(expanded) > _MAX_BRANCHES:
            raise ToolError(f"The braces of the glob expand to more than {_MAX_BRANCHES} alternatives.")
    return expanded


def _expansions(glob: str) -> Iterator[str]:
    found = _BRACES.search(glob)
    if found is None:
        yield glob
        return
    for choice in found[1].split(","):
        yield from _expansions(glob[: found.start()] + choice + glob[found.end() :])


def _at_any_depth(glob: str) -> str:
    """The expression for ``glob`` and everything below what it matches; a slash other than the last one makes it
    relative to the searched folder."""
    path = glob.removeprefix(".") if glob.startswith("./") else glob
    body = path.rstrip("/")
    if not body:
        return _NOTHING
    start = "" if "/" in body else "(?:.*/)?"
    end = "(?:/.*)?" if body == path else "/.*"
    return start + expression(body.removeprefix("/"), SEARCH) + end


def _name_glob(branch: str) -> str:
    """A glob of ripgrep for the last part of ``branch``, or nothing."""
    parts: list[str] = []
    for token in tokens(branch, SEARCH):
        text = token["literal"] or token["plain"]
        if token["deep"]:
            parts = []
        elif text is not None:
            _, slash, name = text.rpartition("/")
            parts = [*([] if slash else parts), _SPECIAL.sub(r"\\\g<0>", name)]
        elif token["star"] or token["one"] or (token["set"] and "/" not in token["set"]):
            parts.append("*")
        else:
            return ""
    name = "".join(parts)
    # A glob that matches a folder includes the files below it. Names with a dot and a wildcard hardly ever match one.
    return name if "*" in name and "." in name and ":" not in name else ""
