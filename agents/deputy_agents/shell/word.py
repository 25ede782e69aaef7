"""One word of a shell command: its value as far as it is known before the command runs."""

import re
import shlex
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Word:
    """``text`` is the value; parts that are only known when the command runs are as written. ``fixed`` is the known
    beginning, which is the complete value if neither flag is set. ``globs``: file names or a home folder may be
    inserted. ``computed``: the word contains a variable, a substitution or braces."""

    text: str
    fixed: str
    globs: bool = False
    computed: bool = False

    @property
    def plain(self) -> bool:
        """Whether the value is known."""
        return not (self.globs or self.computed)

    @property
    def shown(self) -> str:
        """The word as in subjects of rules: quoted only if it would not be one word otherwise."""
        if self.computed or (self.text and not _NEEDS_QUOTES.search(self.text)):
            return self.text
        return shlex.quote(self.text)


_NEEDS_QUOTES: Final = re.compile(r"""[\s;&|<>()`"'\\$]""")
_TOKEN: Final = re.compile(
    r"""\\\n (?P<continued>)
    | \\ (?P<escaped>.)
    | ' (?P<raw>[^']*) '
    | " (?P<quoted>(?:\\.|[^"\\$`])*) "
    | (?P<globbing>[*?\[])
    | (?P<braces>\{\})
    | (?P<dynamic>[$`{"])
    | (?P<plain>[^\s;&|<>()'\\])""",
    re.VERBOSE | re.DOTALL,
)
_IN_QUOTES: Final = re.compile(r'\\([$`"\\])|\\\n', re.DOTALL)


def read_word(source: str) -> Word | None:
    """Parse ``source`` as one word; ``None`` if that is not possible."""
    value, fixed, at = "", None, 0
    if source.startswith("~"):
        fixed = ""
    while at < len(source):
        token = _TOKEN.match(source, at)
        if token is None:
            return None
        if token["dynamic"]:
            return Word(value + source[at:], value if fixed is None else fixed, globs=True, computed=True)
        if token["globbing"] and fixed is None:
            fixed = value
        value += _value(token)
        at = token.end()
    return Word(value, value) if fixed is None else Word(value, fixed, globs=True)


def _value(token: re.Match[str]) -> str:
    if (quoted := token["quoted"]) is not None:
        return _IN_QUOTES.sub(lambda found: found[1] or "", quoted)
    kinds = ("escaped", "raw", "globbing", "braces", "plain", "continued")
    return next(text for kind in kinds if (text := token[kind]) is not None)
