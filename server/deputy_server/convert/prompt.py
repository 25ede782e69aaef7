"""Client prompts as message blocks."""

from collections.abc import Sequence
from pathlib import Path

from deputy_agents.domain.errors import InvalidRequest, ToolError
from deputy_agents.domain.message import Block, Image, Text
from deputy_agents.files.image import decoded, media_type
from deputy_protocol import message
from deputy_server.convert.place import place_text

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def prompt_from_wire(prompt: Sequence[message.PromptBlock], cwd: Path) -> tuple[Block, ...]:
    """The blocks of a prompt. Files are named, relative to ``cwd`` where they are below it, but not included: agents
    read them on demand. Images are not decoded yet.

    Raises:
        InvalidRequest: an image is incomplete, too large, or in another format than models accept.
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


def prompt_to_wire(blocks: Sequence[Block]) -> tuple[message.PromptBlock, ...]:
    """A prompt as the user wrote it: its texts and images."""
    return tuple(filter(None, map(_block_to_wire, blocks)))


def _block_to_wire(block: Block) -> message.PromptBlock | None:
    match block:
        case Text(text):
            return message.TextBlock(text=text)
        case Image(kind, data) if kind in _IMAGES:
            return message.ImageBlock.model_validate({"mimeType": kind, "data": data})
        case _:
            return None


def image_from_base64(data: str, field: str) -> Image:
    """An image from base64. Its format is detected from the bytes, not taken from the client.

    Raises:
        InvalidRequest: the image is incomplete, too large, or in another format; the error names ``field``.
    """
    try:
        kind = media_type(decoded(data))
    except ToolError as error:
        raise InvalidRequest(f"{field}: {error}", field) from None
    if kind is None:
        raise InvalidRequest(f"{field}: not a PNG, JPEG, GIF or WebP image.", field)
    return Image(kind, data)
