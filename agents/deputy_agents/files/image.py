"""Images for models: which bytes are one, and what a model gets of it.

A service rejects every request that contains an image which it cannot decode or which is too large, so
``tool/image_process.py`` has each image decoded before it is used.
"""

from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Callable
from dataclasses import dataclass

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.message import Image

MAX_FILE = 32 * 1024 * 1024
"""Bytes of an image that is accepted."""

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
"""Suffixes of files that are tried as images. The format is read from the bytes."""

DAMAGED = "The image is damaged or incomplete."


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An image as the model gets it; ``width`` and ``height`` are in pixels. ``original`` is the size in pixels of a
    larger one that it was made from."""

    image: Image
    width: int
    height: int
    original: tuple[int, int] | None = None

    def __str__(self) -> str:
        kind = self.image.media_type.removeprefix("image/").upper()
        reduced = f", reduced from {self.original[0]} x {self.original[1]}" if self.original else ""
        return f"{kind} image, {self.width} x {self.height} pixels{reduced}"


@dataclass(frozen=True, slots=True)
class _Format:
    media_type: str
    starts: Callable[[bytes], bool]
    ends: Callable[[bytes], bool]
    """Whether the data is complete, unlike an interrupted download."""


_FORMATS = (
    _Format("image/png", lambda data: data.startswith(b"\x89PNG\r\n\x1a\n"), lambda data: b"IEND\xaeB`\x82" in data),
    _Format("image/jpeg", lambda data: data.startswith(b"\xff\xd8\xff"), lambda data: b"\xff\xd9" in data),
    _Format("image/gif", lambda data: data.startswith((b"GIF87a", b"GIF89a")), lambda data: b";" in data[-16:]),
    _Format(
        "image/webp",
        lambda data: data.startswith(b"RIFF") and data[8:12] == b"WEBP",
        lambda data: int.from_bytes(data[4:8], "little") + 8 <= len(data),
    ),
)


def media_type(data: bytes) -> str | None:
    """The media type of an image; ``None`` if ``data`` is not in a format that models accept.

    Raises:
        ToolError: it is incomplete or too large.
    """
    found = next((one for one in _FORMATS if one.starts(data)), None)
    if found is None:
        return None
    if len(data) > MAX_FILE:
        raise ToolError(f"The image has {len(data):,} bytes; at most {MAX_FILE:,} are accepted.")
    if not found.ends(data):
        raise ToolError(DAMAGED)
    return found.media_type


def encoded(data: bytes, media_type: str) -> Image:
    return Image(media_type, b64encode(data).decode())


def decoded(base64: str) -> bytes:
    """The bytes of an image.

    Raises:
        ToolError: ``base64`` is invalid or too long.
    """
    if len(base64) > MAX_FILE * 4 // 3 + 4:
        raise ToolError(f"The image is too large; at most {MAX_FILE:,} bytes are accepted.")
    try:
        return b64decode(base64, validate=True)
    except (Error, ValueError):
        raise ToolError("The image is not valid base64.") from None
