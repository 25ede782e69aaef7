"""Reads and validates images for models. An image that a provider rejects would make every later request of the
conversation fail, so only valid ones are accepted."""

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.message import Image

MAX_BYTES = 5 * 1024 * 1024 * 3 // 4
"""5 MiB after base64 encoding."""

MAX_SIDE = 8000
"""Pixels."""

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
"""Suffixes of files that are tried as images. The format is read from the bytes."""


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An image; ``width`` and ``height`` are in pixels, ``size`` is in bytes of the file."""

    image: Image
    width: int
    height: int
    size: int

    def __str__(self) -> str:
        return f"{self.image.media_type.removeprefix('image/').upper()} image, {self.width} x {self.height} pixels"


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


def read_image(data: bytes) -> ImageFile | None:
    """Read an image; ``None`` if ``data`` is not in a format that models accept.

    Raises:
        ToolError: it is damaged or too large.
    """
    found = next((one for one in _FORMATS if one.starts(data)), None)
    if found is None:
        return None
    import imagesize  # pyright: ignore[reportMissingTypeStubs] - late: few agents read images

    width, height = imagesize.get(BytesIO(data), exif_rotation=False)  # pyright: ignore[reportUnknownMemberType]
    if not found.ends(data) or min(width, height) < 1:
        raise ToolError("The image is damaged or incomplete.")
    if len(data) > MAX_BYTES:
        raise ToolError(f"The image has {len(data):,} bytes; models accept at most {MAX_BYTES:,}.")
    if max(width, height) > MAX_SIDE:
        raise ToolError(f"The image has {width} x {height} pixels; models accept at most {MAX_SIDE} on a side.")
    return ImageFile(Image(found.media_type, b64encode(data).decode()), width, height, len(data))
