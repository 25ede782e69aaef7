"""The globs of the search tools. They work as in ``.gitignore``: without a slash they match at any depth."""

import re
from collections.abc import Callable, Iterator

from deputy_agents.domain.errors import ToolError

_MAX_BRANCHES = 64
_BRACES = re.compile(r"(?<!\\)\{([^{}]*,[^{}]*)\}")


def matcher(glob: str) -> Callable[[str], bool]:
    """A predicate that tests whether a path (relative to the searched folder, forward slashes) matches ``glob``.

    Braces are alternatives (``*.{ts,tsx}``); a leading ``!`` negates the glob.

    Raises:
        ToolError: the glob is malformed.
    """
    from pathspec import GitIgnoreSpec

    expected = not glob.startswith("!")
    try:
        spec = GitIgnoreSpec.from_lines([_escape_first(branch) for branch in expand_braces(glob.removeprefix("!"))])
    except ValueError as error:
        raise ToolError(f"Invalid glob: {error}") from None
    return lambda path: spec.match_file(path) is expected


def name_glob(glob: str) -> str | None:
    """A glob for file names that every match of ``glob`` satisfies, if there is one: a cheap first filter."""
    name = glob.rsplit("/", 1)[-1]
    if glob.startswith("!") or "**" in name or ":" in name or name.count("{") != name.count("}"):
        return None
    # A glob that matches a folder includes the files below it. Names with a dot and a wildcard hardly ever match one.
    return name if re.search(r"[*?].*\.|\..*[*?]", name) else None


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


def _escape_first(glob: str) -> str:
    return f"\\{glob}" if glob.startswith(("#", "!")) else glob
