"""Previews of changes before approval."""

import pytest

from deputy_agents.domain.preview import DiffPreview
from deputy_agents.text import lines_with_ends
from deputy_server.preview import preview_lines
from deputy_server.transcript import code


def shown(old: str | None, new: str) -> list[str]:
    return list(preview_lines(DiffPreview("/w/a.py", old, new)))


@pytest.mark.parametrize("sign", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_unusual_line_separators_are_escaped_and_do_not_end_lines(sign: str) -> None:
    lines = shown(f"# note{sign}import os\n", "# note\nimport os\n")
    assert [line[0] for line in lines] == ["@", "-", "+", "+"]
    assert sign not in "".join(lines)


def test_line_ends_are_shown_only_where_they_change() -> None:
    assert shown("a\r\nb\r\n", "a\r\nc\r\n")[1:] == [" a", "-b", "+c"]
    assert shown("a\r\n", "a\n")[1:] == [r"-a\r", "+a"]
    assert shown("a\n", "a") == ["@@ -1 +1 @@", "-a", "+a", "\\ No newline at end of file"]


def test_an_unchanged_file_has_no_diff_and_a_new_file_is_shown_completely() -> None:
    assert shown("a\n", "a\n") == []
    assert shown(None, "a\nb\n")[1:] == ["+a", "+b"]


def test_lines_are_counted_as_in_editors() -> None:
    assert lines_with_ends("a\r\nb\rc\x0cd\u2028e\n") == ["a\r\n", "b\r", "c\x0cd\u2028e\n", ""]


@pytest.mark.parametrize("text", ["plain", "one ` in it", "two `` in it", "``` three"])
def test_code_cannot_end_its_span(text: str) -> None:
    span = code(text)
    ticks = span[: len(span) - len(span.lstrip("`"))]
    assert ticks not in text
    assert span in (f"{ticks}{text}{ticks}", f"{ticks} {text} {ticks}")
