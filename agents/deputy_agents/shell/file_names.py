"""Patterns for file names as bash expands them, compared so that no name is missed that bash finds.

Where the result depends on options of bash or on the locale, every possible name counts: upper and lower case are the
same, a class of characters is any character, and what is not understood matches everything.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeAlias

MAX_EFFORT: Final = 10_000
"""What an expansion may cost: one for each directory entry, more for long names and patterns."""
MAX_EFFORT_OF_A_LINE: Final = 20_000
"""What all expansions of a line may cost."""
_MAX_LENGTH: Final = 1000
"""Characters of a part of a pattern; one that is longer may match any name."""

_Token: TypeAlias = Callable[[str], bool] | None
"""Matches one character; ``None`` any number of them."""


class TooManyNames(Exception):
    """The pattern cannot be expanded within the limit."""


def may_match(pattern: str, name: str) -> bool:
    """Whether bash may expand ``pattern``, one part of a path, to ``name``. A backslash escapes the next character."""
    if len(pattern) > _MAX_LENGTH:
        return True
    tokens = _tokens(pattern)
    at = position = 0
    star = resume = -1
    while position < len(name):
        token = tokens[at] if at < len(tokens) else _never
        if token is None:
            star, resume, at = at, position, at + 1
        elif token(name[position]):
            at, position = at + 1, position + 1
        elif star >= 0:
            resume += 1
            at, position = star + 1, resume
        else:
            return False
    return all(token is None for token in tokens[at:])


def expand(pattern: str, folder: Path, left: list[int] | None = None) -> Iterator[str]:
    """The paths that bash may insert for ``pattern`` in ``folder``. ``left`` is the effort that is left for this and
    further expansions. Blocks.

    Raises:
        TooManyNames: there are too many directory entries to read.
    """
    left = [MAX_EFFORT] if left is None else left
    budget = [given := min(MAX_EFFORT, left[0])]
    start = "/" if pattern.startswith("/") else ""
    try:
        yield from _expand(start, [part for part in split(pattern) if part], folder, budget)
    finally:
        left[0] -= given - budget[0]


def split(pattern: str) -> list[str]:
    """The parts of ``pattern`` between slashes."""
    parts, escaped = [""], False
    for char in pattern:
        if char == "/":
            parts.append("")
            escaped = False
        else:
            parts[-1] += char
            escaped = char == "\\" and not escaped
    return parts


def is_wild(part: str) -> bool:
    """Whether a part of a pattern may match another name than itself."""
    at = 0
    while at < len(part):
        if part[at] in "*?[":
            return True
        at += 2 if part[at] == "\\" else 1
    return False


def literal(part: str) -> str:
    """A part of a pattern without its escapes."""
    kept, escaped = "", False
    for char in part:
        escaped = char == "\\" and not escaped
        kept += "" if escaped else char
    return kept


def _expand(base: str, parts: Sequence[str], folder: Path, budget: list[int]) -> Iterator[str]:
    if not parts:
        yield base
        return
    part, rest = parts[0], parts[1:]
    for name in _names(base, part, folder, budget) if is_wild(part) else [literal(part)]:
        path = os.path.join(base, name)  # noqa: PTH118 - Path would remove ./ and ..
        if rest or os.path.lexists(folder / path):
            yield from _expand(path, rest, folder, budget)


def _names(base: str, part: str, folder: Path, budget: list[int]) -> list[str]:
    try:
        with os.scandir(folder / base) as entries:
            found: list[str] = []
            for entry in entries:
                budget[0] -= 1 + len(part) * len(entry.name) // 500
                if budget[0] < 0:
                    raise TooManyNames
                # Without dotglob, a dot at the beginning must be matched by a dot.
                if (not entry.name.startswith(".") or literal(part).startswith(".")) and may_match(part, entry.name):
                    found.append(entry.name)
            return sorted(found)
    except OSError:
        return []


@lru_cache(maxsize=64)
def _tokens(pattern: str) -> Sequence[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            tokens.append(_same(pattern[at + 1 : at + 2] or char))
            at += 2
        elif char == "*":
            tokens.append(None)
            at += 1
        elif char == "?":
            tokens.append(_any)
            at += 1
        elif char == "[":
            token, at = _bracket(pattern, at)
            tokens += token
        else:
            tokens.append(_same(char))
            at += 1
    return tokens


def _bracket(pattern: str, start: int) -> tuple[list[_Token], int]:
    """The tokens of the bracket expression at ``start``, and its end."""
    at = start + 1
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    ranges: list[tuple[str, str]] = []
    first = at
    while at < len(pattern) and (pattern[at] != "]" or at == first):
        if pattern[at] == "[" and pattern[at + 1 : at + 2] in (":", ".", "="):
            return [None], len(pattern)  # a class; everything matches, in case its end is misunderstood
        low, at = _member(pattern, at)
        high = low
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("", "]"):
            if pattern[at + 1] == "[":
                return [None], len(pattern)
            high, at = _member(pattern, at + 1)
        ranges.append((low, high))
    if at >= len(pattern):
        return [None], len(pattern)  # no end: an ordinary character, or not understood

    def matches(char: str) -> bool:
        if negated:
            return not any(low <= char <= high for low, high in ranges)
        return any(low <= variant <= high for low, high in ranges for variant in (char, char.lower(), char.upper()))

    return [matches], at + 1


def _member(pattern: str, at: int) -> tuple[str, int]:
    """The member of a bracket expression at ``at``, and the position after it."""
    if pattern[at] == "\\" and at + 1 < len(pattern):
        return pattern[at + 1], at + 2
    return pattern[at], at + 1


def _same(char: str) -> Callable[[str], bool]:
    folded = char.casefold()
    return lambda other: other.casefold() == folded


def _any(_: str) -> bool:
    return True


def _never(_: str) -> bool:
    return False
