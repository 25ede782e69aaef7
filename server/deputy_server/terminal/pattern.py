"""Shortens regular expressions for display."""

import re

MAX_LENGTH = 60
"""Maximum number of characters of a shortened pattern."""
_MAX_SEARCHED = 2000
"""In longer patterns, groups are not looked for: each open bracket would be a search to the end."""
_FLAGS = re.compile(r"^\(\?[a-z]+\)")
_ALTERNATIVES = re.compile(r"\((?P<first>(?:\\.|[^()|\\])*)(?:\|(?:\\.|[^()|\\])*){2,}\)")
_OUTER_GROUP = re.compile(r"\(((?!\?)(?:\\.|[^()\\])*)\)")


def short_pattern(pattern: str) -> str:
    """``pattern`` without its flags and without a group around all of it. In a long pattern, groups of many
    alternatives keep only the first one. If it is still too long, its middle is cut, because the searched words are
    often at the start or the end."""
    short = _FLAGS.sub("", pattern) or pattern
    if outer := _OUTER_GROUP.fullmatch(short):
        short = outer[1] or short
    if MAX_LENGTH < len(short) <= _MAX_SEARCHED:
        short = _ALTERNATIVES.sub(lambda group: f"({group['first']}|…)", short)
    if len(short) > MAX_LENGTH:
        half = MAX_LENGTH // 2
        short = f"{short[:half]}…{short[half - MAX_LENGTH + 1 :]}"
    return short
