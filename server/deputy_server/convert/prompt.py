"""Client prompts as message blocks."""

from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path

from deputy_agents.domain.errors import InvalidRequest, ToolError
from deputy_agents.domain.message import Block, Image, Text
from deputy_agents.files.image import read_image
from deputy_protocol import message
from deputy_server.convert.place import place_text


def prompt_from_wire(prompt: Sequence[message.PromptBlock], cwd: Path) -> tuple[Block, ...]:
    """The blocks that the model reads. Files are named, relative to ``cwd`` where they are below it, but not included:
    agents read them on demand.

    Raises:
        InvalidRequest: an image is invalid, or larger than models accept.
    """
    return tuple(_block(block, cwd, f"prompt[{index}].data") for index, block in enumerate(prompt))


def _block(block: message.PromptBlock, cwd: Path, field: str) -> Block:
    match block:
        case message.TextBlock():
            return Text(block.text)
        case message.ImageBlock():
            return image_from_base64(block.data, field)
        case message.ResourceLink():
            return Text(f"(about {place_text(block.uri, block.range, cwd)})")


def image_from_base64(data: str, field: str) -> Image:
    """An image from base64. Its format is detected from the bytes, not taken from the client.

    Raises:
        InvalidRequest: the image is invalid, or larger than models accept; the error names ``field``.
    """
    try:
        found = read_image(b64decode(data, validate=True))
    except (ToolError, ValueError) as error:
        raise InvalidRequest(f"{field}: {error}", field) from None
    if found is None:
        raise InvalidRequest(f"{field}: not a PNG, JPEG, GIF or WebP image.", field)
    return found.image
