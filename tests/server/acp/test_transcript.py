"""The small decisions of what is told: what a message lacks, and how text is shown as it is."""

import pytest

from deputy_server.acp.agent_updates import fenced, remainder


@pytest.mark.parametrize(
    ("shown", "text", "rest"),
    [
        ("", "Hello", "Hello"),
        ("Hel", "Hello", "lo"),
        ("Hello", "Hello", ""),
        ("one.two", "one.\ntwo, three", ", three"),  # parts are joined by line ends that no delta has
        ("one two", "one\n\ntwo", ""),
        ("Hello there", "Hello", None),
        ("Well, no", "Yes", None),
    ],
)
def test_the_rest_of_a_message_is_what_comes_behind_what_was_shown(shown: str, text: str, rest: str | None) -> None:
    assert remainder(shown, text) == rest


@pytest.mark.parametrize(
    ("text", "fence"),
    [("plain", "```"), ("a ``` fence", "````"), ("`````", "``````"), ("two `` ticks\n", "```")],
)
def test_text_is_fenced_so_that_nothing_in_it_ends_the_fence(text: str, fence: str) -> None:
    lines = fenced(text).split("\n")
    assert (lines[0], lines[-1]) == (fence, fence)
    assert "\n".join(lines[1:-1]) == text.removesuffix("\n")
