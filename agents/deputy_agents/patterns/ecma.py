"""Patterns of JSON Schema, which are regular expressions of JavaScript, as expressions that match in linear time."""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from deputy_agents.patterns.linear import Linear, PatternError, escape

MAX_LENGTH: Final = 1000
MAX_SIZE: Final = 5000
"""Characters and sets of an expression after its repetitions are written out."""

_ESCAPE = r"\\(?:[pPux]\{[^{}]*\}|u[0-9A-Fa-f]{4}|c[A-Za-z]|[\s\S])"
_TOKEN = re.compile(
    r"(?P<look>\(\?<?[=!])"
    r"|(?P<back>\\[1-9k])"
    rf"|(?P<escape>{_ESCAPE})"
    r"|(?P<repeat>\{(?P<low>\d{1,6})(?P<comma>,?)(?P<high>\d{0,6})\}\??|[*+?]\??)"
    r"|(?P<open>\((?:\?P?<\w+>|\?[^:<P)]*:?)?)"
    r"|(?P<close>\))"
    r"|(?P<set>\[\^?\]?(?:\\[\s\S]|[^\]\\])*+\])"
    r"|(?P<or>\|)"
    r"|(?P<anchor>[$^])"
    r"|(?P<brace>[{}\]])"
    r"|(?P<plain>[\s\S])"
)
_IN_SET = re.compile(rf"(?P<escape>{_ESCAPE})|(?P<minus>-(?=-))|(?P<plain>[\s\S])")
_ASCII: Final = {"d": "0-9", "w": "0-9A-Za-z_"}
_UNICODE_SIZE: Final = 50
r"""What ``\p{…}`` counts for: such sets are large."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """``size`` times the length of a text is the effort of a search."""

    linear: Linear
    size: int


@dataclass(slots=True)
class _Sizes:
    """The size of an expression while it is read. ``groups`` has the size of each open group before its last part,
    ``last`` the size of that part."""

    groups: list[int] = field(default_factory=lambda: [0])
    last: int = 0

    def add(self, size: int) -> None:
        self.groups[-1] += self.last
        self.last = size

    def open(self) -> None:
        self.add(0)
        self.groups.append(0)

    def close(self) -> None:
        if len(self.groups) > 1:
            self.last += self.groups.pop()

    def repeat(self, times: int) -> None:
        self.last *= max(times, 1)
        if self.last > MAX_SIZE:
            raise PatternError("it is too large")


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Pattern:
    """Compile ``pattern``.

    Raises:
        PatternError: it is invalid, exceeds a limit, or cannot be matched in linear time.
    """
    if len(pattern) > MAX_LENGTH:
        raise PatternError(f"it has more than {MAX_LENGTH} characters")
    sizes = _Sizes()
    expression = "".join(_translated(token, sizes) for token in _TOKEN.finditer(pattern))
    size = sum(sizes.groups) + sizes.last
    if size > MAX_SIZE:
        raise PatternError("it is too large")
    return Pattern(Linear(expression), max(size, 1))


def _translated(token: re.Match[str], sizes: _Sizes) -> str:
    text = token[0]
    match token.lastgroup:
        case "look" | "back":
            raise PatternError("lookaround and backreferences are not supported")
        case "repeat" | "comma" | "low" | "high":
            sizes.repeat(int(token["high"] or token["low"] or 1))
        case "open":
            sizes.open()
        case "close":
            sizes.close()
        case "or" | "anchor":
            sizes.add(0)
        case "escape":
            sizes.add(_UNICODE_SIZE if text[1] in "pP" else 1)
            return _escaped(text)
        case "set":
            sizes.add(_UNICODE_SIZE if re.search(r"\\[pP]", text) else 1)
            start = 2 if text.startswith("[^") else 1
            return text[:start] + "".join(map(_member, _IN_SET.finditer(text, start, len(text) - 1))) + "]"
        case "brace":
            sizes.add(1)
            return f"\\{text}"
        case _:
            sizes.add(1)
    return text


def _member(token: re.Match[str]) -> str:
    if token["escape"]:
        return _escaped(token[0], in_set=True)
    # Rust knows more signs in sets than JavaScript: nested sets, and operations on them.
    return f"\\{token[0]}" if token["minus"] or token[0] in "[&~]" else token[0]


def _escaped(text: str, *, in_set: bool = False) -> str:
    char = text[1]
    match char:
        case "d" | "w":
            return _ASCII[char] if in_set else f"[{_ASCII[char]}]"
        case "D" | "W":
            return f"[^{_ASCII[char.lower()]}]"
        case "b":
            return r"\x08" if in_set else r"(?-u:\b)"
        case "0":
            return r"\x00"
        case "Z":
            return r"\z"
        case "u" if len(text) == 6 and text[2] != "{":
            return rf"\x{{{text[2:]}}}"
        case "c" if len(text) > 2:
            return rf"\x{{{ord(text[2]) % 32:x}}}"
        case _ if char.isascii() and char.isalnum():
            return text
        case _:
            return escape(char)
