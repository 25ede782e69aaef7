"""Images as models get them: decoded in processes of their own, and made smaller where services need that."""

import json
from collections.abc import Sequence
from typing import Final, cast

from anyio import to_thread

from deputy_agents.domain.errors import ToolError
from deputy_agents.files.image import DAMAGED, ImageFile, decoded, encoded, media_type
from deputy_agents.files.image_fit import MAX_BYTES
from deputy_agents.tool.conversion import convert

TIMEOUT: Final = 15.0
"""Seconds for one image."""

_MAX_OUTPUT: Final = MAX_BYTES + 1024


async def read_image(data: bytes) -> ImageFile | None:
    """The image in ``data`` as a model gets it: unchanged if it can be; otherwise turned, made smaller or encoded
    again. ``None`` if ``data`` is not in a format that models accept.

    Raises:
        ToolError: it is damaged or too large.
    """
    kind = await to_thread.run_sync(media_type, data)
    if kind is None:
        return None
    try:
        output = await convert("deputy_agents.files.image_fit", data, TIMEOUT, _MAX_OUTPUT)
    except TimeoutError:
        raise ToolError(f"The image cannot be decoded within {TIMEOUT:g} s.") from None
    return await to_thread.run_sync(_image_file, data, kind, output)


async def decode_image(base64: str) -> ImageFile | None:
    """As :func:`read_image`, for an image in ``base64``.

    Raises:
        ToolError: it is damaged or too large.
    """
    return await read_image(await to_thread.run_sync(decoded, base64))


def _image_file(data: bytes, kind: str, output: bytes) -> ImageFile:
    head, _, new = output.partition(b"\n")
    if not head:
        raise ToolError(DAMAGED)  # the process was ended, or its library failed
    result = cast("dict[str, object]", json.loads(head))
    if "error" in result:
        raise ToolError(str(result["error"]))
    width, height = cast("Sequence[int]", result["size"])
    original = cast("Sequence[int] | None", result.get("original"))
    image = encoded(new, str(result["media_type"])) if new else encoded(data, kind)
    return ImageFile(image, width, height, (original[0], original[1]) if original else None)
