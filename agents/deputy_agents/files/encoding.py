"""Conversion of the bytes of a text file to text and back, without loss.

The encoding is UTF-8 unless a byte order mark says otherwise; the mark is preserved. Each byte that is not valid UTF-8
is represented by a lone surrogate and written back as the same byte, so an edit preserves everything that it does not
touch.
"""

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.file_change import FileForm
from deputy_agents.text import is_well_formed

_BYTES = re.compile("[\udc80-\udcff]")
"""Represents bytes that are not valid UTF-8."""
REPLACED = "\ufffd"
"""Shown by editors in place of bytes that they cannot decode."""
_PART = 2**17
_UNDECODED = re.compile(f"[\udc80-\udcff{REPLACED}]+")


@dataclass(frozen=True, slots=True)
class Encoding:
    """A codec and its byte order mark, which is part of the file but not of the text."""

    codec: str
    bom: bytes = b""

    def encode(self, text: str) -> bytes:
        """Encode ``text``.

        Raises:
            UnicodeEncodeError: ``text`` contains something that is neither a character nor a preserved byte.
        """
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
    """Decode ``data``; ``None`` if it is binary."""
    for encoding in _MARKED:
        if data.startswith(encoding.bom):
            try:
                return data[len(encoding.bom) :].decode(encoding.codec), encoding
            except UnicodeDecodeError:
                break
    return None if b"\0" in data else (data.decode(UTF8.codec, "surrogateescape"), UTF8)


FileVersion: TypeAlias = tuple[str, FileForm] | tuple[None, None]
"""The text of a file and its form; nothing if there is no file."""


def file_version(data: bytes | None, mode: int | None = None) -> FileVersion:
    """The text of a file and its form. Each byte of a binary file is one character."""
    if data is None:
        return None, None
    found = decode(data)
    if found is None:
        return data.decode("latin-1"), FileForm(binary=True, mode=mode)
    text, encoding = found
    return text, FileForm(encoding.codec, encoding.bom, mode=mode)


def file_data(text: str, form: FileForm) -> bytes:
    """The inverse of :func:`file_version`.

    Raises:
        ToolError: the text contains something that the encoding does not have.
    """
    if form.binary:
        return text.encode("latin-1")
    plain = (form.codec, form.bom) == (UTF8.codec, UTF8.bom)
    try:
        return (UTF8 if plain else Encoding(form.codec, form.bom)).encode(text)
    except UnicodeEncodeError:
        raise ToolError(f"The text contains characters that {form.codec} does not have.") from None


def is_exact(text: str) -> bool:
    """Whether the whole file was valid UTF-8."""
    return is_well_formed(text) or _BYTES.search(text) is None


def as_displayed(text: str) -> str:
    """``text`` in a form that is equal for all the ways in which editors show it: they differ in how many replacement
    characters they show for undecoded bytes, and in line ends."""
    if REPLACED in text or not is_well_formed(text):
        text = _UNDECODED.sub(REPLACED, text)
    return text.replace("\r\n", "\n")


def fingerprint(text: str) -> str:
    """A hash of ``text`` that is equal for all the ways in which editors show a file."""
    return blake2b(as_displayed(text).encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _characters(text: str) -> set[str]:
    # In parts, because no other thread can run while a set is made.
    return set[str]().union(*(set(text[at : at + _PART]) for at in range(0, len(text), _PART)))


def check_new(text: str, before: str = "") -> None:
    """Check whether ``text`` can replace ``before`` in a file.

    Raises:
        ToolError: it adds something that is not a character, or it adds non-ASCII characters to a file that is not
            UTF-8. The encoding of such a file is unknown, so its readers would see other characters.
    """
    if is_well_formed(text) and is_well_formed(before):
        return
    foreign = sorted(char for char in _characters(text) - _characters(before) if not char.isascii())
    if any("\ud800" <= char <= "\udfff" for char in foreign):
        raise ToolError("The new text contains lone surrogates, which are not characters.")
    if foreign and not is_exact(before):
        raise ToolError(
            f"This file is not UTF-8. Add only ASCII characters, not {' '.join(foreign[:5])}. The rest of the file is "
            "preserved."
        )
