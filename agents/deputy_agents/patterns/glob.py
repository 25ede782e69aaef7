r"""Globs, in one language for rules, searches and ignore files. A glob matches the complete text.

==========  ====================================================================================================
``*``       any characters except a slash; in commands and names, any characters
``**``      any characters; where it is a complete part of a path (``a/**/b``), no part as well
``?``       one character except a slash; in commands and names, any character
``[a-z]``   one of these characters, ``[!a-z]`` and ``[^a-z]`` any other, never a slash; not in rules
``\x``      the character x
==========  ====================================================================================================
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from deputy_agents.patterns.linear import Linear, PatternError, escape

MAX_LENGTH: Final = 4096
"""Characters of a glob from its first wildcard on."""
MAX_WILDCARDS: Final = 100


@dataclass(frozen=True, slots=True, eq=False)
class Syntax:
    """The expressions of wildcards. ``deep`` is a ``**/`` at the beginning of a part, ``below`` a ``**`` as the last
    part. ``own_text``: brackets also match their own text, as in the name of a folder ``[id]``."""

    star: str
    any: str
    deep: str
    one: str
    below: str = ".*"
    brackets: bool = False
    own_text: bool = False


TEXT: Final = Syntax(star=".*", any=".*", deep=".*/", one=".")
PATH: Final = Syntax(star="[^/]*", any=".*", deep="(?:.*/)?", one="[^/]")
SEARCH: Final = replace(PATH, brackets=True, own_text=True)
GITIGNORE: Final = replace(PATH, any="[^/]*", brackets=True)
"""Git takes ``**`` inside a part for ``*``."""

_SIGNS = (
    r"\\(?P<literal>.)|(?P<deep>(?<![^/])\*\*+/)|(?P<below>(?<![^/])\*\*+\Z)|(?P<any>\*\*+)|(?P<star>\*)|(?P<one>\?)"
)
_PLAIN = r"(?P<plain>[^\\*?\[]+|.)"
_TOKEN = re.compile(f"{_SIGNS}|{_PLAIN}", re.DOTALL)
_BRACKETS = r"(?P<set>\[[!^]?\]?(?:\[:\w*:\]|\\.|[^\]\\])*+\])|(?P<open>\[)"
_TOKEN_OR_BRACKETS = re.compile(f"{_SIGNS}|{_BRACKETS}|{_PLAIN}", re.DOTALL)
_MEMBER = re.compile(r"\[:(?P<name>\w*):\]|(?:\\(?=.))?(?P<low>.)(?:-(?:\\(?=.))?(?P<high>.))?", re.DOTALL)
_CLASSES: Final = frozenset(
    {"alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "xdigit"}
)


class Glob:
    """A compiled glob: its literal beginning, and an expression for the rest."""

    __slots__ = ("_rest", "_stem")

    def __init__(self, stem: str, rest: Linear | None) -> None:
        self._stem = stem
        self._rest = rest

    def matches(self, text: str) -> bool:
        if self._rest is None:
            return text == self._stem
        return text.startswith(self._stem) and self._rest.search(text[len(self._stem) :])


@lru_cache(maxsize=2048)
def compile_glob(pattern: str, syntax: Syntax, end: str = "") -> Glob:
    """Compile ``pattern``. The text may go on with a match of the expression ``end``.

    Raises:
        PatternError: the glob is invalid or exceeds a limit.
    """
    stem, rest = split(pattern, syntax)
    if not rest and not end:
        return Glob(stem, None)
    return Glob(stem, Linear(rf"(?s)\A(?:{expression(pattern, syntax, len(pattern) - len(rest))}){end}\z"))


def tokens(pattern: str, syntax: Syntax, start: int = 0) -> Iterator[re.Match[str]]:
    """The signs of ``pattern``; the group that matched names the kind. ``literal`` is a
    character, ``plain`` are characters."""
    return (_TOKEN_OR_BRACKETS if syntax.brackets else _TOKEN).finditer(pattern, start)


def split(pattern: str, syntax: Syntax) -> tuple[str, str]:
    """The literal beginning of ``pattern`` without its escapes, and the rest from the first wildcard on."""
    stem: list[str] = []
    for token in tokens(pattern, syntax):
        if (text := token["literal"] or token["plain"]) is None:
            return "".join(stem), pattern[token.start() :]
        stem.append(text)
    return "".join(stem), ""


def wildcards(pattern: str, syntax: Syntax) -> int:
    """The number of wildcards in ``pattern``."""
    return sum(token["literal"] is None and token["plain"] is None for token in tokens(pattern, syntax))


def expression(pattern: str, syntax: Syntax, start: int = 0) -> str:
    """The expression for ``pattern`` from ``start`` on.

    Raises:
        PatternError: the glob is invalid or exceeds a limit.
    """
    if len(pattern) - start > MAX_LENGTH:
        raise PatternError(f"it has more than {MAX_LENGTH} characters")
    if wildcards(pattern, syntax) > MAX_WILDCARDS:
        raise PatternError(f"it has more than {MAX_WILDCARDS} wildcards")
    return "".join(
        _wildcard(token, syntax) if (text := token["literal"] or token["plain"]) is None else escape(text)
        for token in tokens(pattern, syntax, start)
    )


def _wildcard(token: re.Match[str], syntax: Syntax) -> str:
    match token.lastgroup:
        case "deep":
            return syntax.deep
        case "below":
            return syntax.below
        case "any":
            return syntax.any
        case "star":
            return syntax.star
        case "one":
            return syntax.one
        case "set":
            members = _set(token[0])
            return f"(?:{members}|{escape(token[0])})" if syntax.own_text else members
        case _:
            raise PatternError("it has a [ without a ]")


def _set(text: str) -> str:
    negated = text[1] in "!^"
    members = "".join(map(_member, _MEMBER.finditer(text, 2 if negated else 1, len(text) - 1)))
    return f"[^{members}/]" if negated else f"[[{members}]&&[^/]]"


def _member(found: re.Match[str]) -> str:
    name, low, high = found["name"], found["low"], found["high"]
    if name is not None:
        if name not in _CLASSES:
            raise PatternError(f"it has an unknown class of characters [:{name}:]")
        return f"[:{name}:]"
    if high is None:
        return escape(low)
    # Git takes the first character of a reversed range.
    return f"{escape(low)}-{escape(high)}" if low <= high else escape(low)
