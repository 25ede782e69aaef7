"""Regular expressions, shortened for the eye."""

import re

LONGEST = 60
"""Characters of a pattern that are shown."""
_FLAGS = re.compile(r"^\(\?[a-z]+\)")
_GROUP = re.compile(r"\((?P<first>(?:\\.|[^()|\\])*)(?:\|(?:\\.|[^()|\\])*){2,}\)")
_WHOLE = re.compile(r"\(((?!\?)(?:\\.|[^()\\])*)\)")


def short_pattern(pattern: str) -> str:
    """``pattern`` without its flags and a group around all of it; where it is long, of a group of many alternatives
    the first is left, and of what is still too long beginning and end: what is sought often stands there."""
    short = _FLAGS.sub("", pattern) or pattern
    if whole := _WHOLE.fullmatch(short):
        short = whole[1] or short
    if len(short) > LONGEST:
        short = _GROUP.sub(lambda group: f"({group['first']}|…)", short)
    if len(short) > LONGEST:
        half = LONGEST // 2
        short = f"{short[:half]}…{short[half - LONGEST + 1 :]}"
    return short
