"""What is shown of a change before it is approved."""

import pytest

from deputy_agents.domain.event import DiffPreview
from deputy_agents.text import lines_with_ends
from deputy_server.preview import preview_lines
from deputy_server.transcript import code


def shown(old: str | None, new: str) -> list[str]:
    return list(preview_lines(DiffPreview("/w/a.py", old, new)))


@pytest.mark.parametrize("sign", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_a_sign_that_other_programs_take_for_a_line_end_is_escaped_and_not_mistaken_for_one(sign: str) -> None:
    lines = shown(f"# note{sign}import os\n", "# note\nimport os\n")
    assert [line[0] for line in lines] == ["@", "-", "+", "+"]
    assert sign not in "".join(lines)


def test_line_ends_are_shown_where_they_change_and_not_where_they_stay() -> None:
    assert shown("a\r\nb\r\n", "a\r\nc\r\n")[1:] == [" a", "-b", "+c"]
    assert shown("a\r\n", "a\n")[1:] == [r"-a\r", "+a"]
    assert shown("a\n", "a") == ["@@ -1 +1 @@", "-a", "+a", "\\ No newline at end of file"]


def test_no_change_is_shown_as_nothing_and_a_new_file_whole() -> None:
    assert shown("a\n", "a\n") == []
    assert shown(None, "a\nb\n")[1:] == ["+a", "+b"]


def test_lines_are_those_that_editors_count() -> None:
    assert lines_with_ends("a\r\nb\rc\x0cd\u2028e\n") == ["a\r\n", "b\r", "c\x0cd\u2028e\n", ""]


@pytest.mark.parametrize("text", ["plain", "one ` in it", "two `` in it", "``` three"])
def test_code_cannot_end_its_span(text: str) -> None:
    span = code(text)
    ticks = span[: len(span) - len(span.lstrip("`"))]
    assert ticks not in text
    assert span in (f"{ticks}{text}{ticks}", f"{ticks} {text} {ticks}")
