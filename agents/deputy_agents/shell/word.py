"""One word of a shell command: its value, as far as that is known before it runs."""

import re
import shlex
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Word:
    """``text`` is the value, with what is only known when it runs as it was written. ``fixed`` is the beginning that
    holds in any case, all of it if neither flag is set: ``globs`` says that names of files or a home folder may come
    in, ``computed`` that a variable, a command or braces do."""

    text: str
    fixed: str
    globs: bool = False
    computed: bool = False

    @property
    def plain(self) -> bool:
        """The value is known."""
        return not (self.globs or self.computed)

    @property
    def shown(self) -> str:
        """The word as subjects of rules have it: quoted only where it would not be one word otherwise."""
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
    """The word that ``source`` is; ``None`` when it is not one word of a kind that is understood."""
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
