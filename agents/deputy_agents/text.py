"""Small operations on text that users or models read."""

import re
import shlex
import unicodedata

LABEL_LENGTH = 30
TITLE_LENGTH = 40
"""Characters of an agent's display name if a model has written it as a title."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_NOT_SHOWN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
    "\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control characters, and characters that reorder text or are invisible. Joiners are not included: some scripts and
many emoji need them."""
_PART = 2**17
"""Characters of a large text that are cleaned at once: no other thread can run meanwhile."""

_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\u2800\u3164\uffa0")
"""Letters, marks and symbols that are invisible or look like a space."""

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_AFTER_LINE_END = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")


def visible(text: str) -> str:
    """Escape control characters, format characters and other invisible characters, so that users approve what they see.

    The result is one line: line ends are escaped too. Letters, symbols and plain spaces are kept.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible, text))


def _visible(char: str) -> str:
    category = unicodedata.category(char)
    invisible = category[0] in "CZ" or char in _BLANK or "\ufe00" <= char <= "\ufe0f" or char >= "\U000e0100"
    if not invisible or char == " ":
        return char
    return _SHORT.get(char) or f"\\u{{{ord(char):x}}}"


def lines_with_ends(text: str) -> list[str]:
    """Split ``text`` into lines as editors do, with their line ends. The last line has no end and may be empty.
    Python's ``splitlines`` also splits at form feeds and other characters."""
    return _AFTER_LINE_END.split(text)


def lines_without_ends(text: str) -> list[str]:
    """Split ``text`` at ``\\n`` and ``\\r\\n``. An empty last line is dropped."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if not lines[-1] else lines


def well_formed(text: str) -> str:
    """Replace lone surrogates by the replacement character, and join those that form a pair. JSON can contain lone
    surrogates, and they represent bytes that are not UTF-8."""
    return text if is_well_formed(text) else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def is_well_formed(text: str) -> bool:
    """Whether ``text`` contains no surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def cut(text: str, limit: int) -> str:
    """Shorten ``text`` to at most ``limit`` characters, including a final ``…``."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def clean(text: str) -> str:
    """Remove terminal escape sequences, control characters, and characters that reorder or hide text. Tabs are kept,
    and all line ends become ``\\n``. Takes milliseconds for each million characters: use a thread for large texts."""
    text = _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return "".join([_NOT_SHOWN.sub("", text[at : at + _PART]) for at in range(0, len(text), _PART)])


def split_words(text: str) -> list[str]:
    """Split ``text`` into words; quotation marks group words."""
    try:
        return shlex.split(text)
    except ValueError:  # an open quotation mark, as in "don't"
        return text.split()


def make_label(text: str, limit: int = LABEL_LENGTH) -> str:
    """The display name of an agent: the first non-empty line with collapsed white space, at most ``limit``
    characters."""
    line = next((line for line in clean(text).splitlines() if line.strip()), "")
    return cut(" ".join(line.split()), limit)


def utf8_size(text: str) -> int:
    """The number of bytes in UTF-8."""
    return len(text.encode("utf-8", "surrogatepass"))


def cut_bytes(text: str, limit: int, mark: str) -> str:
    """Shorten ``text`` to at most ``limit`` bytes of UTF-8, and append ``mark`` if it was longer."""
    data = text.encode("utf-8", "surrogatepass")
    return text if len(data) <= limit else f"{data[:limit].decode('utf-8', 'ignore')}{mark}"


def truncate(text: str, limit: int, how_to_read_on: str) -> tuple[str, bool]:
    """Shorten ``text`` to ``limit`` bytes of UTF-8, and append how many are missing and ``how_to_read_on``. Return also
    whether it was longer."""
    size = utf8_size(text)
    mark = f"\n\n[cut: {size - limit} of {size} bytes are missing; {how_to_read_on}]"
    return cut_bytes(text, limit, mark), size > limit
