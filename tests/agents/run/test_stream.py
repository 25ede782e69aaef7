"""What clients see of one message while it is streamed, across retries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deputy_agents.domain.message import Message
from deputy_agents.run.stream import Stream
from deputy_agents.text import clean


def shown(stream: Stream, *pieces: str) -> str:
    return "".join(stream.add(piece) for piece in pieces)


def partial(stream: Stream) -> str:
    message = stream.partial()
    return message.text if isinstance(message, Message) else ""


def test_a_retry_shows_nothing_until_it_is_longer_than_what_was_shown() -> None:
    stream = Stream()
    assert shown(stream, "Hello", ", wor") == "Hello, wor"
    stream.restart()
    assert shown(stream, "Hel", "lo, ") == ""
    assert shown(stream, "world", "!") == "ld!"


def test_the_longer_text_is_kept_when_a_retry_breaks_off_earlier() -> None:
    stream = Stream()
    shown(stream, "Hello, wor")
    stream.restart()
    shown(stream, "Hel")
    assert partial(stream) == "Hello, wor"
    stream.restart()
    assert partial(stream) == "Hello, wor"
    shown(stream, "Hello, world")
    assert partial(stream) == "Hello, world"


@pytest.mark.parametrize("nothing", [(), ("",), (" ", "\n")])
def test_without_shown_text_there_is_no_partial_message(nothing: tuple[str, ...]) -> None:
    stream = Stream()
    shown(stream, *nothing)
    assert stream.partial() is None


@pytest.mark.parametrize(
    "text", ["\x1b[31mred\x1b[0m.", "one\r\ntwo", "\x1b]0;title\x07after", "a\x1b]8;;x\x1b\\b", "a\rb"]
)
def test_escape_sequences_are_removed_wherever_the_text_was_cut(text: str) -> None:
    for at in range(len(text) + 1):
        assert shown(Stream(), text[:at], text[at:]) == clean(text)


@given(st.lists(st.text(alphabet="ab \n\r\x1b[]0;m\x07\\", max_size=6), max_size=12))
def test_pieces_add_up_to_the_cleaned_text_except_for_an_unfinished_end(pieces: list[str]) -> None:
    output = shown(Stream(), *pieces)
    assert clean("".join(pieces)).startswith(output)
    assert "\x1b" not in output


@given(st.lists(st.lists(st.text("abc", max_size=3), max_size=6), min_size=1, max_size=5))
def test_text_that_grows_with_each_retry_is_shown_exactly_once(tries: list[list[str]]) -> None:
    """Each try streams the same message again and breaks off somewhere."""
    whole = "".join(piece for pieces in tries for piece in pieces)
    stream, output = Stream(), ""
    for count in range(1, len(tries) + 1):
        at = 0
        for piece in [piece for pieces in tries[:count] for piece in pieces]:
            output += stream.add(whole[at : at + len(piece)])
            at += len(piece)
        stream.restart()
    assert output == whole
