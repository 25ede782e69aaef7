"""The globs of the search tools, in the way of ``.gitignore``: without a slash they match at any depth."""

import re
from collections.abc import Callable, Iterator

from deputy_agents.domain.errors import ToolError

_MAX_BRANCHES = 64
_BRACES = re.compile(r"(?<!\\)\{([^{}]*,[^{}]*)\}")


def matcher(glob: str) -> Callable[[str], bool]:
    """Whether a path (relative to the searched folder, forward slashes) matches ``glob``.

    Braces are alternatives (``*.{ts,tsx}``); a leading ``!`` turns the sense round.

    Raises:
        ToolError: the glob is malformed.
    """
    from pathspec import GitIgnoreSpec

    wanted = not glob.startswith("!")
    try:
        spec = GitIgnoreSpec.from_lines([_literal_start(branch) for branch in branches(glob.removeprefix("!"))])
    except ValueError as error:
        raise ToolError(f"The glob is malformed: {error}") from None
    return lambda path: spec.match_file(path) is wanted


def last_part(glob: str) -> str | None:
    """A glob over bare names that every match of ``glob`` satisfies, if there is one: a cheap first sieve."""
    name = glob.rsplit("/", 1)[-1]
    if glob.startswith("!") or "**" in name or ":" in name or name.count("{") != name.count("}"):
        return None
    # Files below a folder that matches belong to the answer, and only names with a dot and a wildcard are hardly
    # ever a folder's.
    return name if re.search(r"[*?].*\.|\..*[*?]", name) else None


def branches(glob: str) -> list[str]:
    """``glob`` with its braces spread out.

    Raises:
        ToolError: there are too many.
    """
    spread: list[str] = []
    for branch in _spread(glob):
        spread.append(branch)
        if len(spread) > _MAX_BRANCHES:
            raise ToolError(f"The braces of the glob stand for more than {_MAX_BRANCHES} alternatives.")
    return spread


def _spread(glob: str) -> Iterator[str]:
    found = _BRACES.search(glob)
    if found is None:
        yield glob
        return
    for choice in found[1].split(","):
        yield from _spread(glob[: found.start()] + choice + glob[found.end() :])


def _literal_start(glob: str) -> str:
    return f"\\{glob}" if glob.startswith(("#", "!")) else glob
