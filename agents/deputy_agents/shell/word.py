"""One word of a shell command: its value as far as it is known before the command runs."""

import re
import shlex
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Word:
    """``text`` is the value; parts that are only known when the command runs are as written. ``fixed`` is the known
    beginning, which is the complete value if neither flag is set. ``globs``: file names or a home folder may be
    inserted. ``computed``: the word contains a variable, a substitution or braces. ``pattern``: the value as a pattern
    for file names, in which quoted characters have a backslash; empty if it is not known. ``source``: a word whose
    value is not known, as written."""

    text: str
    fixed: str
    globs: bool = False
    computed: bool = False
    pattern: str = ""
    source: str = ""

    @property
    def plain(self) -> bool:
        """Whether the value is known."""
        return not (self.globs or self.computed)

    @property
    def shown(self) -> str:
        """The word as in subjects of rules: quoted only if bash would read it differently otherwise."""
        if self.source:
            return self.source
        return shlex.quote(self.text) if self.plain and _EXPANDED.search(self.text) else self.loose

    @property
    def loose(self) -> str:
        """The word, quoted only if it would not be one word otherwise."""
        if self.computed or (self.text and not _NEEDS_QUOTES.search(self.text)):
            return self.text
        return shlex.quote(self.text)


_SPECIAL_IN_PATTERNS: Final = re.compile(r"[\\*?\[\]!^:.=-]")
_NEEDS_QUOTES: Final = re.compile(r"""[\s;&|<>()`"'\\$]""")
_EXPANDED: Final = re.compile(r"[*?]|\[.+\]|\{.*(?:,|\.\.).*\}|^~")
"""What bash would expand without quotes: names of files, braces, the home folder."""
_TOKEN: Final = re.compile(
    r"""\\\n (?P<continued>)
    | \\ (?P<escaped>.)
    | ' (?P<raw>[^']*) '
    | " (?P<quoted>(?:\\.|[^"\\$`])*) "
    | (?P<globbing>[*?\[])
    | (?P<braces>\{\}(?!.*\}))
    | (?P<dynamic>[$`{"])
    | (?P<plain>[^\s;&|<>()'\\])""",
    re.VERBOSE | re.DOTALL,
)
_IN_QUOTES: Final = re.compile(r'\\([$`"\\])|\\\n', re.DOTALL)


def read_word(source: str) -> Word | None:
    """Parse ``source`` as one word; ``None`` if that is not possible."""
    value, pattern, fixed, at = "", "", None, 0
    if source.startswith("~"):
        fixed = ""
    while at < len(source):
        token = _TOKEN.match(source, at)
        if token is None:
            return None
        if token["dynamic"]:
            known = value if fixed is None else fixed
            return Word(value + source[at:], known, globs=True, computed=True, source=source)
        if token["globbing"] and fixed is None:
            fixed = value
        part = _value(token)
        value += part
        unquoted = token["globbing"] is not None or token["plain"] is not None
        pattern += part if unquoted else _SPECIAL_IN_PATTERNS.sub(r"\\\g<0>", part)
        at = token.end()
    if fixed is None:
        return Word(value, value)
    return Word(value, fixed, globs=True, pattern=pattern, source=source if source != value else "")


def _value(token: re.Match[str]) -> str:
    if (quoted := token["quoted"]) is not None:
        return _IN_QUOTES.sub(lambda found: found[1] or "", quoted)
    kinds = ("escaped", "raw", "globbing", "braces", "plain", "continued")
    return next(text for kind in kinds if (text := token[kind]) is not None)
