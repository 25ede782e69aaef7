"""Bytes of a text file as text, and back again without loss.

UTF-8 is the rule. A byte order mark says otherwise and stays. Bytes that are no UTF-8 are kept in the text as lone
surrogates, one for each, and become the same bytes again: what an edit does not touch stays as it was, whatever it is.
"""

import re
from dataclasses import dataclass

from deputy_agents.domain.errors import ToolError

_BYTES = re.compile("[\udc80-\udcff]")
"""What stands for bytes that are no UTF-8."""
REPLACED = "\ufffd"
"""What editors show for bytes that they cannot read."""
_UNREAD = re.compile(f"[\udc80-\udcff{REPLACED}]+")


@dataclass(frozen=True, slots=True)
class Encoding:
    """``bom`` stands at the start of the file, not of the text."""

    codec: str
    bom: bytes = b""

    def encode(self, text: str) -> bytes:
        """Raises UnicodeEncodeError when ``text`` holds what is neither a character nor a byte that was kept."""
        return self.bom + text.encode(self.codec, "surrogateescape" if self is UTF8 else "strict")


UTF8 = Encoding("utf-8")
_MARKED = (
    Encoding("utf-8", b"\xef\xbb\xbf"),
    Encoding("utf-32-le", b"\xff\xfe\0\0"),  # before the two-byte mark that it begins with
    Encoding("utf-32-be", b"\0\0\xfe\xff"),
    Encoding("utf-16-le", b"\xff\xfe"),
    Encoding("utf-16-be", b"\xfe\xff"),
)


def decode(data: bytes) -> tuple[str, Encoding] | None:
    """The text in ``data``; ``None`` when it is no text."""
    for encoding in _MARKED:
        if data.startswith(encoding.bom):
            try:
                return data[len(encoding.bom) :].decode(encoding.codec), encoding
            except UnicodeDecodeError:
                break
    return None if b"\0" in data else (data.decode(UTF8.codec, "surrogateescape"), UTF8)


def is_exact(text: str) -> bool:
    """Whether all of the file was UTF-8."""
    return text.isascii() or _BYTES.search(text) is None


def blurred(text: str) -> str:
    """``text`` as an editor may show it: how many signs stand for unread bytes is for each to choose, and how lines
    end as well."""
    return _UNREAD.sub(REPLACED, text).replace("\r\n", "\n")


def check_new(text: str, before: str = "") -> None:
    """Whether ``text`` may take the place of ``before`` in a file.

    Raises:
        ToolError: it brings what is no character, or characters of which nobody knows how this file writes them: where
            some bytes are no UTF-8, they would be other characters to its readers.
    """
    if text.isascii():
        return
    foreign = sorted(char for char in set(text).difference(before) if not char.isascii())
    if any("\ud800" <= char <= "\udfff" for char in foreign):
        raise ToolError("The new text holds lone surrogates, which are no characters.")
    if foreign and not is_exact(before):
        raise ToolError(
            f"This file is not UTF-8: only ASCII can be added to it, not {' '.join(foreign[:5])}. What an edit leaves "
            "alone stays as it is."
        )
