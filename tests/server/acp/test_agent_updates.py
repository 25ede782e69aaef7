"""Details of updates: the remainder of a message, and code blocks."""

import pytest

from deputy_server.acp.agent_updates import fenced, remainder


@pytest.mark.parametrize(
    ("shown", "text", "rest"),
    [
        ("", "Hello", "Hello"),
        ("Hel", "Hello", "lo"),
        ("Hello", "Hello", ""),
        ("one.two", "one.\ntwo, three", ", three"),  # parts are joined by line ends that are in no delta
        ("one two", "one\n\ntwo", ""),
        ("Hello there", "Hello", None),
        ("Well, no", "Yes", None),
    ],
)
def test_the_remainder_of_a_message_follows_the_sent_text(shown: str, text: str, rest: str | None) -> None:
    assert remainder(shown, text) == rest


@pytest.mark.parametrize(
    ("text", "fence"),
    [("plain", "```"), ("a ``` fence", "````"), ("`````", "``````"), ("two `` ticks\n", "```")],
)
def test_a_code_block_cannot_be_ended_by_its_text(text: str, fence: str) -> None:
    lines = fenced(text).split("\n")
    assert (lines[0], lines[-1]) == (fence, fence)
    assert "\n".join(lines[1:-1]) == text.removesuffix("\n")
