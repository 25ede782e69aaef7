"""A rope behaves like a plain text: lines, positions and edits."""

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.text import lines_with_ends
from deputy_server.lsp import rope
from deputy_server.lsp.rope import Rope

TEXTS = st.text(alphabet="ab\n\r\f\u2028\U0001f600", max_size=60)
EDITS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), TEXTS), max_size=8)


def naive_line(text: str, number: int) -> tuple[int, str]:
    lines = lines_with_ends(text)
    inside = lines[number].rstrip("\r\n") if number < len(lines) else ""
    return sum(map(len, lines[:number])), inside


def naive_place(text: str, offset: int) -> tuple[int, str]:
    lines = lines_with_ends(text[:offset])
    return len(lines) - 1, lines[-1]


@given(TEXTS, EDITS, st.integers(1, 8))
def test_lines_and_positions_are_correct_after_any_edits(
    text: str, edits: list[tuple[int, int, str]], piece: int
) -> None:
    with patch.object(rope, "PIECE", piece):
        long = Rope(text)
        for first, last, new in edits:
            start, end = min(first, len(text)), min(last, len(text))
            long.replace(start, end, new)
            text = text[:start] + new + text[max(start, end) :]
            number = start % 7
            assert long.line(number) == naive_line(text, number)
        assert long.text == text
        for number in range(len(lines_with_ends(text)) + 2):
            assert long.line(number) == naive_line(text, number)
        for offset in range(len(text) + 1):
            assert long.position(offset) == naive_place(text, offset)


def test_every_carriage_return_ends_a_line() -> None:
    assert Rope("\r" * 50_000).line(50_000) == (50_000, "")
