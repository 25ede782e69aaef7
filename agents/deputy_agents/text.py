"""Small operations on text that people or models will read."""

import re
import shlex
import unicodedata

LABEL_LENGTH = 30

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_HIDING = re.compile(
    "[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""What reorders text or cannot be seen. The joiners stay: some scripts and many emoji need them."""

_BLANK = frozenset("\u034f\u115f\u1160\u2800\u3164\uffa0")
"""Letters and signs that look like nothing."""

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_AFTER_LINE_END = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")


def visible(text: str) -> str:
    """``text`` with control, format and other unseen characters escaped, so that what is approved is what is seen.

    Line ends too: the answer is one line. Letters, signs and plain spaces stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible, text))


def _visible(char: str) -> str:
    category = unicodedata.category(char)
    unseen = category[0] in "CZ" or char in _BLANK or "\ufe00" <= char <= "\ufe0f" or char >= "\U000e0100"
    if not unseen or char == " ":
        return char
    return _SHORT.get(char) or f"\\u{{{ord(char):x}}}"


def lines_of(text: str) -> list[str]:
    """``text`` in lines with their ends, as editors count them; the last one has none and may be empty. Python's
    ``splitlines`` also splits at form feeds and others."""
    return _AFTER_LINE_END.split(text)


def readable(text: str) -> str:
    """``text`` with what is no character replaced by the sign for that. JSON can carry halves of surrogate pairs, and
    bytes that are no UTF-8 are kept as such: two that make a pair are joined."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def cut(text: str, limit: int) -> str:
    """At most ``limit`` characters of ``text``, the cut marked by ``…``."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def clean(text: str) -> str:
    """``text`` without terminal escape sequences, control characters, and characters that reorder or hide text; tabs
    and line ends stay."""
    return _HIDING.sub("", _CONTROL.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))))


def split_words(text: str) -> list[str]:
    """The words of ``text``; quotation marks keep some together."""
    try:
        return shlex.split(text)
    except ValueError:  # an open quotation mark, as in "don't"
        return text.split()


def label_of(text: str) -> str:
    """The name that people see of an agent: the first non-empty line, white space collapsed, at most 30 characters
    with the ``…`` of a cut included."""
    line = next((line for line in clean(text).splitlines() if line.strip()), "")
    return cut(" ".join(line.split()), LABEL_LENGTH)


def size_of(text: str) -> int:
    """Bytes of its UTF-8."""
    return len(text.encode("utf-8", "surrogatepass"))


def shortened(text: str, limit: int, mark: str) -> str:
    """``text``, or at most ``limit`` bytes of its UTF-8 and ``mark`` behind them."""
    data = text.encode("utf-8", "surrogatepass")
    return text if len(data) <= limit else f"{data[:limit].decode('utf-8', 'ignore')}{mark}"


def bounded(text: str, limit: int, how_to_read_on: str) -> tuple[str, bool]:
    """``text`` cut to ``limit`` bytes of UTF-8 with a marker that says so and how to read on; and whether it was."""
    size = size_of(text)
    mark = f"\n\n[cut: {size - limit} of {size} bytes are missing; {how_to_read_on}]"
    return shortened(text, limit, mark), size > limit
