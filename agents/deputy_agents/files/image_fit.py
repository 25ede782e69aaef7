"""Decodes an image and, where a model service needs that, makes it smaller.

Images are hostile, so :func:`main` runs in a process of its own, with little memory and time; ``tool/`` starts it. It
imports little, because it starts for every image.
"""

import json
import sys
from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING, Final

from deputy_agents.concurrency.own_limits import limit_resources

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_SIDE: Final = 1568
"""Pixels of the longer side. Services make larger images smaller themselves, and reject much larger ones."""
MAX_BYTES: Final = 5 * 1024 * 1024 * 3 // 4
"""5 MiB after base64 encoding, which is what services accept."""
MAX_PIXELS: Final = 50_000_000
"""Pixels that are decoded."""
MAX_JPEG_PIXELS: Final = 250_000_000
"""Pixels of a JPEG image whose parts follow one another, so that it can be decoded at a smaller size."""

_MAX_MEMORY: Final = 2**30
_MAX_CPU: Final = 10
"""Seconds."""
_PNG_BYTES: Final = 1024 * 1024
"""Beyond this size, a smaller image is encoded as JPEG."""
_QUALITIES: Final = (88, 75, 50, 30)
_FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP")
_ORIENTATION: Final = 0x0112
"""The EXIF tag that says how to turn the image."""


class Unusable(Exception):
    """The image cannot be used. The message is for the user."""


def main() -> None:
    """Write what :func:`fit` returns for the image on standard input: a line of JSON, and the new bytes if there are
    any."""
    limit_resources(_MAX_MEMORY, _MAX_CPU)
    result: dict[str, object]
    new = b""
    try:
        result, new = fit(sys.stdin.buffer.read())
    except Unusable as error:
        result = {"error": str(error)}
    sys.stdout.buffer.write(json.dumps(result).encode() + b"\n" + new)
    sys.stdout.buffer.flush()


def fit(data: bytes) -> tuple[dict[str, object], bytes]:
    """The ``size`` in pixels of the image in ``data`` as a service should get it, with its ``media_type``,
    ``original`` size and bytes if it had to be changed.

    Raises:
        Unusable: it is damaged or has too many pixels.
    """
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # other limits apply
    original = (0, 0)
    try:
        with Image.open(BytesIO(data), formats=_FORMATS) as image:
            original = image.size
            _check_size(image)
            image.draft(None, (MAX_SIDE, MAX_SIDE))
            image.load()
            turned = image.getexif().get(_ORIENTATION, 1) not in (0, 1)
            if not turned and max(original) <= MAX_SIDE and len(data) <= MAX_BYTES:
                return {"size": original}, b""
            return _reduced(image, original)
    except Unusable:
        raise
    except MemoryError:
        raise Unusable(_too_large(*original)) from None
    except Exception:  # noqa: BLE001 - decoders fail in many ways
        raise Unusable("The image is damaged or incomplete.") from None


def _check_size(image: "Image") -> None:
    width, height = image.size
    limit = MAX_JPEG_PIXELS if image.format == "JPEG" and not image.info.get("progressive") else MAX_PIXELS
    if width < 1 or height < 1 or width * height > limit:
        raise Unusable(_too_large(width, height))


def _too_large(width: int, height: int) -> str:
    return f"The image has {width} x {height} pixels, which is too much. Make it smaller."


def _reduced(image: "Image", original: tuple[int, int]) -> tuple[dict[str, object], bytes]:
    from PIL import ImageOps

    source = image.format
    plain = _with_plain_mode(image)
    plain.thumbnail((MAX_SIDE, MAX_SIDE))
    ImageOps.exif_transpose(plain, in_place=True)
    for kind, new in _encodings(plain, source):
        if len(new) <= (_PNG_BYTES if kind == "png" else MAX_BYTES):
            smaller = max(original) > max(plain.size)
            result: dict[str, object] = {"size": plain.size, "media_type": f"image/{kind}"}
            return result | ({"original": original} if smaller else {}), new
    raise Unusable("The image is too large. Make it smaller.")


def _with_plain_mode(image: "Image") -> "Image":
    """The first frame in a mode that every encoder has."""
    if image.mode.startswith("I") or image.mode == "F":
        wide = image.convert("F")  # gray with 16 bits
        return wide.point(lambda value: value * (1 / 257)).convert("L")  # pyright: ignore[reportUnknownMemberType]
    if image.has_transparency_data:
        return image.convert("RGBA")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _encodings(image: "Image", source: str | None) -> Iterator[tuple[str, bytes]]:
    """``image`` in the formats that may fit, the best first."""
    if source != "JPEG":
        yield "png", _encode(image, "PNG")
    if image.mode == "RGBA":
        from PIL import Image

        background = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(background, image).convert("RGB")
    for quality in _QUALITIES:
        yield "jpeg", _encode(image, "JPEG", quality=quality)


def _encode(image: "Image", kind: str, **options: int) -> bytes:
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()
