"""Takes secrets out of text that leaves the machine on purpose, such as a recording for a bug report."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

MASK = "[removed]"

_SECRET_NAME = re.compile(
    r"(?:key|token|secret|passw|passwd|password|passphrase|credential|auth)s?(?:[_\d]|$)", re.IGNORECASE
)
_MIN_LENGTH = 8
"""Shorter values are no secrets worth the name, and stand everywhere."""

_SHAPES = re.compile(
    r"""
      (?<![\w-])sk-(?=[\w-]*\d)[\w-]{16,}               # keys of model services
    | gh[pousr]_\w{20,} | github_pat_\w{20,} | glpat-[\w-]{16,}
    | AKIA[0-9A-Z]{16}
    | xox[abeprs]-[\w-]{10,}
    | (?:(?<![\w-])eyJ[\w-]{8,}|eyJ[\w-]{8,1024})\.[\w-]{8,}\.[\w-]{8,}  # JSON web tokens, in a longer word too
    | -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z)
    | (?<=://)[^/\s:@]+:[^/\s@]+(?=@)                   # user and password in an address
    """,
    re.VERBOSE | re.DOTALL,
)
# Nothing here is tried from each character to the end of a long word: what an agent reads may be megabytes.
_ASSIGNED = re.compile(
    r"""((?:passw(?:or)?d|secret|api[_-]?key|access[_-]?key|auth[_-]?token)[\w-]{0,64}["']?\s{0,16}[:=]\s{0,16})
        (?:"[^"\n]{6,}"|'[^'\n]{6,}'|[^\s"',;]{6,})""",
    re.IGNORECASE | re.VERBOSE,
)


def _is_path(value: str) -> bool:
    """A place is no secret, whatever its variable is called."""
    try:
        return value.startswith(("/", "~")) and Path(value).expanduser().exists()
    except (OSError, RuntimeError, ValueError):
        return False


class Redactor:
    """Knows the values of ``environ`` whose names sound secret, and the shapes of common keys."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        values = {
            value.strip()
            for name, value in environ.items()
            if _SECRET_NAME.search(name) and len(value.strip()) >= _MIN_LENGTH and not _is_path(value.strip())
        }
        # The longest first: one may be a part of another.
        ordered = sorted(values, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def text(self, text: str) -> str:
        """``text`` with :data:`MASK` in place of each secret."""
        if self._known is not None:
            text = self._known.sub(MASK, text)
        return _ASSIGNED.sub(rf"\1{MASK}", _SHAPES.sub(MASK, text))

    def json(self, value: object) -> object:
        """A JSON value with every text in it redacted; names of fields stay."""
        match value:
            case str():
                return self.text(value)
            case dict():
                fields = cast("dict[str, object]", value)
                return {name: self.json(field) for name, field in fields.items()}
            case list():
                return [self.json(item) for item in cast("list[object]", value)]
            case _:
                return value
