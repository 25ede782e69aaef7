"""Shortened regular expressions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_server.terminal.pattern import MAX_LENGTH, short_pattern


@pytest.mark.parametrize(
    ("pattern", "short"),
    [
        ("retry", "retry"),
        ("(?i)(errors)", "errors"),
        ("(a)(b)", "(a)(b)"),
        ("(?:a|b)", "(?:a|b)"),
        ("(?i)", "(?i)"),
        (
            r"(?i)\b(class|def|function|struct|interface|namespace|macro|enum)\s+\w*(errors)",
            r"\b(class|…)\s+\w*(errors)",
        ),
        (f"{'x' * 80}(sought)", f"{'x' * 30}…{'x' * 21}(sought)"),
    ],
)
def test_short_pattern_keeps_the_searched_words(pattern: str, short: str) -> None:
    assert short_pattern(pattern) == short


@given(st.text(st.sampled_from(r"()|\ab?i"), max_size=400))
def test_short_pattern_never_exceeds_the_maximum_length(pattern: str) -> None:
    assert len(short_pattern(pattern)) <= MAX_LENGTH
