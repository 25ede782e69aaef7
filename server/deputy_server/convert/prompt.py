"""Prompts of clients as message blocks."""

from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path

from deputy_agents.domain.errors import InvalidRequest, ToolError
from deputy_agents.domain.message import Block, Image, Text
from deputy_agents.files.image import read_image
from deputy_protocol import message
from deputy_server.convert.place import place_text


def prompt_blocks(prompt: Sequence[message.PromptBlock], cwd: Path) -> tuple[Block, ...]:
    """What the model reads of a prompt. Files are named, relative to ``cwd`` where they are below it; an agent that
    wants their text reads them.

    Raises:
        InvalidRequest: an image is none, or is more than a model takes.
    """
    return tuple(_block(block, cwd, f"prompt[{index}].data") for index, block in enumerate(prompt))


def _block(block: message.PromptBlock, cwd: Path, field: str) -> Block:
    match block:
        case message.TextBlock():
            return Text(block.text)
        case message.ImageBlock():
            return prompt_image(block.data, field)
        case message.ResourceLink():
            return Text(f"(about {place_text(block.uri, block.range, cwd)})")


def prompt_image(data: str, field: str) -> Image:
    """A picture from base64. What the bytes say that it is counts, not what the client took it for.

    Raises:
        InvalidRequest: it is none, or is more than a model takes; the error names ``field``.
    """
    try:
        found = read_image(b64decode(data, validate=True))
    except (ToolError, ValueError) as error:
        raise InvalidRequest(f"{field}: {error}", field) from None
    if found is None:
        raise InvalidRequest(f"{field}: a PNG, JPEG, GIF or WebP picture is needed.", field)
    return found.image
