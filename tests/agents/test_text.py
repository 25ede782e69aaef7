"""Text that users or models read."""

import pytest

from deputy_agents.text import clean, make_label, visible, well_formed


@pytest.mark.requirement("E17")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202egnp.exe", "agnp.exe"),
        ("\u2066left\u2069 \u200emark\u200f", "left mark"),
        ("\ufeffstart\u200b\u2060", "start"),
        ("ignore\U000e0061\U000e0062\U000e007f", "ignore"),
        ("red\x1b[31m\x1b]0;title\x07\x9b\x08", "red"),
        ("a\r\nb\rc\td", "a\nb\nc\td"),
    ],
)
def test_what_hides_or_reorders_text_is_taken_out(text: str, shown: str) -> None:
    assert clean(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "\U0001f468\u200d\U0001f4bb",
        "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u2764\ufe0f",
        "\u05e9\u05dc\u05d5\u05dd",
    ],
    ids=["emoji", "persian", "variation", "hebrew"],
)
def test_what_scripts_and_emoji_need_stays(text: str) -> None:
    assert clean(text) == text


def test_a_label_has_no_hidden_characters() -> None:
    assert make_label("\u202e\n  look   at\u200b this") == "look at this"


@pytest.mark.parametrize(
    "char", ["\u180b", "\u180e", "\u180f", "\u17b4", "\u17b5", "\u3164", "\u115f", "\ufe0f", "\u202e"]
)
def test_characters_that_are_not_seen_are_escaped(char: str) -> None:
    assert visible(f"rm{char} x") == f"rm\\u{{{ord(char):x}}} x"


@pytest.mark.parametrize("part", [1, 2, 3, 5])
def test_text_is_cleaned_the_same_in_parts(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = ("a\tb", "\r\n", "\r", "\x1b[31m", "\x1b]0;title\nand more\x07", "\x00", "\x9b", "\u202e", "\u200d", "é😀")
    text = "".join(first + second for first in pieces for second in pieces)
    whole = clean(text)
    assert not {"\x1b", "\r", "\x00", "\x9b", "\u202e"} & set(whole)
    assert {"\t", "\n", "\u200d", "é", "😀"} <= set(whole)
    monkeypatch.setattr("deputy_agents.text._PART", part)
    assert clean(text) == whole


@pytest.mark.parametrize("text", ["", "a", "é", "\ud83d\ude00", "\udc80", "a\ud800b", "😀\udfff"])
def test_only_lone_surrogates_are_replaced(text: str) -> None:
    assert well_formed(text) == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
