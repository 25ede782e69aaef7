"""Pictures as models take them. One that a model's service refuses would spoil every later request of the
conversation, so only sound ones get in."""

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO

from deputy_agents.domain.errors import ToolError
from deputy_agents.domain.message import Image

MAX_BYTES = 5 * 1024 * 1024 * 3 // 4
"""5 MiB once they are base64."""

MAX_SIDE = 8000
"""Pixels."""

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
"""Names that make a file worth a look for a picture; what it is, its bytes say."""


@dataclass(frozen=True, slots=True)
class ImageFile:
    """``width`` and ``height`` are in pixels."""

    image: Image
    width: int
    height: int
    size: int

    def __str__(self) -> str:
        return f"{self.image.media_type.removeprefix('image/').upper()} picture, {self.width} x {self.height} pixels"


@dataclass(frozen=True, slots=True)
class _Kind:
    media_type: str
    starts: Callable[[bytes], bool]
    ends: Callable[[bytes], bool]
    """Nothing is missing at the end, as it is where a download was cut."""


_KINDS = (
    _Kind("image/png", lambda data: data.startswith(b"\x89PNG\r\n\x1a\n"), lambda data: b"IEND\xaeB`\x82" in data),
    _Kind("image/jpeg", lambda data: data.startswith(b"\xff\xd8\xff"), lambda data: b"\xff\xd9" in data),
    _Kind("image/gif", lambda data: data.startswith((b"GIF87a", b"GIF89a")), lambda data: b";" in data[-16:]),
    _Kind(
        "image/webp",
        lambda data: data.startswith(b"RIFF") and data[8:12] == b"WEBP",
        lambda data: int.from_bytes(data[4:8], "little") + 8 <= len(data),
    ),
)


def read_image(data: bytes) -> ImageFile | None:
    """The picture that ``data`` is; ``None`` when it is none of a kind that models take.

    Raises:
        ToolError: it is damaged or too large.
    """
    kind = next((kind for kind in _KINDS if kind.starts(data)), None)
    if kind is None:
        return None
    import imagesize  # pyright: ignore[reportMissingTypeStubs] - late, as few agents look at pictures

    width, height = imagesize.get(BytesIO(data), exif_rotation=False)  # pyright: ignore[reportUnknownMemberType]
    if not kind.ends(data) or min(width, height) < 1:
        raise ToolError("The picture is damaged or not complete.")
    if len(data) > MAX_BYTES:
        raise ToolError(f"The picture has {len(data):,} bytes, more than the {MAX_BYTES:,} that a model takes.")
    if max(width, height) > MAX_SIDE:
        raise ToolError(f"The picture has {width} x {height} pixels; a model takes at most {MAX_SIDE} on a side.")
    return ImageFile(Image(kind.media_type, b64encode(data).decode()), width, height, len(data))
